// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// opImport is the Op of the errors that refuse an import.
const opImport = "spec.import.networkID"

// CheckImport returns an error if the network that the spec imports is not there (ImportNotFound), or
// must not be taken over (ImportRefused), or cannot become what the spec declares. It returns nil if the spec imports none.
func (v *View) CheckImport() error {
	switch {
	case v.Import == "":
		return nil
	case !v.Observed.Exists():
		return &Error{Op: opImport, Reason: ImportNotFound, Message: fmt.Sprintf("there is no network %s that the credentials can see", v.Import)}
	case v.ReadOnly:
		return nil
	}
	if err := importRefusal(v.Owner, &v.Observed.Network); err != nil {
		return err
	}
	if v.Network.External {
		return &Error{Op: opImport, Reason: ImportRefused, Message: fmt.Sprintf("network %s must not become an external network, which routers of any project may use: remove spec.external", v.Import)}
	}
	if v.Imported || v.Observed.Imported {
		return nil
	}
	if why := otherZones(v.networkChanges()); why != "" {
		return &Error{Op: opImport, Reason: ImportRefused, Message: fmt.Sprintf("network %s has other availability zones: %s", v.Import, why)}
	}
	return nil
}

// otherZones returns how the availability zones of a network differ from the declared ones; "" if these changes have none.
func otherZones(changes []Change) string {
	for _, c := range changes {
		if c.Role == roleZones {
			return difference(c.Label, c.Before, c.Value) + ": Neutron cannot change them"
		}
	}
	return ""
}

// importRefusal returns the error for a network that the owner must not take over, or nil.
func importRefusal(owner Owner, network *Network) error {
	refuse := func(holder types.UID, format string, args ...any) error {
		return &Error{Op: opImport, Reason: ImportRefused, Holder: holder, Message: "network " + network.ID + " " + fmt.Sprintf(format, args...)}
	}
	other, marked := OwnerOf(network.Description)
	switch {
	case marked && other.Cluster != owner.Cluster:
		return refuse("", "was created for %s", strangerText(other.UID))
	case marked:
		return refuse(other.UID, "was created for %s", holderText(other.UID))
	}
	for _, other := range ImportersOf(network.Tags) {
		const ifGone = "is imported by %s: if that is gone, remove the tag %s"
		switch {
		case owner.isImporter(other):
		case !other.isOld() && other.Cluster != clusterDigest(owner.Cluster):
			return refuse("", ifGone, strangerText(other.UID), other.tag())
		case other.UID == owner.UID:
			return refuse("", "has the tag of an older version, which does not say in which cluster this Network has imported it: if in this one, remove the tag %s, and it is imported again", other.tag())
		default:
			return refuse(other.UID, ifGone, holderText(other.UID), other.tag())
		}
	}
	switch {
	case network.IsForeign:
		return refuse("", "belongs to another project: only managementPolicy Observe is possible")
	case network.External:
		return refuse("", "is an external network, which routers of any project may use: only managementPolicy Observe is possible")
	}
	return nil
}

// holderText names a Network by its UID. See Error.Holder.
func holderText(uid types.UID) string { return "the Network with the UID " + string(uid) }

// strangerText is holderText for a Network of another cluster. In a copy of that cluster, a Network with the same
// UID is another one.
func strangerText(uid types.UID) string {
	return "a Network of another cluster, with the UID " + string(uid)
}

// NameHolder returns the error with the name of its Holder, <namespace>/<name>, in place of the UID. nameOf returns "" for a
// UID that it does not know; then the error stays as it is.
func NameHolder(err error, nameOf func(types.UID) string) error {
	holder := errorIn(err).Holder
	if holder == "" {
		return err
	}
	name := nameOf(holder)
	if name == "" {
		return err
	}
	named := errorIn(err)
	named.Message = strings.Replace(named.Message, holderText(holder), "the Network "+name, 1)
	return &named
}

// nextImport returns the step that takes the network over, or that withdraws the mark from one which
// must not be taken over; nil if neither is needed. A mark of an older version is replaced by one that names the
// cluster, in the way in which a network is taken over: so of two clusters with the same UIDs, one gets it.
func (v *View) nextImport() Step {
	isMarked := v.Observed.hasImportTag(v.Owner)
	isConfirmed := v.Imported || v.Observed.Imported
	switch isRefused := v.CheckImport() != nil; {
	case isRefused && isMarked && !isConfirmed:
		return WithdrawImport{Tags: v.Observed.importTagsOf(v.Owner)}
	case !isRefused && !(isMarked && isConfirmed && len(v.Observed.obsoleteImportTags(v.Owner)) == 0):
		return ImportNetwork{ID: v.Import, Owner: v.Owner, IsAgain: v.Imported, Obsolete: v.Observed.obsoleteImportTags(v.Owner)}
	}
	return nil
}

// IsImported reports whether the network that the spec imports carries the owner's mark, and a sync has
// confirmed that.
func (v *View) IsImported() bool {
	return v.Import != "" && v.Observed.hasImportTag(v.Owner) && (v.Imported || v.Observed.Imported)
}
