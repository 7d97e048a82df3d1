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
		{"a mark alone", "samplecrd.k8s.io/owner=c/u", Owner{"c", "u"}},
		{"text before the mark is the user's", "the DMZ samplecrd.k8s.io/owner=c/u", Owner{"c", "u"}},
		{"the last of two marks counts", "samplecrd.k8s.io/owner=a/b samplecrd.k8s.io/owner=c/u", Owner{"c", "u"}},
		{"another cluster's mark is a mark", "samplecrd.k8s.io/owner=d/u", Owner{"d", "u"}},
		{"case counts in the cluster and the UID", "samplecrd.k8s.io/owner=C/U", Owner{"C", "U"}},
		{"no description", "", Owner{}},
		{"a description without a mark", "my network", Owner{}},
		{"a mark in another case is not from the controller", "SampleCRD.k8s.io/owner=c/u", Owner{}},
		{"text after the mark hides it", "samplecrd.k8s.io/owner=c/u and more", Owner{}},
		{"a blank after the mark hides it", "samplecrd.k8s.io/owner=c/u ", Owner{}},
		{"text that touches the mark is part of another word", "xsamplecrd.k8s.io/owner=c/u", Owner{}},
		{"a mark that is cut off before the UID", "samplecrd.k8s.io/owner=c/", Owner{}},
		{"a mark that is cut off before the slash", "samplecrd.k8s.io/owner=c", Owner{}},
		{"a mark without a cluster", "samplecrd.k8s.io/owner=/u", Owner{}},
		{"an empty mark", "samplecrd.k8s.io/owner=", Owner{}},
		{"a mark with only a slash", "samplecrd.k8s.io/owner=/", Owner{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, marked := OwnerOf(test.description)
			equal(t, test.want, got)
			equal(t, test.want != Owner{}, marked)
		})
	}
}

func TestTheMarkFitsIntoADescription(t *testing.T) {
	const most = 255 // characters in Neutron
	longest := Owner{Cluster: strings.Repeat("c", 63), UID: owner.UID}.Mark()
	if len(longest) > most {
		t.Errorf("the mark of the longest cluster ID has %d characters", len(longest))
	}
}

func TestName(t *testing.T) {
	namespace := strings.Repeat("n", 63) // the greatest length in Kubernetes
	for _, test := range []struct {
		name   string
		object string
		want   string // "": any name of the greatest length
	}{
		{"the usual", "web", namespace + "/web"},
		{"one below the greatest length", strings.Repeat("a", 190), namespace + "/" + strings.Repeat("a", 190)},
		{"the greatest length", strings.Repeat("a", 191), namespace + "/" + strings.Repeat("a", 191)},
		{"one above the greatest length", strings.Repeat("a", 192), ""},
		{"the longest name in Kubernetes", strings.Repeat("a", 253), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Name(namespace, test.object)
			if test.want != "" {
				equal(t, test.want, got)
			} else if len(got) != maxName || !strings.HasPrefix(got, namespace+"/aaa") {
				t.Errorf("got %q of length %d", got, len(got))
			}
		})
	}
}

func TestShortenedNamesDiffer(t *testing.T) {
	long := strings.Repeat("a", 250)
	seen := map[string]string{}
	for _, namespace := range []string{"default", "default2"} {
		for _, name := range []string{long, long + "b", long + "c", long + "cc"} {
			got := Name(namespace, name)
			if other, taken := seen[got]; taken {
				t.Errorf("%s/%s and %s have the same name", namespace, name, other)
			}
			seen[got] = namespace + "/" + name
			equal(t, got, Name(namespace, name))
		}
	}
}
