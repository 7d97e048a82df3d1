// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"strings"
	"testing"
)

func TestOwnerOf(t *testing.T) {
	for _, test := range []struct {
		name        string
		description string
		want        Owner
	}{
		{"text before the mark is the user's", "the DMZ samplecrd.k8s.io/owner=c/u", Owner{"c", "u"}},
		{"the last of two marks counts", "samplecrd.k8s.io/owner=a/b samplecrd.k8s.io/owner=c/u", Owner{"c", "u"}},
		{"case counts in the cluster and the UID", "samplecrd.k8s.io/owner=C/U", Owner{"C", "U"}},
		{"a mark in another case is not from the controller", "SampleCRD.k8s.io/owner=c/u", Owner{}},
		{"text after the mark hides it", "samplecrd.k8s.io/owner=c/u and more", Owner{}},
		{"text that touches the mark is part of another word", "xsamplecrd.k8s.io/owner=c/u", Owner{}},
		{"a mark that is cut off before the UID", "samplecrd.k8s.io/owner=c/", Owner{}},
		{"a mark without a cluster", "samplecrd.k8s.io/owner=/u", Owner{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, marked := OwnerOf(test.description)
			equal(t, test.want, got)
			equal(t, test.want != Owner{}, marked)
		})
	}
}

func TestTheMarkFitsIntoADescription(t *testing.T) {
	equal(t, true, len(Owner{Cluster: strings.Repeat("c", 63), UID: owner.UID}.Mark()) <= 255) // characters in Neutron
}

func TestName(t *testing.T) {
	namespace := strings.Repeat("n", 63) // the greatest length in Kubernetes
	fits := strings.Repeat("a", maxName-len(namespace)-1)
	equal(t, namespace+"/"+fits, Name(namespace, fits))
	equal(t, "a-cea5a268", Name(namespace, fits+"a")[maxName-10:]) // another version must not rename networks
	seen := map[string]bool{}
	for _, name := range []string{fits + "a", fits + "b", strings.Repeat("a", 253)} {
		got := Name(namespace, name)
		if len(got) != maxName || !strings.HasPrefix(got, namespace+"/aaa") || seen[got] {
			t.Errorf("got %q of length %d", got, len(got))
		}
		seen[got] = true
	}
}
