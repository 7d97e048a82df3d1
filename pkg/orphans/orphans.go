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

// Package orphans finds networks in Neutron that carry this cluster's mark though the
// Network that they were made for is gone: somebody has taken its finalizer off by hand.
// It counts and lists them, and removes them if it is told to.
//
// What decides is pure: compare says which networks are orphans, removable which of them
// may be removed. Both are about an API server that may have lost its memory, which must
// not cost anybody a network.
package orphans

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Orphan is a network in Neutron whose Network is gone.
type Orphan struct {
	// Cloud is what people call the cloud that the network is in.
	Cloud     string `json:"cloud"`
	NetworkID string `json:"networkID"`
	Name      string `json:"name"`
	// OwnerUID is the UID of the Network that is gone.
	OwnerUID types.UID `json:"ownerUID"`
	// Since is when the network was first seen to be an orphan by this process.
	Since time.Time `json:"since"`
	// Ports is how many ports keep the network from being removed; nil if nobody has looked.
	Ports *int `json:"ports,omitempty"`

	// network is as the look saw it that the last comparison was about.
	network *neutron.Network
	// seen is how many looks in a row have found the orphan.
	seen int
}

// Removal says which orphans are removed. It is a flag that needs no value.
type Removal int

const (
	// RemoveNone removes none: they are only told of.
	RemoveNone Removal = iota
	// RemoveFew removes them unless there are many, which has other reasons than that
	// somebody took a finalizer off.
	RemoveFew
	// RemoveAll removes them however many there are.
	RemoveAll
)

var _ flag.Value = new(Removal)

// String returns the flag's value.
func (r *Removal) String() string {
	if r == nil {
		return "false"
	}
	return [...]string{RemoveNone: "false", RemoveFew: "true", RemoveAll: "all"}[*r]
}

// Set takes the flag's value.
func (r *Removal) Set(value string) error {
	if value == "all" {
		*r = RemoveAll
		return nil
	}
	some, err := strconv.ParseBool(value)
	if err != nil {
		return errors.New("it is true, false or all")
	}
	*r = RemoveNone
	if some {
		*r = RemoveFew
	}
	return nil
}

// IsBoolFlag lets the flag stand without a value.
func (r *Removal) IsBoolFlag() bool { return true }

// snapshot is what an Observer remembers, after so many looks.
type snapshot struct {
	networks map[types.UID][]*neutron.Network
	looks    int
}

// total is how many networks there are.
func (s snapshot) total() int {
	n := 0
	for _, networks := range s.networks {
		n += len(networks)
	}
	return n
}

// has says whether the owner's network is there.
func (s snapshot) has(uid types.UID, id string) bool {
	return slices.ContainsFunc(s.networks[uid], func(n *neutron.Network) bool { return n.ID == id })
}

// unowned says whether a network is there whose owner is none of those.
func (s snapshot) unowned(owners sets.Set[types.UID]) bool {
	for uid := range s.networks {
		if !owners.Has(uid) {
			return true
		}
	}
	return false
}

// compare returns the orphans by the IDs of their networks: those that were there before
// the list of all owners began, and still are after it has ended. What is made meanwhile,
// may have an owner that the list does not know, and what is removed with its owner
// meanwhile, is no orphan. Known are the orphans of the comparison before.
func compare(cloud string, before, after snapshot, owners sets.Set[types.UID], known map[string]Orphan, now time.Time) map[string]Orphan {
	orphans := map[string]Orphan{}
	for uid, networks := range before.networks {
		if owners.Has(uid) {
			continue
		}
		for _, n := range networks {
			if !after.has(uid, n.ID) {
				continue
			}
			orphan := Orphan{Cloud: cloud, NetworkID: n.ID, Name: n.Name, OwnerUID: uid, Since: now}
			if was, ok := known[n.ID]; ok && was.OwnerUID == uid {
				orphan.Since, orphan.Ports, orphan.seen = was.Since, was.Ports, was.seen
			}
			orphan.network = n
			orphan.seen++
			orphans[n.ID] = orphan
		}
	}
	return orphans
}

// few is which part of all networks may be removed at one go: a tenth.
const few = 10

// enough is how many looks in a row must have found an orphan before it is removed.
const enough = 2

// removable returns which of a cloud's orphans may be removed now, in the order of their
// IDs; and why none may, if it is for there being so many. Total is how many networks of
// this cluster the cloud has, owners how many Networks Kubernetes has.
func removable(orphans map[string]Orphan, removal Removal, total, owners int) ([]Orphan, error) {
	if removal == RemoveNone || len(orphans) == 0 {
		return nil, nil
	}
	if removal != RemoveAll && owners == 0 {
		return nil, fmt.Errorf("no Network at all is in Kubernetes, and %d networks of this cluster are in Neutron", total)
	}
	if most := max(1, total/few); removal != RemoveAll && len(orphans) > most {
		return nil, fmt.Errorf("%d of %d networks are orphans, which is more than %d, a tenth", len(orphans), total, most)
	}
	var now []Orphan
	for _, orphan := range sorted(maps.Values(orphans)) {
		if orphan.seen >= enough {
			now = append(now, orphan)
		}
	}
	return now, nil
}

// sorted puts orphans in the order of their clouds and IDs.
func sorted(orphans iter.Seq[Orphan]) []Orphan {
	return slices.SortedFunc(orphans, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.NetworkID, b.NetworkID))
	})
}

// ownerName returns the name of the Network that a network in Neutron was made for, if its
// name tells.
func ownerName(name string) (cache.ObjectName, bool) {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return cache.ObjectName{}, false
	}
	return cache.NewObjectName(namespace, name), true
}

// unchanged says whether what was read of a network now is what a look has seen: it has
// the same owner, and Neutron has counted no change.
func unchanged(seen, now *neutron.Network) bool {
	was, _ := neutron.OwnerOf(seen.Description)
	is, marked := neutron.OwnerOf(now.Description)
	return marked && is == was && sameRevision(seen.Revision, now.Revision)
}

// sameRevision says whether both are the same; a Neutron may count none.
func sameRevision(a, b *int) bool {
	return a == b || a != nil && b != nil && *a == *b
}
