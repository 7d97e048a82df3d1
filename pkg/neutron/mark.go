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
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Owner says whose a network in Neutron is: the Network with this UID, in the
// cluster with this ID.
type Owner struct {
	Cluster string
	UID     types.UID
}

const markPrefix = "samplecrd.k8s.io/owner="

// Mark is what the description of everything that is made for the owner ends with.
//
// The description carries it because Neutron takes no tags in the request that makes
// a network, and there must be no moment at which a network exists without its mark.
func (o Owner) Mark() string {
	return markPrefix + o.Cluster + "/" + string(o.UID)
}

// OwnerOf reads the mark off the description of a network or subnet. It is exact:
// Neutron's own filters ignore case, accents and trailing blanks on some databases.
func OwnerOf(description string) (Owner, bool) {
	mark, ok := strings.CutPrefix(description[strings.LastIndexByte(description, ' ')+1:], markPrefix)
	if !ok {
		return Owner{}, false
	}
	cluster, uid, ok := strings.Cut(mark, "/")
	if !ok || cluster == "" || uid == "" {
		return Owner{}, false
	}
	return Owner{Cluster: cluster, UID: types.UID(uid)}, true
}

// withoutMark returns the description without the mark that it ends with.
func withoutMark(description string) string {
	return strings.TrimRight(description[:strings.LastIndexByte(description, ' ')+1], " ")
}

// maxName is how many characters Neutron takes as a name.
const maxName = 255

// Name is what a network of the object namespace/name is called in Neutron. It is
// for people: nothing is found by it, and it need not be unique. Where the two are
// longer than Neutron takes, a hash stands for the end.
func Name(namespace, name string) string {
	full := namespace + "/" + name
	if len(full) <= maxName {
		return full
	}
	sum := sha256.Sum256([]byte(full))
	suffix := "-" + hex.EncodeToString(sum[:4])
	return full[:maxName-len(suffix)] + suffix
}
