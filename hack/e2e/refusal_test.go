/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The API server's message for each mistake.
const (
	noCIDR    = "must be an IPv4 or IPv6 address and a prefix length, such as 192.168.0.0/16 or fd00:1::/64"
	noAddress = "must be an IP address inside cidr, such as 192.168.0.1, or None"
	family    = " is not of the same IP family as cidr, "
	outside   = " is not an address inside cidr, "
	notAHost  = " must not be the first or the last address of cidr, "
	tooLong   = "Too long"
)

func TestAPIServerRefusesInvalidSpecsWithTheReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tests := []struct {
		why, cidr, gateway string
		// field is refused with message; if both are empty, the manifest is accepted.
		field, message string
	}{
		{"the example", "192.168.0.0/16", "192.168.0.1", "", ""},
		{"host bits are masked", "192.168.1.0/16", "192.168.0.1", "", ""},
		{"no gateway given", "10.0.0.0/8", "", "", ""},
		{"no gateway wanted", "10.0.0.0/8", "None", "", ""},
		{"the largest", "0.0.0.0/0", "10.0.0.1", "", ""},
		{"all hosts of a /30", "10.0.0.0/30", "10.0.0.2", "", ""},
		{"a /31 has neither network nor broadcast address", "10.0.0.0/31", "10.0.0.0", "", ""},
		{"a /32 neither", "10.0.0.1/32", "10.0.0.1", "", ""},
		{"last but one of a /8", "10.0.0.0/8", "10.255.255.254", "", ""},
		{"ends in 0 and 255 but is a host", "10.0.0.0/8", "10.0.255.0", "", ""},
		{"IPv6", "fd00:1::/64", "fd00:1::1", "", ""},
		{"the first address of IPv6 is Neutron's own default", "fd00:1::/64", "fd00:1::", "", ""},
		{"the last address of IPv6 is not for broadcasts", "fd00:1::/64", "fd00:1::ffff:ffff:ffff:ffff", "", ""},

		{"a word", "abc", "", "spec.cidr", noCIDR},
		{"empty", "", "", "spec.cidr", noCIDR},
		{"an address without a length", "192.168.0.0", "", "spec.cidr", noCIDR},
		{"a length without an address", "/16", "", "spec.cidr", noCIDR},
		{"an octet too large", "300.1.1.0/24", "", "spec.cidr", noCIDR},
		{"a length too large", "10.0.0.0/33", "", "spec.cidr", noCIDR},
		{"a leading zero, which some read as octal", "010.0.0.0/8", "", "spec.cidr", noCIDR},
		{"a mask", "10.0.0.0/255.0.0.0", "", "spec.cidr", noCIDR},
		{"IPv4 dressed up as IPv6", "::ffff:10.0.0.0/104", "", "spec.cidr", noCIDR},
		{"a zone", "fe80::%eth0/64", "", "spec.cidr", noCIDR},
		{"a blank", " 10.0.0.0/8", "", "spec.cidr", noCIDR},
		{"longer than any", strings.Repeat("1", 44), "", "spec.cidr", tooLong},

		{"a word", "10.0.0.0/8", "abc", "spec.gateway", noAddress},
		{"None is a word of its own", "10.0.0.0/8", "none", "spec.gateway", noAddress},
		{"a CIDR", "10.0.0.0/8", "10.0.0.1/8", "spec.gateway", noAddress},
		{"a leading zero", "10.0.0.0/8", "10.0.0.01", "spec.gateway", noAddress},
		{"longer than any", "10.0.0.0/8", strings.Repeat("1", 40), "spec.gateway", tooLong},
		{"outside", "192.168.0.0/16", "10.1.0.1", "spec.gateway", outside + "192.168.0.0/16"},
		{"just outside", "10.0.0.0/30", "10.0.0.4", "spec.gateway", outside + "10.0.0.0/30"},
		{"outside, in IPv6", "fd00:1::/64", "fd00:2::1", "spec.gateway", outside + "fd00:1::/64"},
		{"IPv6 for IPv4", "192.168.0.0/16", "fd00::1", "spec.gateway", family},
		{"IPv4 for IPv6", "fd00:1::/64", "192.168.0.1", "spec.gateway", family},
		{"network address of a /16", "192.168.0.0/16", "192.168.0.0", "spec.gateway", notAHost},
		{"of a /30", "10.0.0.4/30", "10.0.0.4", "spec.gateway", notAHost},
		{"of a /8", "10.0.0.0/8", "10.0.0.0", "spec.gateway", notAHost},
		{"of a /0", "0.0.0.0/0", "0.0.0.0", "spec.gateway", notAHost},
		{"of what host bits hide", "192.168.1.0/16", "192.168.0.0", "spec.gateway", notAHost},
		{"broadcast address of a /16", "192.168.0.0/16", "192.168.255.255", "spec.gateway", notAHost},
		{"of a /23", "10.0.0.0/23", "10.0.1.255", "spec.gateway", notAHost},
		{"of a /30", "10.0.0.4/30", "10.0.0.7", "spec.gateway", notAHost},
		{"of a /8", "10.0.0.0/8", "10.255.255.255", "spec.gateway", notAHost},
		{"of a /0", "0.0.0.0/0", "255.255.255.255", "spec.gateway", notAHost},

		{"one mistake in cidr says nothing of gateway", "abc", "10.0.0.1", "spec.cidr", noCIDR},
	}
	for _, tc := range tests {
		t.Run(fmt.Sprintf("%s %s %s", tc.why, tc.cidr, tc.gateway), func(t *testing.T) {
			w := w.at(t)
			w.refused(w.dryRun(manifest("net", tc.cidr, tc.gateway)), tc.field, tc.message)
		})
	}
	t.Run("no cidr at all", func(t *testing.T) {
		w := w.at(t)
		without := strings.Replace(manifest("net", "x", ""), `  cidr: "x"`, "  gateway: None", 1)
		w.refused(w.dryRun(without), "spec.cidr", "Required value")
	})
	t.Run("no spec at all", func(t *testing.T) {
		w := w.at(t)
		without, _, _ := strings.Cut(manifest("net", "x", ""), "spec:")
		w.refused(w.dryRun(without), "spec", "Required value")
	})
}

// dryRun sends a manifest to the API server as kubectl does, and returns the error.
func (w *world) dryRun(manifest string) error {
	return w.client.SamplecrdV1().RESTClient().Post().
		Namespace(w.namespace).Resource("networks").
		Param("dryRun", metav1.DryRunAll).
		SetHeader("Content-Type", "application/yaml").
		Body([]byte(manifest)).
		Do(w.Context()).Error()
}

// causesOf returns the causes of a refusal, except the one that only says that the rules were not
// evaluated, because the schema is violated.
func causesOf(err error) []metav1.StatusCause {
	return slices.DeleteFunc(err.(apierrors.APIStatus).Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return strings.Contains(cause.Message, "some validation rules were not checked")
	})
}

// refused fails unless the error is for that field only, with that message. For the field
// "" it fails unless there is no error.
func (w *world) refused(err error, field, message string) {
	w.Helper()
	if field == "" {
		if err != nil {
			w.Errorf("refused: %v", err)
		}
		return
	}
	if !apierrors.IsInvalid(err) {
		w.Fatalf("want it refused as invalid, got %v", err)
	}
	causes := causesOf(err)
	if len(causes) != 1 || causes[0].Field != field || !strings.Contains(causes[0].Message, message) {
		w.Errorf("want one cause, %s: %s; got %+v", field, message, causes)
	}
}

func TestEditIsRefusedLikeACreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply("net", "192.168.0.0/16", "192.168.0.1") // the test needs no controller
	tests := []struct{ why, patch, field, message string }{
		{"the gateway moves out", `{"gateway":"10.0.0.1"}`, "spec.gateway", outside + "192.168.0.0/16"},
		{"the CIDR moves away from the gateway", `{"cidr":"10.0.0.0/8"}`, "spec.gateway", outside + "10.0.0.0/8"},
		{"the CIDR shrinks so that the gateway is its last address", `{"cidr":"192.168.0.0/30","gateway":"192.168.0.3"}`, "spec.gateway", notAHost},
		{"the CIDR is taken away", `{"cidr":null}`, "spec.cidr", "Required value"},
		{"the CIDR is no CIDR any more", `{"cidr":"192.168.0.0"}`, "spec.cidr", noCIDR},
		{"both move", `{"cidr":"10.0.0.0/8","gateway":"10.0.0.1"}`, "", ""},
		{"the gateway is taken away", `{"gateway":null}`, "", ""},
	}
	for _, tc := range tests {
		t.Run(tc.why, func(t *testing.T) {
			w := w.at(t)
			_, err := w.client.SamplecrdV1().Networks(w.namespace).Patch(t.Context(), "net", types.MergePatchType,
				[]byte(`{"spec":`+tc.patch+`}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			w.refused(err, tc.field, tc.message)
		})
	}
}

func TestKubectlShowsWhatTheAPIServerRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.tryKubectl(manifest("net", "192.168.0.0/16", "10.0.0.1"), "apply", "--dry-run=server", "-f", "-")
	if err == nil {
		t.Fatal("the manifest was accepted")
	}
	w.contains(err.Error(), `The Network "net" is invalid: spec.gateway: Invalid value: 10.0.0.1 is not an address inside cidr, 192.168.0.0/16`)
	_, err = w.tryKubectl(strings.Replace(manifest("net", "10.0.0.0/8", ""), "cidr", "cdir", 1), "apply", "--dry-run=server", "-f", "-")
	if err == nil {
		t.Fatal("the manifest was accepted")
	}
	w.contains(err.Error(), `unknown field "spec.cdir"`)
}

// warnings returns how many warning events the Network has, repeated ones included.
func (w *world) warnings(name string) int {
	w.Helper()
	n := 0
	for _, e := range w.events(name, "") {
		if e.Type == "Warning" {
			n += int(max(1, e.Count))
		}
	}
	return n
}
