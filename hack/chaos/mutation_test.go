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

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// mutation breaks the controller.
type mutation struct {
	name, file string
	// edits are pairs of what is there, once, and what stands there instead.
	edits []string
	// harm is what the oracle has to say of it, the one or the other.
	harm []string
	// plan is how that comes to light.
	plan plan
}

var mutations = []mutation{
	{"look-up-by-mark-disabled", "pkg/neutron/cloud.go", []string{
		"found, err = c.client.FindNetworks(ctx, identity.Owner.Mark())",
		"found, err = nil, nil",
	}, []string{duplicate}, short},
	{"finalizer-put-on-late", "controller.go", []string{
		"patched, added, err := c.live.AddFinalizerIfNeeded(ctx, network)",
		"patched, added, err := network, !live.HasFinalizer(network), error(nil)",
		"	outcome := status.Observing(desired, observed)\n",
		"	if err == nil {\n\t\tlate, _, lateErr := c.live.AddFinalizerIfNeeded(ctx, network)\n\t\tif lateErr != nil {\n" +
			"\t\t\treturn network, status.Outcome{Err: lateErr}\n\t\t}\n\t\tnetwork = late\n\t}\n" +
			"	outcome := status.Observing(desired, observed)\n",
	}, []string{leftOver, livesOn}, short},
	{"list-errors-dropped", "pkg/neutron/list.go", []string{
		"return listError(op, err)\n\t\t}\n\t\tif l.read == before {",
		"return nil\n\t\t}\n\t\tif l.read == before {",
	}, []string{duplicate, leftOver, livesOn}, short},
	{"pause-not-in-the-live-read", "pkg/live/live.go", []string{
		`{"the annotation " + samplecrdv1.AnnotationPaused, cached.IsPaused() != live.IsPaused()},`,
		"",
	}, []string{forbidden}, muchAlarm},
	{"live-read-ignored", "pkg/live/live.go", []string{
		"if changed := changes(cached, live); len(changed) > 0 {",
		"if changed := changes(cached, live); len(changed) > 100 {",
	}, []string{forbidden}, short},
	{"no-live-read", "controller.go", []string{
		"return c.live.Verify(ctx, network)",
		"return nil",
	}, []string{unread}, short},
	{"region-of-the-credentials-only", "pkg/neutron/place.go", []string{
		"if len(regions) > 1 {",
		"if false {",
		"place.Region = regions[0]",
		"place.Region = endpoint.Region",
	}, []string{duplicate, inOtherPlace}, movesOnly},
	{"place-of-the-first-session-only", "pkg/neutron/client.go", []string{
		"if before, ok := c.Place(); ok && before != place {",
		"if before, ok := c.Place(); ok {\n\t\tplace = before\n\t}\n\tif before, ok := c.Place(); ok && before != place {",
	}, []string{duplicate, inOtherPlace}, movesOnly},
	{"restored-network-not-synced", "controller.go", []string{
		"case live.IsRestored(before, now):",
		"case false:",
	}, []string{notReady, differs}, restoredAtRest},
	{"twins-delete-each-others-orphans", "pkg/orphans/finder.go", []string{
		"f.neverOwned[place] = neverOwned",
		"f.neverOwned[place] = nil",
	}, []string{notItsOwn}, shortOfTwins},
	{"lost-write-never-forgotten", "pkg/live/live.go", []string{
		"if now.Sub(missing.reread) >= rereadDelay {",
		"if now.IsZero() {",
	}, []string{notReady, differs, inCircles, endless}, restoredAtRest},
	{"lease-given-up-before-the-drain", "pkg/election/election.go", []string{
		"context.WithCancel(context.WithoutCancel(ctx))",
		"context.WithCancel(ctx)",
		"case <-ended:\n\tcase",
		"case <-ended:\n\t\te.release(context.WithoutCancel(ctx))\n\t\treturn <-result\n\tcase",
	}, []string{beforeDrain, afterGiving}, muchTrouble},
	{"no-look-at-the-lease-before-a-request", "pkg/election/election.go", []string{
		"if !e.Leads() {",
		"if false {",
	}, []string{afterLoss}, muchTrouble},
	{"half-interface-is-attached", "pkg/neutron/routerplan.go", []string{
		"return i.Confirmed || d.KnownPorts[i.SubnetID] == i.PortID",
		"return true",
	}, []string{halfUnderReady}, routersOnly},
	{"own-router-not-looked-for", "pkg/neutron/routers.go", []string{
		"routers = slices.DeleteFunc(routers, func(r Router) bool { return r.Description != mark })",
		"routers = nil",
	}, []string{secondRouter, leakedRouter}, routersOnly},
	{"obsolete-router-stays", "pkg/neutron/plan.go", []string{
		"return obsoleteRouter(desired, observed)",
		"return nil",
	}, []string{leakedRouter, secondRouter}, routersOnly},
	{"no-live-read-before-a-subnet-is-attached", "pkg/neutron/routersteps.go", []string{
		"func (AttachSubnet) Irreversible() bool { return true }",
		"func (AttachSubnet) Irreversible() bool { return false }",
	}, []string{unread, forbidden}, routersOnly},
	{"observed-networks-are-changed", "pkg/neutron/plan.go", []string{
		`if desired.Import != "" && (desired.Observe || !observed.Exists()) {`,
		`if desired.Import != "" && !observed.Exists() {`,
	}, []string{forbidden}, importsOnly},
	{"imports-are-deleted-by-default", "pkg/apis/samplecrd/v1/types.go", []string{
		`return n.Spec.DeletionPolicy == DeletionRetain || n.Spec.DeletionPolicy == "" && n.Spec.Import != nil`,
		`return n.Spec.DeletionPolicy == DeletionRetain`,
	}, []string{forbidden, takenAway}, importsOnly},
	{"tags-of-other-imports-ignored", "pkg/neutron/import.go", []string{
		"for _, other := range ImportersOf(network.Tags) {",
		`for _, other := range ImportersOf("") {`,
	}, []string{notOne, badTag, otherReason}, importsOnly},
	{"no-live-read-before-an-import", "pkg/neutron/import.go", []string{
		"func (ImportNetwork) Irreversible() bool { return true }",
		"func (ImportNetwork) Irreversible() bool { return false }",
	}, []string{unread, forbidden}, importsOnly},
}

// importsOnly has fewer other Networks, and nothing that imports do not need.
var importsOnly = func() plan {
	p := short
	p.networks, p.edits, p.restarts, p.restores, p.keystone, p.moves = 60, 1, 0, 0, 0, 0
	return p
}()

// routersOnly has fewer Networks, and nothing that routers do not need.
var routersOnly = func() plan {
	p := short
	p.networks, p.restarts, p.restores, p.keystone, p.moves = 40, 0, 0, 0, 0
	return p
}()

// muchAlarm has more edits: the moment between a request and the pause after it is short.
var muchAlarm = func() plan {
	p := short
	p.edits *= 3
	return p
}()

// movesOnly has only what needs other places.
var movesOnly = func() plan {
	p := short
	p.networks, p.kills, p.restarts, p.restores, p.keystone = 20, 2, 0, 0, 0
	return p
}()

// restoredAtRest has a backup and a restore without which the mistake does not show.
var restoredAtRest = func() plan {
	p := short
	p.moves, p.bound = 0, 4*time.Minute
	return p
}()

// muchTrouble has each kind of trouble often enough to meet a leader with its hands full.
var muchTrouble = func() plan {
	p := shortWithReplicas
	p.troubles *= 3
	return p
}()

// TestMutationsFitTheCode is quick, so that they do not fall behind.
func TestMutationsFitTheCode(t *testing.T) {
	for _, m := range mutations {
		if _, _, err := m.apply(); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
}

// TestOracleFindsFaultWithBrokenControllers shows that the oracle can fail.
func TestOracleFindsFaultWithBrokenControllers(t *testing.T) {
	needLong(t)
	dir := makeDir(t)
	controlPlane := startControlPlane(t, dir)
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			binary := filepath.Join(dir, m.name)
			if err := m.build(t.Context(), binary); err != nil {
				t.Fatal(err)
			}
			p := m.plan.adjusted()
			// What these do wrong does not heal.
			p.patience = 20 * time.Second
			found := p.execute(t, controlPlane, binary, binary+"-run")
			if !slices.ContainsFunc(found, m.isHarm) {
				t.Errorf("want one of %q", m.harm)
			}
			for _, violation := range found {
				t.Log(violation)
			}
		})
	}
}

func (m mutation) isHarm(violation string) bool {
	return slices.ContainsFunc(m.harm, func(harm string) bool { return strings.Contains(violation, harm) })
}

// apply returns the file and what is to stand there.
func (m mutation) apply() (original, mutated string, err error) {
	root, err := stack.Root()
	if err != nil {
		return "", "", err
	}
	original = filepath.Join(root, m.file)
	text, err := os.ReadFile(original)
	if err != nil {
		return "", "", err
	}
	mutated = string(text)
	for i := 0; i < len(m.edits); i += 2 {
		if n := strings.Count(mutated, m.edits[i]); n != 1 {
			return "", "", fmt.Errorf("%q is %d times in %s: mend the mutation", m.edits[i], n, m.file)
		}
		mutated = strings.Replace(mutated, m.edits[i], m.edits[i+1], 1)
	}
	return original, mutated, nil
}

// build builds the mutant, and leaves the tree as it is.
func (m mutation) build(ctx context.Context, binary string) error {
	overlay, err := m.writeOverlay(binary)
	if err != nil {
		return err
	}
	return stack.BuildControllerAs(ctx, binary, "-race", "-overlay="+overlay)
}

// writeOverlay writes the mutant and an overlay for go build to files that begin with path, and
// returns the overlay.
func (m mutation) writeOverlay(path string) (overlay string, err error) {
	original, mutated, err := m.apply()
	if err != nil {
		return "", err
	}
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{original: path + ".go"}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path+".go", []byte(mutated), 0o600); err != nil {
		return "", err
	}
	return path + ".json", os.WriteFile(path+".json", replaced, 0o600)
}
