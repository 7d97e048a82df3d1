// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Target is a Network of this cluster that takes over what a Network of the old cluster has.
type Target struct {
	Network *samplecrdv1.Network
	// Old is what -f has of it: the Network of the old cluster, as a dump or a backup has it, or a manifest. It is zero without -f.
	Old samplecrdv1.Network
}

func (t Target) String() string { return t.Network.Namespace + "/" + t.Network.Name }

// inventory is what a cloud has of all owners.
type inventory struct {
	from, to string // the IDs of the clusters
	owners   map[neutron.Owner]*neutron.Observed
	// here has the UIDs of all Networks of this cluster. They are those of the old one if the cluster has got another ID, or was copied.
	here map[types.UID]bool
}

// evidence is one way to find the Networks of the old cluster from which a Network of this cluster takes over.
type evidence struct {
	// name says what was compared.
	name string
	find func(inventory, Target) []types.UID
}

// earlierMove is the evidence of the annotations that move writes. See inventory.annotated.
const earlierMove = "an earlier move"

// evidences are in the order of what they prove. The first that finds an owner decides: a later one never breaks the tie of an
// earlier one.
//
// A UID alone is not enough, because manifests in Git have none. A name alone is not enough, because a Network can have been deleted
// without its network, and created again. Members of the project can forge a name in Neutron; the network is theirs anyway.
var evidences = []evidence{
	{earlierMove, func(i inventory, t Target) []types.UID { return i.beside(t.Network.UID) }},
	{"metadata.uid in -f", func(i inventory, t Target) []types.UID { return i.known(t.Old.UID) }},
	{"its UID", func(i inventory, t Target) []types.UID { return i.known(t.Network.UID) }},
	{"spec.import.networkID", func(i inventory, t Target) []types.UID {
		if t.Network.Spec.Import == nil {
			return nil
		}
		return i.withNetwork(t, t.Network.Spec.Import.NetworkID)
	}},
	{"status.networkID", func(i inventory, t Target) []types.UID {
		return i.withNetwork(t, cmp.Or(t.Old.Status.NetworkID, t.Network.Status.NetworkID))
	}},
	{"the name", func(i inventory, t Target) []types.UID {
		if t.Network.Spec.Import != nil || i.isElsewhere(t) {
			return nil // the name of an import is not the controller's
		}
		name := neutron.Name(t.Network.Namespace, t.Network.Name)
		return i.which(func(o *neutron.Observed) bool {
			return slices.ContainsFunc(o.Networks(), func(n *neutron.Network) bool { return n.Name == name }) ||
				!o.Exists() && slices.ContainsFunc(o.Routers, func(r neutron.Router) bool { return r.Name == name })
		})
	}},
}

// match returns the owner in the old cluster from which the Network takes over, and the name of the evidence; the zero Owner if there
// is none. It fails if there are several.
func (i inventory) match(t Target) (neutron.Owner, string, error) {
	if text := t.Network.Annotations[samplecrdv1.AnnotationMovingFrom]; text != "" {
		if cluster, _, _ := strings.Cut(text, "/"); cluster != i.from {
			return neutron.Owner{}, "", fmt.Errorf("an earlier move is not finished: finish it with -from-cluster-id=%s, as the annotation %s says", neutron.Printable(cluster), samplecrdv1.AnnotationMovingFrom)
		}
	}
	if owner, err := i.annotated(t); err != nil || owner.UID != "" {
		return owner, earlierMove, err
	}
	isAnothers := func(uid types.UID) bool { return uid != t.Network.UID && i.here[uid] }
	for _, e := range evidences {
		found := slices.DeleteFunc(e.find(i, t), isAnothers)
		switch {
		case len(found) == 0:
			continue
		case len(found) > 1:
			return neutron.Owner{}, "", fmt.Errorf("%s fits several Networks of cluster %s: name one by metadata.uid in -f:\n%s", e.name, i.from, strings.TrimSuffix(i.describe(found), "\n"))
		}
		return neutron.Owner{Cluster: i.from, UID: found[0]}, e.name, nil
	}
	return neutron.Owner{}, "", nil
}

// annotated returns the owner that an earlier move has written on the Network. Users can write annotations, and copy them with a
// manifest: as long as that owner has something, another evidence must find it too.
func (i inventory) annotated(t Target) (owner neutron.Owner, err error) {
	for _, annotation := range []string{samplecrdv1.AnnotationMovingFrom, samplecrdv1.AnnotationMovedFrom} {
		owner, ok := neutron.ParseOwner(t.Network.Annotations[annotation])
		if !ok || owner.Cluster != i.from {
			continue
		}
		isFound := func(e evidence) bool { return slices.Contains(e.find(i, t), owner.UID) }
		hasOwn := i.owners[neutron.Owner{Cluster: i.to, UID: t.Network.UID}] != nil
		isOver, isAnotherGiven := i.owners[owner] == nil, owner.UID != t.Old.UID && len(i.known(t.Old.UID)) > 0
		switch {
		case isOver && (!hasOwn || isAnotherGiven) && annotation == samplecrdv1.AnnotationMovedFrom:
			continue // what was moved is not in this cloud, such as after a restore in a third cluster; or the annotation was copied
		case isOver && isAnotherGiven, !isOver && !slices.ContainsFunc(evidences, isFound):
			return neutron.Owner{}, fmt.Errorf("its annotation %s names Network %s, and nothing else does: name that one by metadata.uid in -f too, or remove the annotation",
				annotation, neutron.Printable(owner.String()))
		}
		return owner, nil
	}
	return owner, nil
}

// isElsewhere reports whether the Network is for what another owner has than those of the old cluster: -f names another UID, or the
// status a network of a third cluster. A name does not outweigh that: -from-cluster-id can be that of another cluster with the same names.
func (i inventory) isElsewhere(t Target) bool {
	if t.Old.UID != "" && t.Old.UID != t.Network.UID {
		return true
	}
	id := cmp.Or(t.Old.Status.NetworkID, t.Network.Status.NetworkID)
	for owner, observed := range i.owners {
		isThird := owner.Cluster != i.from && owner != neutron.Owner{Cluster: i.to, UID: t.Network.UID}
		if isThird && hasNetwork(observed, id) {
			return true
		}
	}
	return false
}

// checkFound returns an error if -f says that the Network has a network, and the cloud has none with that ID and a mark: the old
// controller would delete that network when the old Network is deleted, and the new one would create another. An import loses nothing.
func (i inventory) checkFound(t Target) error {
	id := t.Old.Status.NetworkID
	mine := i.owners[neutron.Owner{Cluster: i.to, UID: t.Network.UID}]
	if id == "" || t.Network.Spec.Import != nil || hasNetwork(mine, id) {
		return nil
	}
	return fmt.Errorf("in -f it has network %s, and no network here has this ID and a mark of cluster %s: do its credentials lead to the same project and region as in the old cluster? If that network is gone, remove its ID from -f", neutron.Printable(id), i.from)
}

// known returns the UID if the old cluster has such an owner.
func (i inventory) known(uid types.UID) []types.UID {
	if i.owners[neutron.Owner{Cluster: i.from, UID: uid}] == nil {
		return nil
	}
	return []types.UID{uid}
}

// which returns the owners of the old cluster that have such objects.
func (i inventory) which(isMeant func(*neutron.Observed) bool) (found []types.UID) {
	for owner, observed := range i.owners {
		if owner.Cluster == i.from && isMeant(observed) {
			found = append(found, owner.UID)
		}
	}
	slices.Sort(found)
	return found
}

// hasNetwork reports whether the network with that ID is among what an owner has; nil is nothing.
func hasNetwork(o *neutron.Observed, id string) bool {
	return o != nil && slices.ContainsFunc(o.Networks(), func(n *neutron.Network) bool { return n.ID == id })
}

// withNetwork returns the owners of the network with that ID; none if this Network only observes it.
func (i inventory) withNetwork(t Target, id string) []types.UID {
	if id == "" || t.Network.IsObserved() {
		return nil
	}
	return i.which(func(o *neutron.Observed) bool { return hasNetwork(o, id) })
}

// beside returns the owners of the old cluster whose marks are on the subnets of this cluster's network: a move of it was interrupted,
// and somebody has removed the annotation.
func (i inventory) beside(uid types.UID) (found []types.UID) {
	observed := i.owners[neutron.Owner{Cluster: i.to, UID: uid}]
	if observed == nil {
		return nil
	}
	for _, s := range observed.Subnets {
		if owner, isMarked := neutron.OwnerOf(s.Description); isMarked && owner.Cluster == i.from && !slices.Contains(found, owner.UID) {
			found = append(found, owner.UID)
		}
	}
	return found
}
