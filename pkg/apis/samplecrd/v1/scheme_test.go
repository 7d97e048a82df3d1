// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/scheme"
)

// networkKind is what the API server calls the Go type samplecrdv1.Network: its group,
// version and kind (GVK). A manifest has it as "apiVersion: samplecrd.k8s.io/v1" and
// "kind: Network".
var networkKind = schema.GroupVersionKind{Group: "samplecrd.k8s.io", Version: "v1", Kind: "Network"}

// A scheme is two maps: from Go types to GVKs, and from GVKs to Go types. The clientset has
// a scheme of its own. It is filled by AddToScheme in zz_generated.register.go.

// The clientset uses this map when it sends an object. A Go struct does not contain its
// GVK, so the encoder looks it up.
func TestTheSchemeMapsTheGoTypeToItsKind(t *testing.T) {
	kinds, _, err := scheme.Scheme.ObjectKinds(&samplecrdv1.Network{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]schema.GroupVersionKind{networkKind}, kinds); diff != "" {
		t.Errorf("the kinds of *samplecrdv1.Network (-want +got):\n%s", diff)
	}
}

// The clientset uses this map when it receives an object. The bytes contain the GVK, and the
// decoder needs an empty Go struct for them.
func TestTheSchemeMapsTheKindToItsGoType(t *testing.T) {
	object, err := scheme.Scheme.New(networkKind)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := object.(*samplecrdv1.Network); !ok {
		t.Errorf("got a %T for %s, want a *samplecrdv1.Network", object, networkKind)
	}
	want := reflect.TypeFor[samplecrdv1.Network]()
	if got := scheme.Scheme.AllKnownTypes()[networkKind]; got != want {
		t.Errorf("got the type %v for %s, want %v", got, networkKind, want)
	}
}

// Both maps at work: a Network is encoded, and decoded again.
func TestTheSchemeEncodesAndDecodesANetwork(t *testing.T) {
	network := &samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example-network"},
		Spec:       samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "192.168.0.0/16", Gateway: "192.168.0.1"}},
	}
	codec := scheme.Codecs.LegacyCodec(samplecrdv1.SchemeGroupVersion)
	data, err := runtime.Encode(codec, network)
	if err != nil {
		t.Fatal(err)
	}
	// The encoder has added the GVK, although network.TypeMeta is empty.
	var written metav1.TypeMeta
	if err := json.Unmarshal(data, &written); err != nil {
		t.Fatal(err)
	}
	want := metav1.TypeMeta{APIVersion: "samplecrd.k8s.io/v1", Kind: "Network"}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("encoded (-want +got):\n%s", diff)
	}
	// No Go type is passed here: the decoder takes it from the scheme.
	decoded, kind, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if *kind != networkKind {
		t.Errorf("decoded the kind %s, want %s", kind, networkKind)
	}
	got, ok := decoded.(*samplecrdv1.Network)
	if !ok {
		t.Fatalf("decoded a %T", decoded)
	}
	if diff := cmp.Diff(network.Spec, got.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}
