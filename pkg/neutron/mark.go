// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

// Owner identifies the owner of a network or a router in Neutron: the Network with this UID in the cluster
// with this ID.
type Owner struct {
	Cluster string
	UID     types.UID
}

const markPrefix = "samplecrd.k8s.io/owner="

// String returns the owner as its mark has it, <cluster ID>/<UID>.
func (o Owner) String() string { return o.Cluster + "/" + string(o.UID) }

// Mark returns the mark of the owner. The descriptions of its network, subnets and router end with it.
//
// The mark is in the description because a request that creates a network cannot set tags, and a
// network must not exist without its mark, not even for a moment.
func (o Owner) Mark() string {
	return markPrefix + o.String()
}

// OwnerOf returns the owner according to the mark in a description, and false if there is no
// mark. The comparison is exact, while Neutron's own filters ignore case, accents and trailing
// blanks on some databases.
func OwnerOf(description string) (Owner, bool) {
	mark, ok := strings.CutPrefix(description[strings.LastIndexByte(description, ' ')+1:], markPrefix)
	if !ok {
		return Owner{}, false
	}
	return ParseOwner(mark)
}

// ParseOwner returns the owner that Owner.String has returned, and false for another text.
func ParseOwner(text string) (Owner, bool) {
	cluster, uid, ok := strings.Cut(text, "/")
	if !ok || cluster == "" || uid == "" {
		return Owner{}, false
	}
	return Owner{Cluster: cluster, UID: types.UID(uid)}, true
}

// marks reports whether the description has the owner's mark.
func (o Owner) marks(description string) bool {
	owner, marked := OwnerOf(description)
	return marked && owner == o
}

// withoutMark returns the description without the mark at its end.
func withoutMark(description string) string {
	return strings.TrimRight(description[:strings.LastIndexByte(description, ' ')+1], " ")
}

// clusterDigits is the number of digits that stand for a cluster in the tag of an imported network: as many as fit
// beside the UID.
const clusterDigits = 7

// clusterDigest returns the hexadecimal digits that stand for the cluster. They need only tell apart the clusters that
// have Networks with the same UIDs, the copies of one etcd.
func clusterDigest(cluster string) string {
	sum := sha256.Sum256([]byte(cluster))
	return hex.EncodeToString(sum[:])[:clusterDigits]
}

// isUID reports whether the cluster's ID is a UID, as that of the namespace kube-system.
func isUID(cluster string) bool {
	_, err := uuid.Parse(cluster)
	return err == nil && len(cluster) == len(uuid.Nil.String())
}

// maxName is the greatest length of a name in Neutron, in characters.
const maxName = 255

// Name returns the name in Neutron for the object namespace/name. The name is for users: the
// controller does not search by it, and it need not be unique. If it is too long for Neutron, a
// hash replaces its end.
func Name(namespace, name string) string {
	full := namespace + "/" + name
	if len(full) <= maxName {
		return full
	}
	sum := sha256.Sum256([]byte(full))
	suffix := "-" + hex.EncodeToString(sum[:4])
	return full[:maxName-len(suffix)] + suffix
}
