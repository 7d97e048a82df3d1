// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

const (
	otherUID = types.UID("33333333-0000-0000-0000-000000000000")
	admin    = "admin-password"
)

// imports returns a Desired that imports the network, and the subnets with these CIDRs.
func importing(id string, cidrs ...string) View {
	desired := View{Identity: Identity{Owner: owner, Import: id, Imported: true}}
	for _, text := range cidrs {
		desired.Subnets = append(desired.Subnets, DesiredSubnet{CIDR: cidr(text), Name: testName, Mark: owner.Mark()})
	}
	return desired
}

// importer returns the identity of a Network that imports the network.
func importer(uid types.UID, id string) Identity {
	return Identity{Owner: Owner{Cluster: owner.Cluster, UID: uid}, Import: id}
}

// legacy creates a network as another client: with a description, a tag, and a subnet for each CIDR.
func (w *world) legacy(t *testing.T, cidrs ...string) *Observed {
	t.Helper()
	n := makeNetwork(t, w.others, "legacy", "team's network")
	w.tag(t, n.ID, "team-a")
	for _, text := range cidrs {
		w.subnet(t, n.ID, text, "team's subnet")
	}
	return w.inNeutron(t, n.ID)
}

// tag replaces the tags of a network as another client.
func (w *world) tag(t *testing.T, id string, tags ...string) {
	t.Helper()
	_, err := w.others.SetTags(t.Context(), id, NewTags(tags...))
	noError(t, err)
}

// subnet creates a subnet as another client, and returns its ID.
func (w *world) subnet(t *testing.T, id, cidr, description string) (subnetID string) {
	t.Helper()
	s, err := w.others.CreateSubnet(t.Context(), id, markedSubnet(cidr, description).fields())
	noError(t, err)
	return s.ID
}

// observe observes a network, which must not fail.
func (w *world) observe(t *testing.T, as Identity, read Read) *Observed {
	t.Helper()
	observed, err := w.Observe(t.Context(), as, read)
	noError(t, err)
	return observed
}

// sync observes the network and converges.
func (w *world) sync(t *testing.T, as Identity, desired View, read Read) (steps []string, err error) {
	t.Helper()
	_, taken, err := w.convergeFrom(t, as, desired, w.observe(t, as, read), Guard{})
	return texts(taken), err
}

func TestWhatIsDoneAboutAnImport(t *testing.T) {
	const id = "n"
	mine, theirs := owner.ImportTag(), Owner{owner.Cluster, otherUID}.ImportTag()
	old, elsewhere := ImportTagPrefix+string(owner.UID), Owner{"another", owner.UID}
	network := func(changes ...func(*Network)) *Observed {
		n := &Network{ID: id, Name: "legacy", Description: "team's network", Tags: NewTags("team-a")}
		for _, change := range changes {
			change(n)
		}
		return having(n)
	}
	tagged := func(tags ...string) func(*Network) {
		return func(n *Network) { n.Tags = NewTags(append(tags, "team-a")...) }
	}
	for _, test := range []struct {
		name     string
		observed *Observed
		// imported is what the status says.
		imported, observe bool
		step, err         string
	}{
		{"an unmarked network is marked", network(), false, false, "network n imported", ""},
		{"a mark from before a crash is confirmed", network(tagged(mine)), false, false, "network n imported", ""},
		{"a mark that was removed is put on again", network(), true, false, "ownership mark restored", ""},
		{"nothing to do", network(tagged(mine)), true, false, "", ""},
		{"a network that is not there is not created", &Observed{}, true, false, "", "there is no network n that the credentials can see"},
		{"another's import", network(tagged(theirs)), false, false, "", "is imported by the Network with the UID " + string(otherUID)},
		{"another's import of an older version", network(tagged(ImportTagPrefix + string(otherUID))), false, false, "", "is imported by the Network with the UID " + string(otherUID)},
		{"another's import, and a mark that was not confirmed", network(tagged(mine, theirs)), false, false, "ownership mark withdrawn", "is imported by"},
		{"another's mark appears later: ours stays", network(tagged(mine, theirs)), true, false, "", "is imported by"},
		{"a network that was created for another Network", network(func(n *Network) { n.Description = Owner{owner.Cluster, otherUID}.Mark() }), false, false, "", "was created for the Network with the UID " + string(otherUID)},
		{"a network that the original of this cluster created", network(func(n *Network) { n.Description = elsewhere.Mark() }), false, false, "", "was created for a Network of another cluster, with the UID " + string(owner.UID)},
		{"the import of the original of this cluster", network(tagged(elsewhere.ImportTag())), true, false, "", "is imported by a Network of another cluster, with the UID " + string(owner.UID) + ": if that is gone, remove the tag " + elsewhere.ImportTag()},
		{"a mark of an older version", network(tagged(old)), true, false, "ownership mark replaced by one that names the cluster", ""},
		{"a mark of an older version in upper case", network(tagged(strings.ToUpper(old))), true, false, "ownership mark replaced by one that names the cluster", ""},
		{"a mark of an older version and the one that replaces it", network(tagged(old, mine)), true, false, "ownership mark replaced by one that names the cluster", ""},
		{"the original of this cluster has replaced it", network(tagged(old, elsewhere.ImportTag())), true, false, "", "another cluster"},
		{"an external network", network(func(n *Network) { n.External = true }), false, false, "", "is an external network"},
		{"a mark proves nothing on a network of another project", network(tagged(mine), func(n *Network) { n.IsForeign = true }), true, false, "", "belongs to another project"},
		{"an observed network is not marked", network(), false, true, "", ""},
		{"an observed network that another has imported", network(tagged(theirs)), false, true, "", ""},
		{"an observed network that is not there", &Observed{}, false, true, "", "there is no network n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			desired := importing(id)
			desired.Imported, desired.ReadOnly = test.imported, test.observe
			step, text := at(desired, test.observed).Next(), ""
			if step != nil {
				text = step.String()
			}
			equal(t, test.step, text)
			err := at(desired, test.observed).CheckImport()
			if text = fmt.Sprint(err); test.err == "" && err != nil || !strings.Contains(text, test.err) {
				t.Errorf("got the error %s, want %s", text, test.err)
			}
			equal(t, strings.Contains(text, holderText(otherUID)), errorIn(err).Holder != "")
		})
	}
}

// A mark of an older version does not say which cluster has imported the network. A copy of a cluster that was given
// an ID of its own must not take it for its own.
func TestAMarkWithoutAClusterIsNotThatOfAClusterWithAnIDOfItsOwn(t *testing.T) {
	const old = ImportTagPrefix + "22222222-0000-0000-0000-000000000000"
	desired, observed := importing("n"), having(&Network{ID: "n", Tags: NewTags(old)})
	desired.Owner = Owner{"copy", owner.UID}
	equal(t, Step(nil), at(desired, observed).Next())
	err := at(desired, observed).CheckImport()
	equal(t, ImportRefused, ReasonOf(err))
	equal(t, types.UID(""), errorIn(err).Holder) // it is not the Network of this cluster with that UID
	equal(t, true, strings.Contains(err.Error(), "remove the tag "+old))
}

func TestTheTagOfAnImport(t *testing.T) {
	tag := Owner{strings.Repeat("c", 63), owner.UID}.ImportTag()
	equal(t, 60, len(tag))
	for _, test := range []struct {
		name, tag string
		want      []Importer
	}{
		{"of this version", tag, []Importer{{owner.UID, clusterDigest(strings.Repeat("c", 63))}}},
		{"in upper case, as another client has written it", strings.ToUpper(tag), []Importer{{owner.UID, clusterDigest(strings.Repeat("c", 63))}}},
		{"of an older version", ImportTagPrefix + string(owner.UID), []Importer{{UID: owner.UID}}},
		{"with another end", tag + "0", []Importer{{UID: owner.UID + "-" + types.UID(clusterDigest(strings.Repeat("c", 63))) + "0"}}},
		{"without a UID", ImportTagPrefix + "-0123456", []Importer{{UID: "-0123456"}}},
		{"no mark", "x" + tag, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, test.want, ImportersOf(NewTags("team-a", test.tag)))
			equal(t, test.want == nil, NewTags(test.tag).withoutMarks() != "")
		})
	}
}

// What the spec leaves out stays as it was found.
func TestPlanOfAnImport(t *testing.T) {
	subnet := func(gateway, pools string) Subnet {
		return Subnet{ID: "s", CIDR: cidr("10.0.0.0/24"), Gateway: addr(gateway), Pools: Pools(pools), Name: "their subnet", Description: "theirs",
			DNSNameservers: "192.0.2.53", Routes: "10.99.0.0/16 via 10.0.0.9", DHCP: false}
	}
	custom := subnet("10.0.0.9", "10.0.0.100-10.0.0.200")
	byDefault := subnet("10.0.0.1", "10.0.0.2-10.0.0.254")
	ours := subnet("10.0.0.1", "10.0.0.2-10.0.0.254")
	ours.Description = owner.Mark()
	with := func(d View, change func(*View)) View { change(&d); return d }
	for _, test := range []struct {
		name    string
		desired View
		subnets []Subnet
		step    string
	}{
		{"nothing is declared", importing("n"), []Subnet{custom}, ""},
		{"only a CIDR that is there", importing("n", "10.0.0.0/24"), []Subnet{custom}, ""},
		{"a CIDR that is not there is created", importing("n", "10.1.0.0/24"), []Subnet{custom}, "subnet 10.1.0.0/24 created"},
		{"a declared field is changed alone", with(importing("n", "10.0.0.0/24"), func(d *View) { d.Subnets[0].DNSNameservers = "192.0.2.99" }), []Subnet{custom},
			"DNS servers set to 192.0.2.99"},
		{"the pools that Neutron chose follow the gateway", with(importing("n", "10.0.0.0/24"), func(d *View) { d.Subnets[0].Gateway = addr("10.0.0.254") }), []Subnet{byDefault},
			"gateway set to 10.0.0.254"},
		{"pools that somebody chose stay", with(importing("n", "10.0.0.0/24"), func(d *View) { d.Subnets[0].Gateway = addr("10.0.0.254") }), []Subnet{custom},
			"gateway set to 10.0.0.254"},
		{"another gateway than Neutron's default stays, with its pools", importing("n", "10.0.0.0/24"), []Subnet{subnet("10.0.0.9", "10.0.0.1-10.0.0.8, 10.0.0.10-10.0.0.254")}, ""},
		{"a taken-over subnet that is no longer declared stays", importing("n", "10.1.0.0/24"), []Subnet{custom, {ID: "t", CIDR: cidr("10.1.0.0/24"), Gateway: addr("10.1.0.1")}}, ""},
		{"a taken-over subnet is not replaced: Neutron refuses the other one", with(importing("n", "fd00::/64"), func(d *View) { d.Subnets[0].AddressMode = "slaac" }),
			[]Subnet{{ID: "s", CIDR: cidr("fd00::/64"), Gateway: addr("fd00::1")}}, "subnet fd00::/64 created"},
		{"a subnet that the controller created is deleted when it is no longer declared", importing("n"), []Subnet{ours}, "subnet 10.0.0.0/24 deleted"},
		{"another owner's subnet is not taken over", importing("n", "10.0.0.0/24"), []Subnet{{ID: "s", CIDR: cidr("10.0.0.0/24"), Description: Owner{"c", otherUID}.Mark()}},
			"subnet 10.0.0.0/24 created"},
		{"tags keep the mark", with(importing("n"), func(d *View) { d.Network.Tags = new(NewTags("x")) }), nil, "tags set to " + owner.ImportTag() + ", x"},
		{"shared is left as it is unless it is declared", with(importing("n"), func(d *View) { d.Network.Shared = true }), nil, "shared set to true"},
	} {
		t.Run(test.name, func(t *testing.T) {
			observed := having(&Network{ID: "n", Name: "legacy", Description: "theirs", Tags: NewTags(owner.ImportTag(), "team-a"), DNSDomain: "example.org.", Subnets: test.subnets})
			text := ""
			step := at(test.desired, observed).Next()
			if step != nil {
				text = step.String()
			}
			equal(t, test.step, text)
			if update, ok := step.(UpdateSubnet); ok {
				isDefault := test.subnets[0].Pools == byDefault.Pools && slices.Contains(labels(update.Changes), "gateway")
				equal(t, isDefault, slices.Contains(labels(update.Changes), "allocation pools"))
			}
		})
	}
}

func TestAnImportIsRecordedBeforeAnythingElseIsChanged(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	before := w.legacy(t, "10.0.0.0/24")
	as, desired := importer(owner.UID, before.ID), importing(before.ID, "10.0.0.0/24")
	desired.Subnets[0].Gateway = addr("10.0.0.254")
	desired.Imported = false
	steps, err := w.sync(t, as, desired, Cached)
	wantError(t, Error{Op: "in progress", Reason: Unrecorded, Message: "next step: gateway set to 10.0.0.254"}, err)
	equal(t, []string{"network " + before.ID + " imported"}, steps)
	desired.Imported = true
	steps, err = w.sync(t, as, desired, Cached)
	noError(t, err)
	equal(t, []string{"gateway set to 10.0.0.254"}, steps)
	equal(t, "team's subnet", w.inNeutron(t, before.ID).Subnets[0].Description)
	noError(t, w.others.removeTag(t.Context(), before.ID, owner.ImportTag())) // the cache has it
	desired.Subnets[0].Gateway = addr("10.0.0.253")
	steps, err = w.sync(t, as, desired, Cached)
	noError(t, err)
	equal(t, []string{"ownership mark restored", "gateway set to 10.0.0.253"}, steps)
}

func texts(steps []Step) (all []string) {
	for _, s := range steps {
		all = append(all, s.String())
	}
	return all
}

// Of two controllers that mark a network at the same moment, one withdraws, and has changed nothing else. They are of
// one cluster, or of two with the same UIDs that find a mark of an older version.
func TestTwoImportsAtTheSameMoment(t *testing.T) {
	old := ImportTagPrefix + string(owner.UID)
	for _, test := range []struct {
		name  string
		other Owner
		// before are the tags from before, and steps those of the one that tries again.
		before, steps []string
	}{
		{"in one cluster", Owner{owner.Cluster, otherUID}, []string{"team-a"}, []string{"network ID imported"}},
		{"a mark of an older version", Owner{"44444444-0000-0000-0000-000000000000", owner.UID}, []string{"team-a", old},
			[]string{"ownership mark replaced by one that names the cluster", "gateway set to 10.0.0.254"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, embedded.Options{})
			id, isOld := w.legacy(t, "10.0.0.0/24").ID, slices.Contains(test.before, old)
			w.tag(t, id, test.before...)
			as, desired, theirs := importer(owner.UID, id), importing(id, "10.0.0.0/24"), test.other.ImportTag()
			as.Imported, desired.Imported = isOld, isOld
			if isOld {
				desired.Subnets[0].Gateway = addr("10.0.0.254")
			}
			w.answer(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, owner.ImportTag()) {
					w.answer(nil)
					noError(t, w.others.addTag(t.Context(), id, theirs))
				}
				return false
			})
			steps, err := w.sync(t, as, desired, Cached)
			equal(t, ImportRefused, ReasonOf(err))
			equal(t, !isOld, errorIn(err).Holder == otherUID) // a Network of another cluster has no name here
			equal(t, true, RetryAfterOf(err) > 0)             // the other one may have withdrawn too
			equal(t, 0, len(steps))
			equal(t, NewTags(append(test.before, theirs)...), w.inNeutron(t, id).Tags)

			noError(t, w.others.removeTag(t.Context(), id, theirs)) // it has
			steps, err = w.sync(t, as, desired, Live)
			noError(t, err)
			equal(t, strings.ReplaceAll(strings.Join(test.steps, ", "), "ID", id), strings.Join(steps, ", "))
			equal(t, NewTags("team-a", owner.ImportTag()), w.inNeutron(t, id).Tags)
		})
	}
}

// Another replica can have confirmed the import, which the cache does not say yet.
func TestAMarkIsWithdrawnOnlyAfterALiveRead(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	id, tags := w.legacy(t).ID, []string{owner.ImportTag(), Owner{owner.Cluster, otherUID}.ImportTag()}
	as := importer(owner.UID, id)
	w.tag(t, id, tags...)
	desired := importing(id)
	desired.Imported = false
	_, steps, err := w.convergeFrom(t, as, desired, w.observe(t, as, Cached), w.verifying(new([]int), 0))
	equal(t, true, err == errRefused)
	equal(t, 0, len(steps))
	equal(t, NewTags(tags...), w.inNeutron(t, id).Tags)
}

func TestTheNextImporterIsWokenWhenTheNetworkIsFree(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	id := w.legacy(t).ID
	first, second := importer(owner.UID, id), importer(otherUID, id)
	for _, as := range []Identity{first, second} {
		desired := importing(id)
		desired.Owner, desired.Imported = as.Owner, false
		_, err := w.sync(t, as, desired, Live)
		equal(t, as.Owner.UID == otherUID, ReasonOf(err) == ImportRefused)
	}
	kept, err := w.Remove(t.Context(), first, w.observe(t, first, Cached), true, Guard{})
	noError(t, err)
	equal(t, id, kept.ID)
	equal(t, []types.UID{otherUID}, w.told)
	equal(t, NewTags("team-a"), w.inNeutron(t, id).Tags)
	equal(t, true, w.observer.clock.lastChange(owner.UID) > 0)
	w.ForgetOwner(owner.UID)
	equal(t, []types.UID{otherUID}, w.Cloud.imports.of(id))
	equal(t, int64(0), w.observer.clock.lastChange(owner.UID))
}

// The mark is taken off even if the read that confirms it has failed in a way that changes nothing.
func TestAnUnconfirmedImportIsRemoved(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	id := w.legacy(t).ID
	as, desired := importer(owner.UID, id), importing(id)
	desired.Imported = false
	isMarked := false
	w.answer(func(answer http.ResponseWriter, r *http.Request) bool {
		if isMarked {
			return reply(answer, http.StatusForbidden, neutronBody("PolicyNotAuthorized", "no"))
		}
		isMarked = r.Method == http.MethodPut
		return false
	})
	_, err := w.sync(t, as, desired, Cached)
	equal(t, Forbidden, ReasonOf(err))
	w.answer(nil)
	equal(t, NewTags("team-a", owner.ImportTag()), w.inNeutron(t, id).Tags)

	observed := w.observe(t, as, Cached)
	w.answer(replyTo(http.MethodDelete, networksPath, 500, ""))
	_, err = w.Remove(t.Context(), as, observed, true, Guard{})
	wantError(t, Error{Op: "remove tag", Reason: Unavailable, Message: "500 Internal Server Error"}, err)
	w.answer(nil)
	_, err = w.Remove(t.Context(), as, observed, true, Guard{})
	noError(t, err)
	equal(t, NewTags("team-a"), w.inNeutron(t, id).Tags)
}

// A Network that only observes does not keep others from the network, once its mark is off.
func TestAnObserverGivesTheNetworkUp(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	id := w.legacy(t).ID
	sync := func(uid types.UID, observe bool) error {
		as, desired := importer(uid, id), importing(id)
		desired.Owner, desired.Imported, as.ReadOnly, desired.ReadOnly = as.Owner, false, observe, observe
		_, err := w.sync(t, as, desired, Live)
		return err
	}
	noError(t, sync(owner.UID, false))
	equal(t, ImportRefused, ReasonOf(sync(otherUID, false)))
	noError(t, sync(owner.UID, true))
	equal(t, ImportRefused, ReasonOf(sync(otherUID, false))) // its mark is still there
	noError(t, w.others.removeTag(t.Context(), id, owner.ImportTag()))
	noError(t, sync(otherUID, false))
}

// Only its mark keeps a network for a Network: when another client has removed it, another Network imports the network, although the
// first one was not synced meanwhile, because its credentials are refused or lead elsewhere.
func TestAnImportIsKeptByItsMarkAlone(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	id := w.legacy(t).ID
	sync := func(uid types.UID) error {
		as, desired := importer(uid, id), importing(id)
		desired.Owner, desired.Imported = as.Owner, false
		_, err := w.sync(t, as, desired, Live)
		return err
	}
	noError(t, sync(owner.UID))
	equal(t, ImportRefused, ReasonOf(sync(otherUID)))
	noError(t, w.others.removeTag(t.Context(), id, owner.ImportTag()))
	noError(t, sync(otherUID))
	equal(t, ImportRefused, ReasonOf(sync(owner.UID)))
}

func TestRemoveAnImport(t *testing.T) {
	theirs := Owner{owner.Cluster, otherUID}.ImportTag()
	old, elsewhere := ImportTagPrefix+string(owner.UID), Owner{"another", owner.UID}.ImportTag()
	for _, test := range []struct {
		name            string
		tags            []string
		retain, observe bool
		// want are the tags that the network has then; nil: it is gone.
		want   []string
		reason ErrorReason
	}{
		{"retained: the mark is taken off", []string{owner.ImportTag()}, true, false, []string{"team-a"}, ""},
		{"retained, with another's mark too", []string{owner.ImportTag(), theirs}, true, false, []string{"team-a", theirs}, ""},
		{"deleted, as the spec says", []string{owner.ImportTag()}, false, false, nil, ""},
		{"retained: the mark of an older version is taken off", []string{old, owner.ImportTag()}, true, false, []string{"team-a"}, ""},
		{"retained: the mark of the original of this cluster stays", []string{elsewhere}, true, false, []string{"team-a", elsewhere}, ""},
		{"not deleted with the mark of the original of this cluster", []string{elsewhere}, false, false, []string{"team-a", elsewhere}, ""},
		{"not deleted with it and the mark of an older version, which is the original's too", []string{old, elsewhere}, false, false, []string{"team-a", old, elsewhere}, ""},
		{"not deleted without the mark", nil, false, false, []string{"team-a"}, ""},
		{"not confirmed, and another has it: the mark is taken off", []string{owner.ImportTag(), theirs}, false, false, []string{"team-a", theirs}, ""},
		{"not deleted while another has it", []string{owner.ImportTag(), theirs}, false, false, []string{"team-a", owner.ImportTag(), theirs}, ImportRefused},
		{"only observed: nothing is changed", []string{owner.ImportTag()}, false, true, []string{"team-a", owner.ImportTag()}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, embedded.Options{})
			before := w.legacy(t, "10.0.0.0/24")
			w.tag(t, before.ID, append(test.tags, "team-a")...)
			w.subnet(t, before.ID, "10.1.0.0/24", owner.Mark())
			as := importer(owner.UID, before.ID)
			as.ReadOnly, as.Imported = test.observe, !strings.HasPrefix(test.name, "not confirmed")
			kept, err := w.Remove(t.Context(), as, w.observe(t, as, Live), test.retain, Guard{})
			equal(t, test.reason, ReasonOf(err))
			after, err := w.others.GetNetwork(t.Context(), before.ID)
			if test.want == nil {
				equal(t, NotFound, ReasonOf(err))
				equal(t, true, kept == nil)
				return
			}
			noError(t, err)
			equal(t, NewTags(test.want...), after.Tags)
			equal(t, "team's network", after.Description)
			marked := slices.ContainsFunc(after.Subnets, func(s Subnet) bool { return owner.marks(s.Description) })
			equal(t, test.observe || test.reason != "", marked)
		})
	}
}

// The mark can be taken off after the network was observed, and a subnet can still carry the owner's mark.
func TestAnImportThatLosesItsMarkDuringTheDeletionIsNotDeleted(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	id := w.legacy(t, "10.0.0.0/24").ID
	w.tag(t, id, "team-a", owner.ImportTag())
	w.subnet(t, id, "10.1.0.0/24", owner.Mark())
	as := importer(owner.UID, id)
	as.Imported = true
	observed := w.observe(t, as, Live)
	noError(t, w.others.removeTag(t.Context(), id, owner.ImportTag()))
	_, err := w.Remove(t.Context(), as, observed, false, Guard{})
	equal(t, Stale, ReasonOf(err))
	kept, err := w.Remove(t.Context(), as, w.observe(t, as, Cached), false, Guard{})
	noError(t, err)
	equal(t, id, kept.ID)
	after := w.inNeutron(t, id)
	equal(t, 2, len(after.Subnets))
	equal(t, false, slices.ContainsFunc(after.Subnets, func(s Subnet) bool { return owner.marks(s.Description) }))
}

// What a list has shown of another mark can be old: that it keeps a network which the spec deletes is read again.
func TestAnImportThatHasNoOtherMarkAnyMoreIsDeleted(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	id, theirs := w.legacy(t, "10.0.0.0/24").ID, Owner{owner.Cluster, otherUID}.ImportTag()
	w.tag(t, id, owner.ImportTag(), theirs)
	as := importer(owner.UID, id)
	as.Imported = false
	observed := w.observe(t, as, Live)
	noError(t, w.others.removeTag(t.Context(), id, theirs))
	_, err := w.Remove(t.Context(), as, observed, false, Guard{})
	noError(t, err)
	_, err = w.others.GetNetwork(t.Context(), id)
	equal(t, NotFound, ReasonOf(err))
}

// A relist costs the same with and without imports. Those of other projects cost two lists for each 64.
func TestRelistWithImports(t *testing.T) {
	w := newWorld(t, embedded.Options{Projects: []embedded.Project{
		{Name: "samplecrd", ID: "project-1", Password: password},
		{Name: "admin", ID: "project-2", Password: admin, Admin: true},
	}})
	relist := func() int {
		return len(w.since(func() { noError(t, w.Observer().Relist(t.Context())) }))
	}
	without := 0
	for i := range 999 { // one page
		w.observe(t, importer(types.UID(fmt.Sprint("own-", i)), w.legacy(t, "10.0.0.0/24").ID), Cached)
		if i == 0 {
			without = relist()
		}
	}
	equal(t, 2, without) // networks and subnets, as for networks that the controller created
	equal(t, without, relist())
	others := newTestClient(t, w.configAs(t, "admin", admin), ClientOptions{Timeout: 10 * time.Second})
	const shared = 70
	for i := range shared {
		desired := creating("shared")
		desired.Network.Shared = true
		n, err := others.CreateNetwork(t.Context(), desired.fields())
		noError(t, err)
		as := importer(types.UID(fmt.Sprint("foreign-", i)), n.ID)
		as.ReadOnly = true
		equal(t, true, w.observe(t, as, Cached).IsForeign)
	}
	equal(t, without+4, relist())
	w.told = nil
	equal(t, without+4, relist())
	equal(t, []types.UID(nil), w.told)
	equal(t, true, w.observe(t, importer("foreign-3", w.Cloud.imports.networks["foreign-3"]), Cached).IsForeign)
	all, _ := w.Observer().All()
	equal(t, 0, len(all)) // none of these was created for a Network: none can be an orphan
}

func TestDifferences(t *testing.T) {
	subnet := Subnet{ID: "s", CIDR: cidr("10.0.0.0/24"), Gateway: addr("10.0.0.1"), Pools: "10.0.0.2-10.0.0.254", DHCP: true, DNSNameservers: "192.0.2.53"}
	with := func(change func(*View), cidrs ...string) View {
		d := importing("n", cidrs...)
		change(&d)
		return d
	}
	for _, test := range []struct {
		name    string
		desired View
		change  func(*Observed)
		want    []string
	}{
		{"nothing is declared", importing("n"), nil, nil},
		{"the mark is no difference", importing("n"), func(n *Observed) { n.Tags = NewTags("team-a", owner.ImportTag()) }, nil},
		{"only what is declared differs", with(func(d *View) { d.Network.MTU, d.Network.Shared = 1400, true }), nil,
			[]string{"MTU is 1450, and the spec has 1400", "shared is false, and the spec has true"}},
		{"availability zones", with(func(d *View) { d.Network.ZoneHints = NewTags("nova", "az2") }), nil,
			[]string{"availability zone hints are none, and the spec has az2, nova"}},
		{"tags, without the marks", with(func(d *View) { d.Network.Tags = new(NewTags("b", "a")) }), func(n *Observed) { n.Tags = NewTags("team-a", owner.ImportTag()) },
			[]string{"tags are team-a, and the spec has a, b"}},
		{"a gateway, without the pools that follow it", with(func(d *View) { d.Subnets[0].Gateway = addr("10.0.0.254") }, "10.0.0.0/24"), nil,
			[]string{"gateway of subnet 10.0.0.0/24 is 10.0.0.1, and the spec has 10.0.0.254"}},
		{"a gateway that must not be there", with(func(d *View) { d.Subnets[0].NoGateway = true }, "10.0.0.0/24"), nil,
			[]string{"gateway of subnet 10.0.0.0/24 is 10.0.0.1, and the spec has none"}},
		{"a subnet that is missing", importing("n", "10.0.0.0/24", "10.1.0.0/24"), nil, []string{"subnet 10.1.0.0/24 is missing"}},
		{"a subnet whose modes Neutron cannot change", with(func(d *View) { d.Subnets[0].AddressMode = "slaac" }, "10.0.0.0/24"), nil,
			[]string{"subnet 10.0.0.0/24 has other IPv6 modes than the spec, or belongs to another owner"}},
		{"a router that is not attached", with(func(d *View) { d.Router = &DesiredRouter{Existing: "r"} }, "10.0.0.0/24"), func(n *Observed) { n.RoutersKnown = true },
			[]string{"subnet 10.0.0.0/24 is not attached to router r"}},
		{"a router that is attached", with(func(d *View) { d.Router = &DesiredRouter{Existing: "r"} }, "10.0.0.0/24"), func(n *Observed) {
			n.RoutersKnown, n.Interfaces = true, []Interface{{RouterID: "r", SubnetID: "s", Address: addr("10.0.0.1")}}
		}, nil},
		{"no router of its own", with(func(d *View) { d.Router = &DesiredRouter{ExternalNetwork: "e"} }, "10.0.0.0/24"), func(n *Observed) { n.RoutersKnown = true },
			[]string{"there is no router of the Network's own"}},
		{"a network that is not there has no differences", importing("n", "10.0.0.0/24"), func(n *Observed) { *n = Observed{} }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			observed := having(&Network{ID: "n", Name: "legacy", MTU: 1450, Subnets: []Subnet{subnet}})
			if test.change != nil {
				test.change(observed)
			}
			equal(t, test.want, at(test.desired, observed).Differences())
		})
	}
}

func TestDifferencesOfRoutes(t *testing.T) {
	d := importing("n", "10.0.0.0/24")
	withRoutes("public", toA)(&d)
	d.Observed = connected(has(Subnet{ID: "a", CIDR: cidr("10.0.0.0/24"), Gateway: addr("10.0.0.1"), DHCP: true}), leading(router("r", "public"), toA2), joins("r", "a", "10.0.0.1"))
	equal(t, []string{"router routes are " + string(toA2) + ", and the spec has " + string(toA)}, d.Differences())
	d.Router.Routes = new(toA2)
	equal(t, 0, len(d.Differences()))
}

// Neutron refuses to change the availability zones together with all other changes, so the controller does not ask.
func TestAnImportInOtherZones(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	id := w.legacy(t).ID
	as, desired := importer(owner.UID, id), importing(id)
	desired.Imported, desired.Network.ZoneHints = false, NewTags("az2")
	writes := w.writes()
	_, err := w.sync(t, as, desired, Live)
	wantError(t, Error{Op: opImport, Reason: ImportRefused,
		Message: "network " + id + " has other availability zones: availability zone hints are none, and the spec has az2: Neutron cannot change them"}, err)
	equal(t, writes, w.writes())

	// The spec gets them when the network is the owner's already.
	none := desired
	none.Network.ZoneHints = ""
	_, err = w.sync(t, as, none, Live)
	noError(t, err)
	as.Imported, desired.Imported = true, true
	want := Error{Op: "spec.availabilityZoneHints", Reason: Invalid, Message: "availability zone hints are none, and the spec has az2: Neutron cannot change them"}
	writes = w.writes()
	_, err = w.sync(t, as, desired, Cached)
	wantError(t, want, err)
	equal(t, writes, w.writes())
	preview, err := w.Preview(t.Context(), as, desired.Desired)
	noError(t, err)
	equal(t, 1, len(preview.Steps))
	equal(t, "availability zone hints none → az2", preview.Steps[0].Text)
	equal(t, want.Message, preview.Steps[0].Blocked)
}

// A subnet that was taken over and attached is detached when the spec names neither it nor the router.
func TestRouterOfAnImportIsRemoved(t *testing.T) {
	desired := importing("n")
	desired.RouterID, desired.PortIDs = "r", map[string]string{"s": "p"}
	observed := newObserved(owner.UID, []*Network{{ID: "n", Tags: NewTags(owner.ImportTag()),
		Subnets:    []Subnet{{ID: "s", CIDR: cidr("10.0.0.0/24"), Gateway: addr("10.0.0.1")}},
		Interfaces: []Interface{{PortID: "p", RouterID: "r", SubnetID: "s", Address: addr("10.0.0.1")}, {PortID: "q", RouterID: "theirs", SubnetID: "s", Address: addr("10.0.0.2")}},
	}}, []Router{{ID: "r", Description: owner.Mark()}, {ID: "theirs"}}, true)
	equal(t, "p", at(desired, observed).Shown()[0].RouterPortID)
	equal(t, []string{"subnet 10.0.0.0/24 detached from router r", "router r deleted"}, texts(at(desired, observed).Plan()))
}

// A router interface that was found stays where it is, unless the spec declares the gateway.
func TestInterfaceOfATakenOverSubnetStays(t *testing.T) {
	for _, test := range []struct {
		name, gateway string
		declared      bool
		steps         []string
	}{
		{"at another address than the gateway", "10.0.0.254", false, []string{"connection of subnet 10.0.0.0/24 to router r confirmed"}},
		{"without a gateway", "", false, nil},
		{"the spec declares the gateway", "10.0.0.254", true, []string{"subnet 10.0.0.0/24 detached from router r", "subnet 10.0.0.0/24 attached to router r"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			desired := importing("n", "10.0.0.0/24")
			desired.Router = &DesiredRouter{Existing: "r"}
			desired.RouterID, desired.RouterRecorded = "r", true
			s := Subnet{ID: "s", CIDR: cidr("10.0.0.0/24"), Description: "theirs"}
			if test.gateway != "" {
				s.Gateway = addr(test.gateway)
			}
			if test.declared {
				desired.Subnets[0].Gateway = s.Gateway
			}
			imported := &Network{ID: "n", Tags: NewTags(owner.ImportTag()), Subnets: []Subnet{s},
				Interfaces: []Interface{{PortID: "p", RouterID: "r", SubnetID: "s", Address: addr("10.0.0.1")}}}
			// Another network is no duplicate of an import.
			observed := newObserved(owner.UID, []*Network{{ID: "created"}, imported}, []Router{{ID: "r"}}, true).of(desired.Identity)
			equal(t, test.steps, texts(at(desired, observed).Plan()))
			equal(t, test.declared, len(at(desired, observed).Differences()) > 0)
		})
	}
}

// A view that is out of date does not let a Network write to a network that another one has by now.
func TestAnImportThatWasLostIsNotChanged(t *testing.T) {
	ours, theirs := owner.ImportTag(), Owner{owner.Cluster, otherUID}.ImportTag()
	for name, tags := range map[string]struct{ seen, now []string }{
		"another one has it":     {[]string{ours}, []string{theirs}},
		"another one has it too": {[]string{ours}, []string{ours, theirs}},
		"another one was first":  {nil, []string{theirs}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, embedded.Options{})
			id := w.legacy(t, "10.0.0.0/24").ID
			w.tag(t, id, tags.seen...)
			as, desired := importer(owner.UID, id), importing(id, "10.0.0.0/24")
			desired.Subnets[0].Gateway, desired.Imported = addr("10.0.0.254"), tags.seen != nil
			observed := w.observe(t, as, Live)
			w.tag(t, id, tags.now...)
			before := w.inNeutron(t, id)
			_, _, err := w.convergeFrom(t, as, desired, observed, Guard{})
			equal(t, ImportRefused, ReasonOf(err))
			equal(t, before, w.inNeutron(t, id))
			equal(t, otherUID, w.Cloud.imports.hold(id, otherUID)) // it is not kept from the other one
		})
	}
}

// Networks of no project, such as those between highly available routers, are not ours.
func TestANetworkOfNoProjectIsForeign(t *testing.T) {
	w := newWorld(t, embedded.Options{})
	w.legacy(t) // there is a session
	n := &Network{ID: "n"}
	w.others.setForeign(n)
	equal(t, true, n.IsForeign)
}

// The router that the controller has created goes with deletionPolicy Delete, if the network is gone.
func TestRouterOfAVanishedImportIsDeleted(t *testing.T) {
	as := importer(owner.UID, "n")
	equal(t, false, as.keeps(&Network{}))
	equal(t, true, as.keeps(&Network{ID: "n"}))
}
