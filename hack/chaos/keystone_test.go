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
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"time"

	identity "github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// keystoneFaults are what Keystone answers for a while.
var keystoneFaults = []*fault{
	{name: "500 of Keystone", spoil: says(500, `{"error": {"code": 500, "title": "Internal Server Error"}}`)},
	{name: "503 of Keystone", spoil: says(503, page, "Content-Type", "text/html")},
	{name: "200 page of Keystone", spoil: says(200, page, "Content-Type", "text/html")},
	{name: "200 of Keystone, without a token", spoil: says(200, "{}", "Content-Type", "application/json")},
	{name: "connection to Keystone cut", spoil: cut},
	{name: "hang of Keystone", spoil: hang},
}

const (
	keystoneFailures = "failures of Keystone with all tokens revoked"
	movesTo          = "moves to "
)

// spoilKeystone revokes all tokens, and lets Keystone fail for a while, again and again.
func (w *world) spoilKeystone(ctx context.Context, rand *rand.Rand) error {
	all, order := w.killsLeft(), rand.Perm(len(keystoneFaults))
	for i := range w.plan.keystone {
		if err := w.waitForKills(ctx, all*(w.plan.keystone-i)/(w.plan.keystone+1)); err != nil {
			return err
		}
		f := keystoneFaults[order[i%len(order)]]
		w.tally.log("Keystone fails: %s", f.name)
		w.everyProxy(func(p *proxy) {
			p.keystone.Store(f)
			p.tokens.revokeAll()
		})
		select {
		case <-time.After(500*time.Millisecond + time.Duration(rand.IntN(1000))*time.Millisecond):
		case <-ctx.Done():
		}
		w.everyProxy(func(p *proxy) { p.keystone.Store(nil) })
		w.tally.log("Keystone answers again")
		w.tally.add(keystoneFailures)
		w.ahead.Add(-1)
	}
	return nil
}

func (w *world) everyProxy(do func(*proxy)) {
	for _, c := range w.controllers {
		for _, r := range c.replicas {
			do(r.proxy)
		}
	}
}

// place is where Keystone leads a client that names neither a region nor a project.
type place int32

const (
	home         place = iota
	otherRegion        // another region is the first in the catalog
	otherProject       // the user has another default project
)

func (p place) String() string {
	return [...]string{"home", "another region that is the first in the catalog", "another default project of the user"}[p]
}

// elsewhere is a second project of the embedded Neutron. It also serves as a second region.
type elsewhere struct {
	cloud      string
	cloudsYAML []byte
	// names has the pairs of what is different in a request for a token.
	names []string
}

const otherCloud = stack.Cloud + "-elsewhere"

// projects are those of an embedded Neutron with an elsewhere.
func projects() []embedded.Project {
	return []embedded.Project{{Name: "samplecrd", Password: "of-samplecrd"}, {Name: "elsewhere", Password: "of-elsewhere"}}
}

func newElsewhere(cloudsYAML string) (*elsewhere, error) {
	content, err := os.ReadFile(cloudsYAML)
	return &elsewhere{cloud: otherCloud, cloudsYAML: content, names: []string{
		`"samplecrd"`, `"elsewhere"`, `"of-samplecrd"`, `"of-elsewhere"`,
	}}, err
}

// networks returns the networks that were made elsewhere.
func (e *elsewhere) networks(ctx context.Context) ([]stack.Network, error) {
	client, err := stack.Connect(ctx, e.cloud, e.cloudsYAML)
	if err != nil {
		return nil, err
	}
	return (&stack.Neutron{Client: client}).Networks(ctx)
}

// token returns a token for elsewhere.
func (e *elsewhere) token(ctx context.Context) (string, error) {
	client, err := stack.Connect(ctx, e.cloud, e.cloudsYAML)
	if err != nil {
		return "", err
	}
	return client.Token(), nil
}

// asOther returns the request for a token as if the user had another default project.
func (e *elsewhere) asOther(body []byte) []byte {
	for i := 0; i < len(e.names); i += 2 {
		body = bytes.ReplaceAll(body, []byte(e.names[i]), []byte(e.names[i+1]))
	}
	return body
}

// withOtherRegion adds a region to the catalog in an answer of Keystone, as the first one.
func withOtherRegion(body []byte, url string) []byte {
	var answer struct {
		Token map[string]any `json:"token"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Token == nil {
		return body
	}
	catalog, _ := answer.Token["catalog"].([]any)
	for _, s := range catalog {
		service, _ := s.(map[string]any)
		endpoints, _ := service["endpoints"].([]any)
		var added []any
		for _, i := range []string{"public", "internal", "admin"} {
			if service["type"] == "network" {
				added = append(added, map[string]any{"id": "other-" + i, "interface": i, "region": "OtherRegion", "region_id": "OtherRegion", "url": url})
			}
		}
		service["endpoints"] = append(added, endpoints...)
	}
	changed, err := json.Marshal(answer)
	if err != nil {
		return body
	}
	return changed
}

// placeless matches what a clouds.yaml says about the place.
var placeless = regexp.MustCompile(`(?m)^ *(region_name|project_name|project_domain_name):.*\n`)

// moveAway lets Keystone lead the controllers elsewhere for a while, when all is in order. One
// controller has to authenticate again, and the other one is started again. The users edit and
// delete Networks meanwhile. It returns the violations when Keystone leads home again.
func (w *world) moveAway(ctx context.Context, rand *rand.Rand, to place) (violations, error) {
	w.tally.log("Keystone leads to %s", to)
	restarted := w.controllers[rand.IntN(len(w.controllers))]
	w.lead(to)
	restarted.killAll()
	u := &user{rand: rand, world: w}
	for _, i := range rand.Perm(len(w.wanted))[:len(w.wanted)/4] {
		n := w.wanted[i]
		if n.spec == nil {
			continue
		}
		spec := *n.spec
		if n.pair != nil {
			spec = u.withOtherDeclaration(n.pair, spec)
		} else {
			spec.Gateway = randomGateway(rand, spec.CIDR)
			spec = consistent(spec)
		}
		if err := u.edit(ctx, n, spec); err != nil {
			return nil, err
		}
		if rand.IntN(4) == 0 {
			if err := u.delete(ctx, n); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range w.controllers {
		if err := c.await(ctx, func() bool { return c.logins() > 0 }); err != nil {
			return nil, fmt.Errorf("wait for %s to authenticate: %w", c.cluster, err)
		}
	}
	select { // what they do wrong there takes a moment
	case <-time.After(2 * time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.tally.add(movesTo + to.String())
	w.tally.log("Keystone leads home again")
	w.lead(home)
	// It may have begun there, and then it does not change its place by itself.
	restarted.killAll()
	return w.waitForOrder(ctx)
}

// lead lets Keystone lead to the place, and revokes all tokens.
func (w *world) lead(to place) {
	w.everyProxy(func(p *proxy) {
		p.leads.Store(int32(to))
		p.logins.Store(0)
		p.tokens.revokeAll()
	})
}

// project returns the ID of the controllers' project.
func (w *world) project() (string, error) {
	project, err := w.neutron.Client.GetAuthResult().(identity.CreateResult).ExtractProject()
	if err != nil {
		return "", err
	}
	return project.ID, nil
}

// checkElsewhere finds networks in a place where there must be none.
func (w *world) checkElsewhere(ctx context.Context, v *violations) error {
	if w.moves == 0 {
		return nil
	}
	var networks []stack.Network
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		networks, last = w.elsewhere.networks(ctx)
		return last == nil, nil
	})
	if err != nil {
		return errors.Join(err, last)
	}
	if len(networks) > 0 {
		v.add(inOtherPlace+"%s", describe(networks))
	}
	home, err := w.project()
	if err != nil {
		return err
	}
	for _, r := range w.neutron.Routers() {
		if r.ProjectID != home {
			v.add(inOtherPlace+"%+v", r)
		}
	}
	return nil
}
