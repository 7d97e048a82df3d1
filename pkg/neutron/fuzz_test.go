// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/apimachinery/pkg/types"
)

// A normal go test runs the fuzz tests with their seeds only. To search for new inputs, name one:
//
//	go test -fuzz=FuzzMark ./pkg/neutron

func FuzzMark(f *testing.F) {
	mark := owner.Mark()
	for _, description := range []string{
		mark, "the DMZ " + mark, mark + " " + mark, mark + " ", mark + "/x", "x" + mark, strings.ToUpper(mark),
		markPrefix, markPrefix + "/", markPrefix + "a/", markPrefix + "/b", markPrefix + "a/b/c", "\u00a0" + mark, " \n" + mark, "",
	} {
		f.Add(owner.Cluster, string(owner.UID), description)
	}
	f.Add("c", "u", "samplecrd.k8s.io/owner=c/u")
	f.Add("", "", "")
	f.Fuzz(func(t *testing.T, cluster, uid, description string) {
		read, marked := OwnerOf(description)
		if marked && (read.Cluster == "" || read.UID == "" || strings.ContainsAny(read.Cluster, " /") || strings.Contains(string(read.UID), " ")) {
			t.Errorf("%q is read as the mark of %+v", description, read)
		}
		if marked && description != read.Mark() && !strings.HasSuffix(description, " "+read.Mark()) {
			t.Errorf("%q does not end with the mark of %+v", description, read)
		}
		if unmarked := withoutMark(description); marked && description != unmarked+description[len(unmarked):] {
			t.Errorf("%q without its mark is %q", description, unmarked)
		}
		if cluster == "" || uid == "" || strings.ContainsAny(cluster, " /") || strings.Contains(uid, " ") {
			return // impossible: pkg/options validates the cluster, and UIDs have no blanks
		}
		want := Owner{cluster, types.UID(uid)}
		for _, before := range []string{"", description + " "} {
			if got, marked := OwnerOf(before + want.Mark()); !marked || got != want {
				t.Errorf("%q is read as %+v, %v", before+want.Mark(), got, marked)
			}
		}
		// No other description has this owner.
		if marked && read == want && description != want.Mark() && !strings.HasSuffix(description, " "+want.Mark()) {
			t.Errorf("%q is read as the mark of %+v", description, want)
		}
	})
}

// source derives values from the bytes of a fuzz test.
type source []byte

// below returns a number from 0 to n-1; 0 if no bytes are left.
func (s *source) below(n int) int {
	if len(*s) == 0 {
		return 0
	}
	first := int((*s)[0])
	*s = (*s)[1:]
	return first % n
}

// cidr returns one of a few prefixes, so that they often overlap.
func (s *source) cidr() netip.Prefix {
	if s.below(4) == 0 {
		address := netip.AddrFrom16([16]byte{"\xfd\xfd\xfd\xfe\xff\x00"[s.below(6)], 7: byte(s.below(4)), 15: byte(s.below(4))})
		return netip.PrefixFrom(address, s.below(129)*min(1, s.below(4))).Masked()
	}
	address := netip.AddrFrom4([4]byte{[]byte{0, 10, 10, 20, 20, 126, 127, 224, 240}[s.below(9)], 0, byte(s.below(4)), byte(s.below(8) * 32)})
	return netip.PrefixFrom(address, s.below(33)).Masked()
}

// addressIn returns one of the first addresses of the CIDR, or the zero Addr.
func (s *source) addressIn(cidr netip.Prefix) netip.Addr {
	address := cidr.Addr()
	for range s.below(4) {
		address = address.Next()
	}
	if s.below(3) == 0 || !cidr.Contains(address) {
		return netip.Addr{}
	}
	return address
}

func (s *source) description() string {
	other := Owner{Cluster: owner.Cluster, UID: "33333333-0000-0000-0000-000000000000"}
	elsewhere := Owner{Cluster: "other", UID: owner.UID}
	all := []string{owner.Mark(), "", "mine", "mine " + owner.Mark(), other.Mark(), elsewhere.Mark(), owner.Mark() + " ", owner.Mark() + " " + other.Mark()}
	return all[s.below(len(all))]
}

func (s *source) name() string { return []string{testName, "x", ""}[s.below(3)] }

// network returns a network with subnets that do not overlap, or none.
func (s *source) network() *Observed {
	if s.below(8) == 0 {
		return &Observed{}
	}
	n := Network{ID: "n", Name: s.name(), Description: s.description()}
	for i := range s.below(6) {
		subnet := Subnet{ID: fmt.Sprint("s", i), NetworkID: n.ID, Name: s.name(), Description: s.description(), CIDR: s.cidr()}
		subnet.Gateway = s.addressIn(subnet.CIDR)
		if !slices.ContainsFunc(n.Subnets, func(o Subnet) bool { return o.CIDR.Overlaps(subnet.CIDR) }) {
			n.Subnets = append(n.Subnets, subnet)
		}
	}
	return &Observed{Network: n}
}

func (s *source) desired() View {
	subnet := DesiredSubnet{Name: testName, Mark: owner.Mark(), CIDR: s.cidr(), NoGateway: s.below(4) == 0}
	if !subnet.NoGateway {
		subnet.Gateway = s.addressIn(subnet.CIDR)
	}
	want := declaredAs(owner, subnet)
	want.SubnetIDs = []string{[]string{"", "s0", "s1", "s2"}[s.below(4)]}
	return want
}

// From every observed state, the plan ends after a bounded number of steps, and does not change
// objects of others.
func FuzzThePlan(f *testing.F) {
	for _, seed := range []string{"", "\x01\x01\x01\x01\x01", "0123456789abcdefghijklmnopqrstuvwxyz", "\x01\x00\x00\x00\x00\x10\x01\x01\x01\x01\x00\x00\x05\x00\x00\x01\x00\x00\x00\x18",
		strings.Repeat("\x01\x07\x03", 30), strings.Repeat("\x03\x00\x01\x05\x02", 20)} {
		f.Add([]byte(seed))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		seed := make([]byte, 60)
		for i := range seed {
			seed[i] = byte(random.Uint32())
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := source(data)
		want, have := s.desired(), s.network()
		began, strangers := have, strangersSubnets(want, have)
		for range 5 + len(have.Subnets) {
			step := at(want, have).Next()
			if step == nil {
				checkGoal(t, want, have)
				if again := at(want, have).Next(); again != nil {
					t.Errorf("at the goal, the plan continues with %+v", again)
				}
				return
			}
			checkStep(t, want, have, step)
			if _, deletes := step.(DeleteSubnet); deletes && neutronRefuses(want.Subnets[0]) && at(want, have).findSubnet(&want.Subnets[0]) == nil {
				t.Errorf("%+v deletes a subnet for %+v, which Neutron refuses", step, want.Subnets[0])
			}
			next, taken := simulate(t, have, step)
			if !taken {
				// An unmanaged subnet may overlap for ever, and Neutron refuses a few subnets.
				goal := want.Subnets[0].CIDR
				if !neutronRefuses(want.Subnets[0]) && !slices.ContainsFunc(strangers, func(s Subnet) bool { return s.CIDR.Overlaps(goal) }) {
					t.Errorf("Neutron refuses %+v", step)
				}
				return
			}
			if now := strangersSubnets(want, next); !slices.Equal(strangers, now) {
				t.Errorf("%+v changes the unmanaged subnets to %+v", step, now)
			}
			have = next
		}
		t.Errorf("the plan does not end: want %+v, have %+v, after many steps %+v", want, began, have)
	})
}

func FuzzAllocationPools(f *testing.F) {
	for _, seed := range [][2]string{{"10.0.0.0/24", "10.0.0.1"}, {"10.0.0.0/24", "10.0.0.9"}, {"10.0.0.0/24", ""}, {"10.0.0.0/30", "10.0.0.2"},
		{"10.0.0.0/31", "10.0.0.1"}, {"10.0.0.0/32", "10.0.0.0"}, {"0.0.0.0/0", "255.255.255.255"}, {"fd00::/64", "fd00::"}, {"fd00::/128", "fd00::"}, {"::/0", "::1"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, cidrText, gatewayText string) {
		cidr, err := netip.ParsePrefix(cidrText)
		if err != nil {
			return
		}
		cidr = cidr.Masked()
		gateway, _ := netip.ParseAddr(gatewayText)
		if !cidr.Contains(gateway) {
			gateway = netip.Addr{}
		}
		var last netip.Addr
		pools, _ := allocationPools(cidr, gateway).(Pools)
		for _, pool := range poolsIn(t, pools) {
			if !cidr.Contains(pool.From()) || !cidr.Contains(pool.To()) || pool.To().Less(pool.From()) || gateway.IsValid() && pool.Contains(gateway) {
				t.Errorf("%s with gateway %s has the pool %s", cidr, gateway, pool)
			}
			if last.IsValid() && !last.Less(pool.From()) {
				t.Errorf("%s with gateway %s has pools that overlap", cidr, gateway)
			}
			last = pool.To()
		}
	})
}

// Errors do not contain text of the clouds.yaml, and a configuration contains only values from the
// clouds.yaml.
func FuzzParseConfig(f *testing.F) {
	const canary = "hunter2"
	for _, seed := range []string{
		twoClouds,
		"clouds: {one: {auth: {auth_url: 'http://h/v3', username: u, password: hunter2}}}",
		"clouds: {one: {auth: {auth_url: 'http://h/v3', password: *hunter2}}}",
		"clouds: {one: {cacert: /hunter2, auth: {auth_url: 'http://h'}}}\nclouds: {other: {}}",
		"clouds: {one: {profile: hunter2, auth: {auth_url: 'http://h'}}}",
		"x: &x {cacert: /hunter2}\nclouds: {one: {<<: *x, auth: {auth_url: 'http://h'}}}",
		"clouds: {one: {auth: hunter2}}", "clouds: {one: hunter2}", "clouds: [hunter2]", "hunter2", "? {hunter2: x}\n: y", "\x00", "---\n---\n", "",
	} {
		f.Add("one", []byte(seed))
	}
	f.Add("yes", []byte("clouds: {yes: {cacert: /hunter2, auth: {auth_url: 'http://h'}}}"))
	f.Add("", []byte("clouds: {'': {auth: {auth_url: 'http://h'}}}"))
	for _, variable := range []string{"OS_CLOUD", "OS_AUTH_URL", "OS_USERNAME", "OS_PASSWORD", "OS_PROJECT_NAME", "OS_REGION_NAME", "OS_INTERFACE", "OS_CLIENT_CONFIG_FILE"} {
		f.Setenv(variable, "of-the-process")
	}
	f.Fuzz(func(t *testing.T, cloud string, content []byte) {
		config, err := ParseConfig(cloud, content)
		if err != nil {
			if strings.Contains(err.Error(), canary) && !strings.Contains(cloud, canary) || strings.Contains(err.Error(), "Search locations") {
				t.Errorf("the error has text of the file, or other files were searched: %v", err)
			}
			return
		}
		if config.Auth.IdentityEndpoint == "" || config.TLS == nil || config.TLS.RootCAs != nil || config.TLS.Certificates != nil {
			t.Errorf("got %+v", config)
		}
		if shown := fmt.Sprintf("%+v%+v", config.Auth, config.Endpoint); strings.Contains(shown, "of-the-process") && !bytes.Contains(content, []byte("of-the-process")) {
			t.Errorf("a value is from the environment: %s", shown)
		}
	})
}

// sameAnswer is a Neutron that gives the same answer to every request.
type sameAnswer struct {
	t      *testing.T
	status int
	body   string
	asked  int
}

// RoundTrip fails the test if a request is not for Neutron or has an unexpected path.
func (s *sameAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.asked++
	collection, id, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/v2.0/"), "/")
	id, part, isPart := strings.Cut(id, "/")
	if !isPart {
		part = id
	}
	if r.URL.Host != "neutron.example" || !slices.Contains([]string{"networks", "subnets", "ports", "routers", "floatingips"}, collection) || strings.ContainsAny(part, "/%") || id == ".." || r.URL.Fragment != "" {
		s.t.Errorf("unexpected request for %s", r.URL)
	}
	return &http.Response{StatusCode: s.status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(s.body)), Request: r}, nil
}

func (s *sameAnswer) client() *Client {
	provider := &gophercloud.ProviderClient{HTTPClient: http.Client{Transport: s}}
	provider.UseTokenLock()
	c := NewClient(Config{}, ClientOptions{Timeout: time.Minute})
	c.session.Store(&session{service: &gophercloud.ServiceClient{ProviderClient: provider, Endpoint: "http://neutron.example/v2.0/"}})
	return c
}

// checkMessage fails the test if err is not an Error, or its text is not safe to show.
func checkMessage(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := err.Error()
	if ReasonOf(err) == "" || len(text) > maxMessage+100 || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("reason %q: %q", ReasonOf(err), text)
	}
}

// Every answer leads to an Error, or is one that Neutron could give.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		`{"networks": [{"id": "n", "name": "x", "description": "` + owner.Mark() + `", "mtu": 1450, "revision_number": 3}], "subnets": [{"id": "s", "network_id": "n", "cidr": "10.0.0.0/24", "gateway_ip": null}], "ports": []}`,
		`{"network": {"id": "n"}, "subnet": {"id": "s", "cidr": "fd00::/64", "gateway_ip": "fd00::1"}}`,
		`{"networks": [{"id": "../x"}]}`, `{"network": {"id": "n", "mtu": 1e300}}`, `{"subnet": {"id": "s", "cidr": "` + strings.Repeat("9", 2000) + `"}}`,
		`{"networks": [{"id": "n"}], "networks_links": [{"rel": "next", "href": "http://elsewhere.example"}]}`,
		`{"NeutronError": {"type": "NetworkInUse", "message": "a\u001b[2Jb\nc"}}`, `{"error": {"title": "x", "message": "y"}}`,
		`{"routers": [{"id": "r", "name": "x", "description": "` + owner.Mark() + `", "external_gateway_info": {"network_id": "e", "external_fixed_ips": [{"ip_address": "x"}, {}]}}], "networks": [],
			"router": {"id": "r", "external_gateway_info": null}, "port_id": "p", "floatingips": [{"id": "f", "fixed_ip_address": null, "router_id": "../x"}], "tags": ["a"],
			"ports": [{"id": "p", "network_id": "n", "device_id": "../x", "device_owner": "network:router_interface", "fixed_ips": [{"subnet_id": "s", "ip_address": "10.0.0.1"}, {}]}]}`,
		`{"networks": null}`, `{"network": {}, "subnet": {}}`, `[]`, `null`, `{`, ``, "<html>", strings.Repeat("[", 20_000),
	} {
		for _, status := range []int{200, 201, 204, 400, 409, 500} {
			f.Add(status, body)
		}
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 || status == http.StatusUnauthorized {
			return // net/http returns no others; a 401 leads to Keystone
		}
		s := &sameAnswer{t: t, status: status, body: body}
		c := s.client()
		ctx := t.Context()
		check := func(err error, networks ...*Network) {
			t.Helper()
			checkMessage(t, err)
			for _, n := range networks {
				if err == nil && !validID(n.ID) {
					t.Errorf("a network without an ID: %+v", n)
				}
			}
		}
		listed, err := c.ListNetworks(ctx)
		check(err, listed...)
		found, err := c.FindNetworks(ctx, owner.Mark())
		check(err, found...)
		// RoundTrip checks the URLs.
		for _, n := range slices.Concat(listed, found)[:min(5, len(listed)+len(found))] {
			check(c.DeleteNetwork(ctx, n.ID, n.Revision))
		}
		one, err := c.GetNetwork(ctx, "n")
		check(err, one)
		made, err := c.CreateNetwork(ctx, creating(testName).fields())
		check(err, &made)
		if err == nil {
			changed, err := c.UpdateNetwork(ctx, &made, update(renaming(testName).Changes))
			check(err, &changed)
		}
		subnet, err := c.CreateSubnet(ctx, "n", creates("10.0.0.0/24", "").fields())
		check(err)
		if err == nil {
			if !validID(subnet.ID) {
				t.Errorf("a subnet without an ID: %+v", subnet)
			}
			_, err = c.UpdateSubnet(ctx, &subnet, update(renamingSubnet("", "x").Changes))
			check(err)
			check(c.DeleteSubnet(ctx, subnet.ID, subnet.Revision))
		}
		ports, err := c.PortsOnNetworks(ctx, "n")
		check(err)
		check(blockersOfNetwork("n").inUse(inUseBy(ports)))
		routers, err := c.readRouting(ctx, owner.Mark(), found)
		check(err)
		observed := newObserved(owner.UID, found, routers, true)
		at(wants("10.0.0.0/24", "", ownOn("e"), recorded("r")), observed).Next()
		_ = NextRemoval(identity, observed, false)
		created, err := c.CreateRouter(ctx, CreateRouter{DesiredRouter{ExternalNetwork: "e"}}.fields())
		check(err)
		if err == nil {
			if !validID(created.ID) {
				t.Errorf("a router without an ID: %+v", created)
			}
			_, err = c.UpdateRouter(ctx, created.ID, nil)
			check(err)
			_, err = c.getRouterDetails(ctx, created.ID)
			check(err)
			port, err := c.AttachSubnet(ctx, created.ID, "s")
			check(err)
			if err == nil && !validID(port) {
				t.Errorf("a port without an ID: %q", port)
			}
			check(c.DetachSubnet(ctx, created.ID, "s"))
			check(c.DeleteRouter(ctx, created.ID))
		}
		ips, err := c.FloatingIPs(ctx, "r")
		check(err)
		for _, ip := range ips {
			if text := Printable(ip.String()); len(text) > maxMessage {
				t.Errorf("got %q", text)
			}
		}
		_, err = c.SetTags(ctx, "n", NewTags("a"))
		check(err)
		if s.asked > 5*maxPages {
			t.Errorf("%d requests", s.asked)
		}
	})
}

// FuzzReplies reads the answers to requests that failed.
func FuzzReplies(f *testing.F) {
	f.Add(400, `{"NeutronError": {"type": "InvalidInput", "message": "m"}}`, "3")
	f.Add(503, "The server is currently unavailable.", "Wed, 21 Oct 2065 07:28:00 GMT")
	f.Add(409, `{"NeutronError": {"type": "OverQuota"}}`, "-1")
	f.Add(404, `{"NeutronError": "x"}`, "99999999999999999999")
	f.Add(429, `{"error": []}`, "9223372036854775807")
	f.Fuzz(func(t *testing.T, status int, body, after string) {
		err := wrap("try", gophercloud.ErrUnexpectedResponseCode{URL: "http://neutron.example", Actual: status, Body: []byte(body),
			ResponseHeader: http.Header{"Retry-After": {after}}})
		checkMessage(t, err)
		if wait := RetryAfterOf(err); wait < 0 || wait > maxRetryAfter {
			t.Errorf("RetryAfter is %s", wait)
		}
		var object map[string]any
		if ReasonOf(err) == NotFound && (json.Unmarshal([]byte(body), &object) != nil || len(object) == 0) {
			t.Errorf("%q is taken for a NotFound of Neutron", body)
		}
	})
}
