// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// ImportTagPrefix begins the tag that marks an imported network. The mark of a created network is in its
// description, but the description of an imported one is not the controller's.
const ImportTagPrefix = "samplecrd-owner-"

// Importer is the Network that has imported a network, according to a tag.
type Importer struct {
	UID types.UID
	// Cluster stands for the ID of its cluster: see clusterDigest. It is "" in a tag of an older version, which
	// named no cluster.
	Cluster string
}

// ImportTag returns the tag that marks a network which the owner has imported. It names the cluster too, because a
// copy of etcd has the same UIDs. It has 60 characters, as many as some Neutron releases allow. It is a mark, and no
// proof: any project that sees a network can tag it. The proof is the ID in the spec.
func (o Owner) ImportTag() string { return o.importer().tag() }

// importer returns the owner as its tag names it.
func (o Owner) importer() Importer { return Importer{o.UID, clusterDigest(o.Cluster)} }

// isOld reports whether an older version wrote the tag.
func (i Importer) isOld() bool { return i.Cluster == "" }

// tag returns the tag.
func (i Importer) tag() string {
	if i.isOld() {
		return ImportTagPrefix + string(i.UID)
	}
	return ImportTagPrefix + string(i.UID) + "-" + i.Cluster
}

// importerIn returns the importer that the tag names, and false if it names none. Neutron's database treats tags as
// equal that differ only in upper and lower case.
func importerIn(tag string) (importer Importer, isMark bool) {
	uid, isMark := strings.CutPrefix(strings.ToLower(tag), ImportTagPrefix)
	if !isMark {
		return Importer{}, false
	}
	// The last part of a UID has 12 digits, and that of a tag with a cluster has clusterDigits.
	at := strings.LastIndexByte(uid, '-')
	if at > 0 && len(uid)-at-1 == clusterDigits {
		return Importer{UID: types.UID(uid[:at]), Cluster: uid[at+1:]}, true
	}
	return Importer{UID: types.UID(uid)}, true
}

// ImportersOf returns the Networks whose marks are among the tags.
func ImportersOf(tags Tags) (importers []Importer) {
	for _, tag := range tags.importTags() {
		importer, _ := importerIn(tag)
		importers = append(importers, importer)
	}
	return importers
}

// importTags returns the tags that mark an imported network.
func (t Tags) importTags() []string {
	if !strings.Contains(strings.ToLower(string(t)), ImportTagPrefix) {
		return nil
	}
	return slices.DeleteFunc(t.All(), func(tag string) bool {
		_, isMark := importerIn(tag)
		return !isMark
	})
}

// isImporter reports whether the owner is the importer.
//
// An older version's tag does not say which cluster has imported the network: it may be another one, of which this
// one is a copy. So only a cluster that has no ID of its own takes the tag for its own: its ID is a UID, that of the
// namespace kube-system. In a copy that has an ID of its own, or if -cluster-id was always set, a user must decide.
func (o Owner) isImporter(i Importer) bool {
	return i == o.importer() || i.UID == o.UID && i.isOld() && isUID(o.Cluster)
}

// importTagsOf returns the network's tags that mark the owner's import. There are several while a tag of an older
// version is replaced. If a tag says that the import is another cluster's, that of an older version is too.
func (n *Network) importTagsOf(owner Owner) []string {
	isElsewhere := slices.ContainsFunc(ImportersOf(n.Tags), func(i Importer) bool {
		return i.UID == owner.UID && !i.isOld() && !owner.isImporter(i)
	})
	return slices.DeleteFunc(n.Tags.importTags(), func(tag string) bool {
		i, _ := importerIn(tag)
		return !owner.isImporter(i) || i.isOld() && isElsewhere
	})
}

// hasImportTag reports whether the network has a tag that marks the owner's import.
func (n *Network) hasImportTag(owner Owner) bool { return len(n.importTagsOf(owner)) > 0 }

// obsoleteImportTags returns the tags that mark the owner's import and do not name the cluster.
func (n *Network) obsoleteImportTags(owner Owner) []string {
	return slices.DeleteFunc(n.importTagsOf(owner), func(tag string) bool {
		importer, _ := importerIn(tag)
		return !importer.isOld()
	})
}

// namesCluster reports whether a tag of the network marks the owner's import and names the cluster.
func (n *Network) namesCluster(owner Owner) bool {
	return slices.Contains(ImportersOf(n.Tags), owner.importer())
}

// without returns the tags without one or more of them.
func (t Tags) without(tags ...string) Tags {
	return NewTags(slices.DeleteFunc(t.All(), func(other string) bool { return slices.Contains(tags, other) })...)
}

// withoutMarks returns the tags that are not ownership marks.
func (t Tags) withoutMarks() Tags { return t.without(t.importTags()...) }
