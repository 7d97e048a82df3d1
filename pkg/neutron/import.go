// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
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

// CheckImport returns an error if the network that the spec imports is not there (ImportNotFound), or
// must not be taken over (ImportRefused). It returns nil if the spec imports none.
func (v *View) CheckImport() error {
	switch {
	case v.Import == "":
		return nil
	case !v.Observed.Exists():
		return &Error{Op: opImport, Reason: ImportNotFound, Message: fmt.Sprintf("there is no network %s that the credentials can see", v.Import)}
	case v.Observe:
		return nil
	}
	return importRefusal(v.Owner, &v.Observed.Network)
}

const opImport = "spec.import.networkID"

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
	switch isRefused := importRefusal(v.Owner, &v.Observed.Network) != nil; {
	case isRefused && isMarked && !isConfirmed:
		return WithdrawImport{Tags: v.Observed.importTagsOf(v.Owner)}
	case !isRefused && !(isMarked && isConfirmed && len(v.Observed.obsoleteImportTags(v.Owner)) == 0):
		return ImportNetwork{ID: v.Import, Owner: v.Owner, IsAgain: v.Imported, Obsolete: v.Observed.obsoleteImportTags(v.Owner)}
	}
	return nil
}

// ImportNetwork takes a network over: it adds the tag that marks it, and nothing else. It fails with
// ImportRefused if another Network has marked the network.
type ImportNetwork struct {
	// ID is that of the network, and Owner gives the tag.
	ID    string
	Owner Owner
	// IsAgain means that the status says that the network was taken over: it has lost its mark, or has an old one.
	IsAgain bool
	// Obsolete are the tags of an older version, which are removed when the network has the new one.
	Obsolete []string
}

func (s ImportNetwork) String() string {
	if s.IsAgain && len(s.Obsolete) > 0 {
		return "ownership mark replaced by one that names the cluster"
	}
	if s.IsAgain {
		return "ownership mark restored"
	}
	return "network " + s.ID + " imported"
}

// Irreversible returns true: the mark of a deleted Network would keep others from the network.
func (ImportNetwork) Irreversible() bool { return true }
func (ImportNetwork) Fields() []string   { return []string{fieldNetworkMark} }

// importNetwork adds the tag and reads the network again. Of two controllers that do so at the same time, the
// one that adds its tag later sees both. It withdraws its own, and so may the other one; both try again
// after different delays.
func (c *Cloud) importNetwork(ctx context.Context, identity Identity, observed *Observed) (*Observed, error) {
	if holder := c.imports.hold(observed.ID, identity.Owner.UID); holder != identity.Owner.UID {
		return nil, raced(importRefusal(identity.Owner, &Network{ID: observed.ID, Tags: NewTags(Owner{identity.Owner.Cluster, holder}.ImportTag())}))
	}
	fresh, err := c.client.getNetwork(ctx, observed.ID)
	if err == nil {
		err = importRefusal(identity.Owner, fresh)
	}
	if err == nil && !fresh.namesCluster(identity.Owner) {
		if err = c.client.addTag(ctx, fresh.ID, identity.Owner.ImportTag()); err == nil {
			fresh, err = c.confirm(ctx, identity.Owner, fresh.ID)
		}
	}
	if err == nil {
		fresh, err = c.removeTags(ctx, fresh, fresh.obsoleteImportTags(identity.Owner))
	}
	if err != nil {
		c.imports.drop(observed.ID, identity.Owner.UID)
		c.observer.Invalidate(identity.Owner.UID) // the network may have the tag, whatever the error says
		return nil, err
	}
	fresh.copyRead(&observed.Network)
	next := observed.with(*fresh)
	next.Imported = true
	return next, nil
}

// maxRaceDelay is the longest delay after two Networks have marked a network at the same time.
const maxRaceDelay = 4 * time.Second

// confirm reads a network that was just marked. If another Network has marked it too, confirm removes
// the owner's mark and fails with ImportRefused.
func (c *Cloud) confirm(ctx context.Context, owner Owner, id string) (*Network, error) {
	fresh, err := c.client.getNetwork(ctx, id)
	if err != nil {
		return nil, err
	}
	refused := importRefusal(owner, fresh)
	if refused == nil {
		return fresh, nil
	}
	return nil, cmp.Or(c.client.removeTag(ctx, id, owner.ImportTag()), raced(refused))
}

// raced returns the error with a delay: of two Networks that mark a network at the same time, both may have
// withdrawn.
func raced(err error) error {
	race := errorIn(err)
	race.RetryAfter = wait.Jitter(maxRaceDelay/4, 3)
	return &race
}

// WithdrawImport removes the mark of an import that was not confirmed, from a network that must not be
// taken over.
type WithdrawImport struct{ Tags []string }

func (s WithdrawImport) String() string { return "ownership mark withdrawn" }

// Irreversible returns true: the cache can lack what another replica has confirmed, and without the mark the network
// becomes another Network's.
func (WithdrawImport) Irreversible() bool { return true }
func (WithdrawImport) Fields() []string   { return []string{fieldNetworkMark} }

// removeTags removes the tags from the network, and returns it as it is then.
func (c *Cloud) removeTags(ctx context.Context, network *Network, tags []string) (*Network, error) {
	for _, tag := range tags {
		if err := c.client.removeTag(ctx, network.ID, tag); err != nil {
			return nil, err
		}
		next := *network
		next.Tags, next.Revision = network.Tags.without(tag), nil // the revision has changed
		network = &next
	}
	return network, nil
}

// IsImported reports whether the network that the spec imports carries the owner's mark, and a sync has
// confirmed that.
func (v *View) IsImported() bool {
	return v.Import != "" && v.Observed.hasImportTag(v.Owner) && (v.Imported || v.Observed.Imported)
}

// Shown returns the subnets for the status: Current, and for an import all others too.
func (v *View) Shown() []CurrentSubnet {
	shown := v.Current()
	if v.Import == "" {
		return shown
	}
	for i := range v.Observed.Subnets {
		s := &v.Observed.Subnets[i]
		if !slices.ContainsFunc(shown, func(c CurrentSubnet) bool { return c.ID == s.ID }) {
			shown = append(shown, CurrentSubnet{"", s, v.routerPort(s.ID)})
		}
	}
	return shown
}

// without returns the tags without one or more of them.
func (t Tags) without(tags ...string) Tags {
	return NewTags(slices.DeleteFunc(t.All(), func(other string) bool { return slices.Contains(tags, other) })...)
}

// checkImported fails with Stale if the network is imported and is not the owner's any more: what was
// observed may be as old as the last list. An own network has the mark in what Neutron changes or deletes.
func (c *Cloud) checkImported(ctx context.Context, identity Identity, observed *Observed, step Step) error {
	switch step.(type) {
	case ImportNetwork, WithdrawImport, UnmarkSubnet, UnmarkRouter, UnmarkImport, DeleteNetwork:
		return nil // the first two and a deletion look themselves; to remove marks, nothing more must be true
	}
	if identity.Import == "" || !observed.Exists() {
		return nil
	}
	fresh, err := c.client.getNetwork(ctx, observed.ID)
	if ReasonOf(err) == NotFound || err == nil && (!identity.Marks(fresh) || importRefusal(identity.Owner, fresh) != nil) {
		return &Error{Op: opImport, Reason: Stale, Message: "network " + observed.ID + " has changed"}
	}
	return err
}

// wakeImporters enqueues the other Networks that import the network, because one of them may have it now.
func (c *Cloud) wakeImporters(owner Owner, id string) {
	c.imports.drop(id, owner.UID)
	for _, other := range c.imports.of(id) {
		if other != owner.UID {
			c.observer.Invalidate(other)
			c.observer.callHandlers(other)
		}
	}
}

// ForgetOwner forgets a Network that no longer exists: what it imports, and that it waits for the cloud.
func (c *Cloud) ForgetOwner(uid types.UID) {
	c.recovery.forget(uid)
	if id := c.imports.forget(uid); id != "" {
		c.wakeImporters(Owner{UID: uid}, id)
	}
}

// imports has the networks that Networks import. A list of Neutron keeps them, although their descriptions
// lack the cluster's mark. Its methods may be called concurrently. The zero value is empty.
type imports struct {
	mu sync.Mutex
	// networks has the ID of the imported network by the UID of the Network.
	networks map[types.UID]string
	// importers has the UIDs of the Networks by the ID of the network.
	importers map[string][]types.UID
	// holders has, by the ID of a network, the Network that this process has marked it for or is about
	// to. There is one at most.
	holders map[string]types.UID
}

// add remembers what the identity imports.
func (i *imports) add(identity Identity) {
	if identity.Import == "" {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.networks == nil {
		i.networks, i.importers = map[types.UID]string{}, map[string][]types.UID{}
	}
	uid, id := identity.Owner.UID, identity.Import
	if identity.Observe && i.holders[id] == uid { // it marks nothing any more
		delete(i.holders, id)
	}
	if _, known := i.networks[uid]; !known { // the ID never changes
		i.networks[uid], i.importers[id] = id, append(slices.Clone(i.importers[id]), uid)
	}
}

// forget forgets the Network, and returns the ID of the network that it imported.
func (i *imports) forget(uid types.UID) (id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	id, isKnown := i.networks[uid]
	if !isKnown {
		return ""
	}
	delete(i.networks, uid)
	i.importers[id] = slices.DeleteFunc(slices.Clone(i.importers[id]), func(other types.UID) bool { return other == uid })
	if len(i.importers[id]) == 0 {
		delete(i.importers, id)
	}
	return id
}

// of returns the Networks that import the network with that ID.
func (i *imports) of(id string) []types.UID {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.importers[id]
}

// all returns the IDs of all imported networks.
func (i *imports) all() sets.Set[string] {
	i.mu.Lock()
	defer i.mu.Unlock()
	return sets.KeySet(i.importers)
}

// hold reserves the network for the Network with that UID, unless it is reserved for another one. It returns
// the UID that it is reserved for.
func (i *imports) hold(id string, uid types.UID) (holder types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.holders == nil {
		i.holders = map[string]types.UID{}
	}
	if i.holders[id] == "" {
		i.holders[id] = uid
	}
	return i.holders[id]
}

// drop ends the reservation of the network for the Network, if there is one.
func (i *imports) drop(id string, uid types.UID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.holders[id] == uid {
		delete(i.holders, id)
	}
}

// addImported adds the imported networks that the list of the project's networks lacks, because they
// belong to other projects. It makes one request for networks and one for subnets for each 64 of them. If these
// fail, it adds the networks that the cache knows.
func (c *Cloud) addImported(ctx context.Context, networks []*Network) ([]*Network, error) {
	missing := c.imports.all()
	for _, n := range networks {
		missing.Delete(n.ID)
	}
	others, err := c.client.networksByID(ctx, sets.List(missing))
	switch {
	case err == nil:
		return append(networks, others...), nil
	case !mayStay(ctx, err, "imported networks of other projects"):
		return nil, err
	}
	for id := range missing {
		for _, importer := range c.imports.of(id) {
			cached, _, _ := c.observer.Get(importer)
			if known := cached.network(id); known != nil {
				shared := *known // the interfaces are added to it
				networks = append(networks, &shared)
				break
			}
		}
	}
	return networks, nil
}

// networksByID lists the networks with these IDs that the client can see, of any project, with the
// subnets that it can see.
func (c *Client) networksByID(ctx context.Context, ids []string) ([]*Network, error) {
	found, err := listByID[listedNetwork](ctx, c, "networks", append(slices.Clone(networkFields), "project_id"), ids)
	if err != nil {
		return nil, err
	}
	networks := pointers(found)
	for _, n := range networks {
		c.setForeign(n)
	}
	return networks, c.attachAllSubnets(ctx, networks)
}

// setForeign sets IsForeign. If the client's project is not known, no network is foreign.
func (c *Client) setForeign(n *Network) {
	place, ok := c.Place()
	n.IsForeign = ok && place.Project != "" && n.ProjectID != place.Project
}

// addTag adds a tag to the network. It succeeds if the network has the tag.
func (c *Client) addTag(ctx context.Context, id, tag string) error {
	return wrap("add tag", c.send(ctx, http.MethodPut, nil, nil, nil, "networks", id, "tags", tag))
}

// removeTag removes a tag from the network. It succeeds if the network does not have the tag, or does
// not exist.
func (c *Client) removeTag(ctx context.Context, id, tag string) error {
	err := wrap("remove tag", c.send(ctx, http.MethodDelete, nil, nil, nil, "networks", id, "tags", tag))
	if ReasonOf(err) == NotFound {
		klog.FromContext(ctx).V(4).Info("The tag was gone already", "networkID", id, "tag", tag)
		return nil
	}
	return err
}
