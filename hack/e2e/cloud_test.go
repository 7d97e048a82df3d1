// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/users"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/quotas"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// realCloud is the real Neutron and Keystone that the parts of TestRealNeutron share.
type realCloud struct {
	*realneutron.Neutron
	once sync.Once
	// started is closed when they run, or when err is set.
	started chan struct{}
	err     error
}

func (c *realCloud) dir() string { return filepath.Join(dir, "neutron") }

// policy is the file of the rules that differ from Neutron's default policy.
func (c *realCloud) policy() string { return filepath.Join(c.dir(), "policy.yaml") }

// start starts them in the background, once.
func (c *realCloud) start() {
	c.once.Do(func() {
		c.started = make(chan struct{})
		go func() {
			defer close(c.started)
			// After a run that was killed, the passwords may have changed.
			if c.err = realneutron.Purge(c.dir()); c.err == nil {
				c.err = errors.Join(os.MkdirAll(c.dir(), 0o700), c.setPolicy("{}"))
			}
			if c.err == nil {
				c.err = c.up(context.Background())
			}
		}()
	})
}

// isUnavailable starts the servers, and reports whether tests may do without them. The first time, this fetches packages for minutes.
func (c *realCloud) isUnavailable() bool {
	c.start()
	<-c.started
	return errors.Is(c.err, realneutron.ErrUnavailable) && os.Getenv("CI") != "true"
}

// up starts the servers that do not run. It turns off Neutron's cache of tokens, which
// would accept revoked tokens for a while.
func (c *realCloud) up(ctx context.Context) (err error) {
	c.Neutron, err = realneutron.Up(ctx, c.dir(), "[oslo_policy]", "policy_file = "+c.policy(), "[keystone_authtoken]", "token_cache_time = -1")
	return err
}

// setPolicy writes rules that differ from the default policy. Neutron reads them at once.
func (c *realCloud) setPolicy(content string) error {
	return os.WriteFile(c.policy(), []byte(content+"\n"), 0o600)
}

func (c *realCloud) stop() error {
	if c.started == nil {
		return nil
	}
	<-c.started
	return realneutron.Purge(c.dir())
}

// real is a world with the real Neutron and Keystone.
type real struct {
	*world
	cloud *realCloud
	// admin is a client with all rights.
	admin *gophercloud.ServiceClient
	// userID and projectID are the controller's own.
	userID, projectID string
}

// TestRealNeutron shows what users see when a real cloud has a problem, and that Networks
// become ready by themselves when the problem is solved.
func TestRealNeutron(t *testing.T) {
	t.Parallel()
	type parts map[string]func(*real)
	t.Run("nothing disturbs the others", func(t *testing.T) {
		for name, run := range (parts{
			"a Network from its creation to its end": (*real).fromCreationToEnd,
			"the quota is used up":                   (*real).quotaIsUsedUp,
			"a subnet is made twice":                 (*real).subnetIsMadeTwice,
			"a network is shared":                    (*real).networkIsShared,
		}) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				run(newReal(t))
			})
		}
		t.Run("Networks move to another cluster", func(t *testing.T) {
			t.Parallel()
			if realNeutron.isUnavailable() {
				t.Run("of the embedded Neutron", func(t *testing.T) { networksMove(newWorldWith(t, public)) })
			}
			networksMove(newReal(t).world)
		})
	})
	// These change the cloud that all of them use. The last one changes the password.
	for _, part := range []struct {
		name string
		run  func(*real)
	}{
		{"a right is lacking", (*real).rightIsLacking},
		{"the token is revoked", (*real).tokenIsRevoked},
		{"Keystone is down", (*real).keystoneIsDown},
		{"Neutron is down", (*real).neutronIsDown},
		{"the password is changed, and then corrected in clouds.yaml", (*real).passwordIsChanged},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(newReal(t)) })
	}
}

// newReal returns a world with the real Neutron.
func newReal(t *testing.T) *real {
	t.Helper()
	r := &real{world: newWorldWithoutNeutron(t), cloud: &realNeutron}
	if r.cloud.isUnavailable() {
		t.Skip(r.cloud.err)
	}
	r.must(r.cloud.err)
	// A busy computer can keep Neutron from answering for half a minute. The controller is right to report that, which is another story.
	r.flags = []string{"-neutron-timeout=2m"}
	r.neutron = &stack.Neutron{CloudsYAML: filepath.Join(r.world.dir, "clouds.yaml")}
	r.configure(r.cloudsYAML())
	r.admin = r.connectTo(realneutron.AdminCloud, r.cloudsYAML())
	r.identify()
	return r
}

// identify sets the IDs of the world's client.
func (r *real) identify() {
	r.Helper()
	result := r.neutron.Client.GetAuthResult().(tokens.CreateResult)
	user, err := result.ExtractUser()
	r.must(err)
	project, err := result.ExtractProject()
	r.must(err)
	r.userID, r.projectID = user.ID, project.ID
}

// kill kills Neutron or Keystone with all its workers, as a crash would.
func (r *real) kill(server string) {
	r.Helper()
	text, err := os.ReadFile(filepath.Join(r.cloud.dir(), "run", server+".pid"))
	r.must(err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	r.must(err)
	r.must(syscall.Kill(-pid, syscall.SIGKILL))
}

// cloudsYAML returns the clouds.yaml that up.sh has written.
func (r *real) cloudsYAML() []byte {
	r.Helper()
	content, err := os.ReadFile(r.cloud.CloudsYAML)
	r.must(err)
	return content
}

// configure writes the clouds.yaml of the controller, and connects the test's client, which
// authenticates again when necessary: Keystone revokes the tokens of the whole second in
// which a password is changed.
func (r *real) configure(cloudsYAML []byte) {
	r.Helper()
	r.must(os.WriteFile(r.neutron.CloudsYAML, cloudsYAML, 0o600))
	var err error
	r.neutron.Client, err = stack.Connect(r.Context(), realneutron.Cloud, cloudsYAML)
	r.must(err)
}

func (r *real) setQuota(networks int) {
	r.Helper()
	r.must(quotas.Update(r.Context(), r.admin, r.projectID, quotas.UpdateOpts{Network: &networks}).Err)
}

func (r *real) keystone() *gophercloud.ServiceClient {
	r.Helper()
	client, err := openstack.NewIdentityV3(r.admin.ProviderClient, gophercloud.EndpointOpts{})
	r.must(err)
	return client
}

// says waits until the Network is not ready for that reason, with words in its message.
func (r *real) says(name, reason, words string) {
	r.Helper()
	network := r.waitNotReady(name, reason)
	message := condition(network, samplecrdv1.ConditionReady).Message
	r.Logf("%s: %s", reason, message)
	r.contains(message, words)
}

// logsMatch fails the test unless Neutron's log has both IDs that the controller's log has for
// each request: the sync's and the request's. For a change, Debian 12's Neutron may lack the
// sync's ID: oslo.messaging 14.0.3 gives notifications a copy of the request's context, which
// neutron-lib 3.1.0 makes without that ID, and the copy replaces the original in the log from
// then on.
func (r *real) logsMatch(c *stack.Controller) {
	r.Helper()
	line := regexp.MustCompile(`"(Changed Neutron|Asked OpenStack)".* reconcileID="([^"]+)".* operation="[a-z]+ (?:network|subnet|port)s?".* requestID="([^"]+)"`)
	requests := line.FindAllStringSubmatch(c.Log.String(), -1)
	told := map[string]int{}
	for _, request := range requests {
		told[request[1]]++
	}
	if n := strings.Count(c.Log.String(), `"Changed Neutron"`); n < 5 || told["Changed Neutron"] != n || told["Asked OpenStack"] == 0 {
		r.Fatalf("the controller's log has %d changes; with both IDs: %v", n, told)
	}
	r.eventually(func() error { // Neutron logs a request after it has answered
		log, err := os.ReadFile(filepath.Join(r.cloud.dir(), "log", "neutron.log"))
		var missing []string
		for _, request := range requests {
			found := strings.Contains(string(log), "[req-"+request[2]+" "+request[3]+" ")
			if !found && request[1] == "Changed Neutron" {
				found = strings.Contains(string(log), "[None "+request[3]+" ")
			}
			if !found {
				missing = append(missing, request[0])
			}
		}
		if err == nil && missing != nil {
			err = fmt.Errorf("Neutron's log lacks these:\n%s", strings.Join(missing, "\n"))
		}
		return err
	})
}

func (r *real) fromCreationToEnd() {
	c := r.start("-resync=2s", retryQuickly)
	r.create("net", "192.168.0.0/16", "192.168.0.1")
	first := r.matches("net", "192.168.0.0/16", "192.168.0.1")
	r.create("net", "192.168.0.0/16", "192.168.1.1")
	r.matches("net", "192.168.0.0/16", "192.168.1.1")
	r.create("net", "192.168.0.0/24", "None")
	r.matches("net", "192.168.0.0/24", "")
	r.create("net", "10.1.0.0/16", "")
	last := r.matches("net", "10.1.0.0/16", "10.1.0.1")
	r.logsMatch(c)
	r.equal(last.ID, first.ID)

	gateway := ""
	r.must(subnets.Update(r.Context(), r.neutron.Client, last.Subnets[0].ID, subnets.UpdateOpts{GatewayIP: &gateway}).Err)
	r.waitForEvent("net", samplecrdv1.EventDriftRepaired, "gateway set to 10.1.0.1")
	r.matches("net", "10.1.0.0/16", "10.1.0.1")

	port := r.port(last.ID, "vm")
	r.kubectl("delete", "network", "net", "--wait=false")
	r.says("net", samplecrdv1.ReasonInUse, "vm")
	r.removePort(port)
	r.waitGone("net")
	r.nothing("net")
}

// subnetIsMadeTwice has two subnets of one CIDR, as two controllers leave them: one was killed while it created the subnet. The router
// takes only one of them, and it is not the one that the controller would take otherwise, the first by ID.
func (r *real) subnetIsMadeTwice() {
	c := r.start()
	n := r.createSpec("twice", "10.1.0.0/24", "", viaPublic)
	r.must(c.Stop())
	attached := r.makeTwice(n, "10.2.0.0/24")
	_, err := routers.AddInterface(r.Context(), r.neutron.Client, n.Status.Router.ID, routers.AddInterfaceOpts{SubnetID: attached}).Extract()
	r.must(err)
	r.applySpec("twice", "10.1.0.0/24", "", viaPublic, "  additionalSubnets: [{name: more, cidr: 10.2.0.0/24}]\n")
	r.start(retryQuickly)
	n = r.waitReady("twice")
	r.equal(strings.Join(r.idsOf("twice", "10.2.0.0/24"), " "), attached)
	r.equal(n.Status.Subnets[1].ID, attached)
	r.kubectl("delete", "network", "twice")
	r.nothing("twice")
}

// makeTwice creates two subnets of that CIDR with the mark of the Network, which has a subnet already, and returns the ID of the last one.
// Neutron refuses one of them if it does not handle both requests at the same moment.
func (r *real) makeTwice(n *samplecrdv1.Network, cidr string) (last string) {
	create := func() {
		err := subnets.Create(r.Context(), r.neutron.Client, subnets.CreateOpts{
			NetworkID: n.Status.NetworkID, Description: r.mark(n), CIDR: cidr, IPVersion: gophercloud.IPv4,
		}).Err
		if err != nil && !gophercloud.ResponseCodeIs(err, http.StatusBadRequest) {
			r.Error(err)
		}
	}
	for range 50 {
		var both sync.WaitGroup
		both.Go(create)
		both.Go(create)
		both.Wait()
		ids := r.idsOf(n.Name, cidr)
		if len(ids) == 2 {
			return ids[1]
		}
		for _, id := range ids {
			r.must(subnets.Delete(r.Context(), r.neutron.Client, id).ExtractErr())
		}
	}
	r.Fatal("Neutron refuses one of two subnets each time")
	return ""
}

// idsOf returns the IDs of the Network's subnets of that CIDR, in order.
func (r *real) idsOf(name, cidr string) (ids []string) {
	r.Helper()
	for _, s := range r.networks(name)[0].Subnets {
		if s.CIDR == cidr {
			ids = append(ids, s.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// networkIsShared shows both sides: the project that has the network, and the other one, in which a Network observes it.
func (r *real) networkIsShared() {
	other := r.connectTo(realneutron.OtherCloud, r.cloudsYAML())
	project, err := other.GetAuthResult().(tokens.CreateResult).ExtractProject()
	r.must(err)
	r.start("-resync=2s", retryQuickly)
	network := r.createSpec("shared", "10.3.0.0/24", "", "  sharedWith: [{projectID: "+project.ID+"}]\n")
	r.equal(strings.Join(network.Status.SharedWith, " "), project.ID)

	r.applySecret("theirs", map[string]string{"clouds.yaml": strings.ReplaceAll(string(r.cloudsYAML()), realneutron.OtherCloud+":", "theirs:")})
	_, err = r.tryKubectl(fmt.Sprintf(`apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata: {name: theirs}
spec:
  import: {networkID: %s}
  managementPolicy: Observe
  cloudCredentialsRef: {secretName: theirs, cloudName: theirs}
`, network.Status.NetworkID), "apply", "-f", "-")
	r.must(err)
	seen := r.waitFor("theirs", metav1.ConditionTrue, samplecrdv1.ReasonObserved)
	r.equal(seen.Status.CIDR, "10.3.0.0/24")
	r.equal(seen.Status.ProjectID, project.ID)

	port, err := ports.Create(r.Context(), other, ports.CreateOpts{NetworkID: network.Status.NetworkID, Name: "their-vm"}).Extract()
	r.must(err)
	r.applySpec("shared", "10.3.0.0/24", "")
	r.says("shared", samplecrdv1.ReasonInUse, "their-vm")
	r.equal(r.waitFor("theirs", metav1.ConditionTrue, samplecrdv1.ReasonObserved).Status.CIDR, "10.3.0.0/24")
	r.must(ports.Delete(r.Context(), other, port.ID).ExtractErr())
	r.equal(strings.Join(r.waitReady("shared").Status.SharedWith, " "), "")
	r.waitNotReady("theirs", samplecrdv1.ReasonNetworkNotFound)
	r.kubectl("delete", "network", "theirs", "shared")
	r.nothing("shared")
}

// quotaIsUsedUp is in another project, whose quota the others do not have.
func (r *real) quotaIsUsedUp() {
	r.neutron.Client = r.connectTo(realneutron.OtherCloud, r.cloudsYAML())
	r.identify()
	r.setQuota(0)
	r.launchIn([]string{"OS_CLIENT_CONFIG_FILE=" + r.neutron.CloudsYAML, "OS_CLOUD=" + realneutron.OtherCloud})
	r.apply("quota", "10.1.0.0/16", "")
	r.says("quota", samplecrdv1.ReasonQuotaExceeded, "Quota exceeded for resources: ['network']")
	r.setQuota(-1)
	r.waitReady("quota")
	r.matches("quota", "10.1.0.0/16", "10.1.0.1")
}

func (r *real) rightIsLacking() {
	r.must(r.cloud.setPolicy(`"create_network": "role:admin"`))
	r.start("-resync=2s")
	r.apply("right", "10.1.0.0/16", "")
	r.says("right", samplecrdv1.ReasonForbidden, "disallowed by policy")
	r.must(r.cloud.setPolicy("{}"))
	r.waitReady("right")
	r.matches("right", "10.1.0.0/16", "10.1.0.1")
}

// tokenIsRevoked reads the controller's token in a proxy before Keystone.
func (r *real) tokenIsRevoked() {
	keystone, err := url.Parse(r.neutron.Client.IdentityEndpoint)
	r.must(err)
	issued := make(chan string, 10)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(&url.URL{Scheme: keystone.Scheme, Host: keystone.Host}) },
		ModifyResponse: func(answer *http.Response) error {
			if token := answer.Header.Get("X-Subject-Token"); token != "" {
				issued <- token
			}
			return nil
		},
	})
	defer proxy.Close()
	direct := keystone.Scheme + "://" + keystone.Host
	file := r.file("proxied.yaml", strings.ReplaceAll(string(r.cloudsYAML()), direct, proxy.URL))
	r.launchIn([]string{"OS_CLIENT_CONFIG_FILE=" + file, "OS_CLOUD=" + realneutron.Cloud})
	r.create("token", "10.1.0.0/16", "10.1.0.1")

	token := <-issued
	_, err = tokens.Revoke(r.Context(), r.keystone(), token).Extract()
	r.must(err)
	r.create("token", "10.1.0.0/16", "10.1.0.2")
	r.matches("token", "10.1.0.0/16", "10.1.0.2")
	if again := <-issued; again == token {
		r.Error("the token is the same")
	}
	for _, e := range r.events("token", "") {
		if e.Type == "Warning" {
			r.Errorf("warned: %s", e.Message)
		}
	}
}

func (r *real) passwordIsChanged() {
	r.start("-resync=2s", retryQuickly)
	r.create("password", "10.1.0.0/16", "10.1.0.1")
	const other = "quite-another"
	r.must(users.Update(r.Context(), r.keystone(), r.userID, users.UpdateOpts{Password: other}).Err)
	r.apply("password", "10.1.0.0/16", "10.1.0.2")
	r.says("password", samplecrdv1.ReasonAuthenticationFailed, "The request you have made requires authentication.")
	network := r.get("password")
	if network.Status.NetworkID == "" || network.Status.SubnetID == "" {
		r.Errorf("the status lost what was known: %+v", network.Status)
	}
	password := regexp.MustCompile("(username: samplecrd\n *password: ).*")
	r.configure(password.ReplaceAll(r.cloudsYAML(), []byte("${1}"+other)))
	r.waitReady("password")
	r.matches("password", "10.1.0.0/16", "10.1.0.2")
}

func (r *real) keystoneIsDown() {
	r.kill("keystone")
	r.start(retryQuickly)
	r.apply("keystone", "10.1.0.0/16", "")
	r.says("keystone", samplecrdv1.ReasonNeutronUnavailable, "authenticate: ") // the first connection may be reset and not refused
	r.must(r.cloud.up(r.Context()))
	r.configure(r.cloudsYAML()) // another server may have got the port meanwhile
	r.waitReady("keystone")
	r.matches("keystone", "10.1.0.0/16", "10.1.0.1")
}

func (r *real) neutronIsDown() {
	r.start(retryQuickly)
	before := r.create("neutron", "10.1.0.0/16", "10.1.0.1").Status
	r.kill("neutron")
	r.apply("neutron", "10.1.0.0/16", "10.1.0.2")
	// The connection is refused, or it was open and is cut.
	r.says("neutron", samplecrdv1.ReasonNeutronUnavailable, "update subnet: ")
	if now := r.get("neutron").Status; now.NetworkID != before.NetworkID || now.SubnetID != before.SubnetID {
		r.Errorf("the status lost what was known: %+v", now)
	}
	r.must(r.cloud.up(r.Context()))
	r.configure(r.cloudsYAML()) // another server may have got the port meanwhile
	r.waitReady("neutron")
	r.matches("neutron", "10.1.0.0/16", "10.1.0.2")
}
