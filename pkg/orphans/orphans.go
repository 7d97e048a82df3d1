// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package orphans finds networks and routers in Neutron that have the mark of this cluster, but
// whose Network is gone, because a user removed its finalizer by hand. It counts and lists them,
// and deletes them with the flag -delete-orphans.
//
// The pure functions decide: compare returns the orphans, and removable returns those that
// may be deleted. Both take into account that the API server may have lost data, for example
// when it was restored from a backup, and that another installation may have the same cluster
// ID by mistake. Neither must delete a network that is in use.
//
// The deletion policy of a Network that is gone is not known: nothing in Neutron records it. So -delete-orphans also deletes
// what a Network with the policy Retain has left, if somebody removed its finalizer before the controller removed the marks.
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
	"k8s.io/utils/ptr"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Orphan is a network in Neutron whose Network is gone, or a router without a network. The routers
// of an orphaned network are deleted with it.
type Orphan struct {
	// Cloud is the name of the cloud that has the network or the router.
	Cloud string `json:"cloud"`
	// Either NetworkID or RouterID is set.
	NetworkID string `json:"networkID,omitempty"`
	RouterID  string `json:"routerID,omitempty"`
	Name      string `json:"name"`
	// OwnerUID is the UID of the Network that is gone.
	OwnerUID types.UID `json:"ownerUID"`
	// Since is when this process first found the orphan.
	Since time.Time `json:"since"`
	// NeverOwned is true if the network has appeared after the first comparison, and no Network
	// of this cluster had the UID since then. Another installation has created such a network,
	// or a user has copied or restored a mark.
	NeverOwned bool `json:"neverOwned,omitempty"`
	// Ports is the number of ports that prevent the deletion. It is nil before the ports were
	// listed.
	Ports *int `json:"ports,omitempty"`

	// observed is what the last comparison found of the owner, with the orphan as the network to keep.
	observed *neutron.Observed
	// sightings is the number of consecutive relists that have found the orphan.
	sightings int
	// inUse is the error of the last deletion that Neutron prevented, or "".
	inUse string
}

// id returns the ID of the network or the router.
func (o *Orphan) id() string { return cmp.Or(o.NetworkID, o.RouterID) }

// owner returns the owner according to the mark of the network or the router.
func (o *Orphan) owner() neutron.Owner { return ownerOf(o.observed) }

// ownerOf returns the owner according to the mark of the network, or of the routers if there is none.
func ownerOf(observed *neutron.Observed) neutron.Owner {
	description := observed.Description
	if !observed.Exists() && len(observed.Routers) > 0 {
		description = observed.Routers[0].Description
	}
	owner, _ := neutron.OwnerOf(description)
	return owner
}

// idsOf returns the IDs of the orphans that an owner leaves when its Network is gone: those of its networks,
// or those of its routers if there is none.
func idsOf(observed *neutron.Observed) (ids []string) {
	for _, n := range observed.Networks() {
		ids = append(ids, n.ID)
	}
	if len(ids) > 0 {
		return ids
	}
	for _, r := range observed.Routers {
		ids = append(ids, r.ID)
	}
	return ids
}

// newOrphan returns the orphan with that ID.
func newOrphan(cloud string, owner types.UID, observed *neutron.Observed, id string, now time.Time) Orphan {
	observed = observed.Keeping(id)
	orphan := Orphan{Cloud: cloud, NetworkID: observed.ID, Name: observed.Name, OwnerUID: owner, Since: now, observed: observed}
	for _, r := range observed.Routers {
		if r.ID == id {
			orphan.RouterID, orphan.Name = id, r.Name
		}
	}
	return orphan
}

// Removal says which orphans are deleted. It is a flag whose value is optional.
type Removal int

const (
	// RemoveNone deletes no orphan. They are only logged, counted and listed.
	RemoveNone Removal = iota
	// RemoveFew deletes the orphans unless there are many: the probable cause of many orphans
	// is lost data in Kubernetes, and not a finalizer that a user removed.
	RemoveFew
	// RemoveAll deletes all orphans.
	RemoveAll
)

var _ flag.Value = new(Removal)

// String returns the value of the flag.
func (r *Removal) String() string {
	if r == nil {
		return "false"
	}
	return [...]string{RemoveNone: "false", RemoveFew: "true", RemoveAll: "all"}[*r]
}

// Set parses the value of the flag.
func (r *Removal) Set(value string) error {
	if value == "all" {
		*r = RemoveAll
		return nil
	}
	some, err := strconv.ParseBool(value)
	if err != nil {
		return errors.New("must be true, false or all")
	}
	*r = RemoveNone
	if some {
		*r = RemoveFew
	}
	return nil
}

// IsBoolFlag makes the value of the flag optional.
func (r *Removal) IsBoolFlag() bool { return true }

// snapshot is the content of an Observer, and the number of its relists so far.
type snapshot struct {
	owned   map[types.UID]*neutron.Observed
	relists int
}

// total returns the number of networks, and of routers without a network.
func (s snapshot) total() int {
	total := 0
	for _, observed := range s.owned {
		total += len(idsOf(observed))
	}
	return total
}

// has reports whether the snapshot has the network of the owner, or the router without a network.
func (s snapshot) has(uid types.UID, id string) bool {
	observed := s.owned[uid]
	return observed != nil && slices.Contains(idsOf(observed), id)
}

// unowned reports whether the snapshot has a network whose owner is not in owners.
func (s snapshot) unowned(owners sets.Set[types.UID]) bool {
	return !owners.HasAll(slices.Collect(maps.Keys(s.owned))...)
}

// compare returns the orphans by their IDs. before was taken before the list
// of owners, after was taken after it. An orphan is in both: the owner of a network that was
// created during the list may be missing in the list, and a network that was deleted during
// the list is gone with its owner. known has the orphans of the previous comparison.
func compare(cloud string, before, after snapshot, owners sets.Set[types.UID], known map[string]Orphan, now time.Time) map[string]Orphan {
	orphans := map[string]Orphan{}
	for uid, observed := range before.owned {
		if owners.Has(uid) {
			continue
		}
		for _, id := range idsOf(observed) {
			if !after.has(uid, id) {
				continue
			}
			orphan := newOrphan(cloud, uid, observed, id, now)
			if was, ok := known[id]; ok && was.OwnerUID == uid {
				orphan.Since, orphan.NeverOwned, orphan.Ports = was.Since, was.NeverOwned, was.Ports
				orphan.sightings, orphan.inUse = was.sightings, was.inUse
			}
			orphan.sightings++
			orphans[id] = orphan
		}
	}
	return orphans
}

// setNeverOwned sets NeverOwned of the networks that have appeared since the previous snapshot
// of the cloud. wasOwner reports whether a UID was that of a Network since then. A router without
// a network proves nothing: it appears when a user deletes its network, and its network came first.
func setNeverOwned(orphans map[string]Orphan, previous snapshot, wasOwner func(types.UID) bool) {
	for id, orphan := range orphans {
		if orphan.NetworkID != "" && !previous.has(orphan.OwnerUID, id) && !wasOwner(orphan.OwnerUID) {
			orphan.NeverOwned = true
			orphans[id] = orphan
		}
	}
}

// firstNeverOwned returns the first orphan that is NeverOwned, or nil.
func firstNeverOwned(orphans map[string]Orphan) *Orphan {
	for _, orphan := range sorted(maps.Values(orphans)) {
		if orphan.NeverOwned {
			return &orphan
		}
	}
	return nil
}

// recent has the UIDs that were added last, at most maxRecent of them, and at least half as
// many.
type recent struct{ newer, older sets.Set[types.UID] }

const maxRecent = 20000

func (r *recent) add(uid types.UID) {
	if r.newer.Len() >= maxRecent/2 {
		r.newer, r.older = nil, r.newer
	}
	if r.newer == nil {
		r.newer = sets.New[types.UID]()
	}
	r.newer.Insert(uid)
}

func (r *recent) has(uid types.UID) bool { return r.newer.Has(uid) || r.older.Has(uid) }

// maxShare limits RemoveFew: it deletes nothing if more than one in maxShare networks is an
// orphan. A single orphan is always allowed.
const maxShare = 10

// minSightings is the number of consecutive relists that must find an orphan before it is
// deleted.
const minSightings = 2

// lostData is how the refusals end that RemoveAll overrides.
const lostData = "; the API server may have lost data, or another installation may have the same cluster ID: -delete-orphans=all deletes them anyway"

// removable returns the orphans of a cloud that may be deleted now, sorted by ID. It returns
// an error if none may be deleted. total is the number of networks of this cluster in the
// cloud, owners is the number of Networks in Kubernetes. neverOwned is the first orphan of the
// cloud's place that was NeverOwned, or nil.
func removable(orphans map[string]Orphan, removal Removal, total, owners int, neverOwned *Orphan) ([]Orphan, error) {
	if removal == RemoveNone || len(orphans) == 0 {
		return nil, nil
	}
	if neverOwned != nil {
		return nil, fmt.Errorf("network %s had no Network in this cluster when it appeared, so another installation probably has the same cluster ID", neverOwned.NetworkID)
	}
	if removal != RemoveAll && owners == 0 {
		return nil, fmt.Errorf("there are no Networks in Kubernetes, but %d networks of this cluster in Neutron%s", total, lostData)
	}
	if limit := max(1, total/maxShare); removal != RemoveAll && len(orphans) > limit {
		return nil, fmt.Errorf("%d of %d networks are orphans, which is more than a tenth (%d)%s", len(orphans), total, limit, lostData)
	}
	var chosen []Orphan
	for _, orphan := range sorted(maps.Values(orphans)) {
		if orphan.sightings >= minSightings {
			chosen = append(chosen, orphan)
		}
	}
	return chosen, nil
}

// sorted returns the orphans sorted by cloud and ID.
func sorted(orphans iter.Seq[Orphan]) []Orphan {
	return slices.SortedFunc(orphans, func(a, b Orphan) int {
		return cmp.Or(cmp.Compare(a.Cloud, b.Cloud), cmp.Compare(a.id(), b.id()))
	})
}

// ownerName returns the name of the Network from the name of its network in Neutron. It
// returns false if that has another format.
func ownerName(name string) (cache.ObjectName, bool) {
	namespace, name, ok := strings.Cut(name, "/")
	if !ok || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return cache.ObjectName{}, false
	}
	return cache.NewObjectName(namespace, name), true
}

// unchanged reports whether a network still has the owner, the revision and the routers that the
// relist listed.
func unchanged(listed, now *neutron.Observed) bool {
	owner := ownerOf(now)
	return owner != (neutron.Owner{}) && owner == ownerOf(listed) && ptr.Equal(listed.Revision, now.Revision) && slices.Equal(listed.Routers, now.Routers)
}

// blocking returns the ports that prevent the deletion of the owner's network: all except those that
// go with the interfaces that are removed before it.
func blocking(owner neutron.Owner, observed *neutron.Observed, ports []neutron.Port) []neutron.Port {
	view := neutron.View{Identity: neutron.Identity{Owner: owner}, Observed: observed}
	unmanaged := view.UnmanagedInterfaces()
	return slices.DeleteFunc(ports, func(p neutron.Port) bool {
		return slices.ContainsFunc(observed.Interfaces, p.GoesWith) && !slices.ContainsFunc(unmanaged, p.GoesWith)
	})
}
