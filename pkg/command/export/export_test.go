// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// cloud is an embedded Neutron that OS_CLOUD names.
type cloud struct {
	t           *testing.T
	mine, admin *gophercloud.ServiceClient
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	server, err := embedded.Start("127.0.0.1:0", embedded.Options{})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	yaml := server.CloudsYAML("mine")
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	must(t, os.WriteFile(file, yaml, 0o600))
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	t.Setenv("OS_CLOUD", "mine")
	return &cloud{t: t, mine: service(t, "mine", yaml), admin: service(t, "mine-admin", yaml)}
}

func service(t *testing.T, name string, yaml []byte) *gophercloud.ServiceClient {
	t.Helper()
	config, err := neutron.ParseConfig(name, yaml)
	must(t, err)
	provider, err := openstack.AuthenticatedClient(t.Context(), config.Auth)
	must(t, err)
	c, err := openstack.NewNetworkV2(provider, config.Endpoint)
	must(t, err)
	return c
}

// create creates an object, such as a network, and returns its ID.
func (c *cloud) create(as *gophercloud.ServiceClient, kind, body string) string {
	c.t.Helper()
	answer := map[string]map[string]any{}
	_, err := as.Post(c.t.Context(), as.ServiceURL(kind+"s"), json.RawMessage(`{"`+kind+`":`+body+`}`), &answer, nil)
	must(c.t, err)
	id, _ := answer[kind]["id"].(string)
	return id
}

func (c *cloud) put(path, body string) {
	c.t.Helper()
	var answer any
	_, err := c.mine.Put(c.t.Context(), c.mine.ServiceURL(strings.Split(path, "/")...), json.RawMessage(body), &answer, &gophercloud.RequestOpts{OkCodes: []int{200}})
	must(c.t, err)
}

func export(t *testing.T, arguments ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	code = Run(t.Context(), arguments, &out, &errOut)
	return out.String(), errOut.String(), code
}

func TestExport(t *testing.T) {
	c := newCloud(t)
	web := c.create(c.mine, "network", `{"name":"web","description":"by ops"}`)
	v4 := c.create(c.mine, "subnet", `{"network_id":"`+web+`","ip_version":4,"cidr":"10.0.0.0/24","name":"web-v4","service_types":["compute:nova"]}`)
	c.put("networks/"+web+"/tags", `{"tags":["production"]}`)
	router := c.create(c.mine, "router", `{"name":"edge"}`)
	c.put("routers/"+router+"/add_router_interface", `{"subnet_id":"`+v4+`"}`)
	down := c.create(c.mine, "network", `{"name":"Down Town","admin_state_up":false,"port_security_enabled":false,"availability_zone_hints":["nova"]}`)
	c.create(c.mine, "network", `{"name":"theirs","description":"samplecrd.k8s.io/owner=cluster/uid"}`)
	tagged := c.create(c.mine, "network", `{"name":"imported"}`)
	c.put("networks/"+tagged+"/tags", `{"tags":["samplecrd-owner-uid"]}`)
	shared := c.create(c.admin, "network", `{"name":"shared","shared":true}`)
	c.create(c.admin, "network", `{"name":"public","router:external":true}`)

	webManifest := `# In Neutron: network web (` + web + `)
# The manifest does not declare the following. It stays as it is in Neutron:
#   subnet 10.0.0.0/24: name: "web-v4"
#   subnet 10.0.0.0/24: service_types: ["compute:nova"]
#   description: "by ops"
#   router: edge (` + router + `) is attached to 10.0.0.0/24; to declare it, add to the spec: router: {existing: {id: "` + router + `"}}
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata:
  name: web
  namespace: default
spec:
  import:
    networkID: ` + web + `
  managementPolicy: Observe
  deletionPolicy: Retain
  cidr: 10.0.0.0/24
  gateway: 10.0.0.1
  mtu: 1450
  tags:
  - production
`
	downManifest := `# In Neutron: network Down Town (` + down + `)
# The manifest does not declare the following. It stays as it is in Neutron:
#   admin_state_up: false; the network forwards no packets
apiVersion: samplecrd.k8s.io/v1
kind: Network
metadata:
  name: down-town
  namespace: default
spec:
  import:
    networkID: ` + down + `
  managementPolicy: Observe
  deletionPolicy: Retain
  mtu: 1450
  portSecurityEnabled: false
  availabilityZoneHints:
  - nova
`
	leftOut := "Left out network imported (" + tagged + "): the Network with the UID uid has imported it\n"
	for _, tt := range []struct {
		name, arguments string
		stdout          string
		stderr          string // part of it
		code            int
	}{
		{"all", "", downManifest + "---\n" + webManifest, leftOut, 0},
		{"by name", "web", webManifest, "", 0},
		{"by ID, with a flag after it", down + " -namespace=default", downManifest, "", 0},
		{"by tag", "-tag production", webManifest, "", 0},
		{"for a ClusterCloud", "-cluster-cloud production web", strings.Replace(webManifest, "  cidr:", "  cloudCredentialsRef:\n    clusterCloudName: production\n  cidr:", 1), "", 0},
		{"for a Secret", "-secret team -secret-cloud ours web", strings.Replace(webManifest, "  cidr:", "  cloudCredentialsRef:\n    secretName: team\n    cloudName: ours\n  cidr:", 1), "", 0},
		{"by tag and name", "-tag production " + down, "", "There is no network to export", 0},
		{"a network with a mark", "theirs", "", "it carries the mark of the Network with the UID uid in the cluster cluster", 0},
		{"a name that nothing has", "wbe", "", `no network of the project has the name or the ID "wbe": did you mean web?`, 1},
		{"another project's by name", "shared", "", `no network of the project has the name or the ID "shared"; a network of another project can only be named by its ID`, 1},
		{"a flag that does not exist", "-tags=a", "", "did you mean -tag?", 1},
		{"a namespace that cannot exist", "-n A", "", `-namespace="A"`, 1},
		{"a Secret that cannot exist", "-secret A_B", "", `-secret="A_B"`, 1},
		{"a ClusterCloud that cannot exist", "-cluster-cloud A_B", "", `-cluster-cloud="A_B"`, 1},
		{"a ClusterCloud and a Secret", "-cluster-cloud a -secret b -secret-cloud c", "", "-cluster-cloud cannot be combined with -secret", 1},
		{"an entry without a Secret", "-secret-cloud a", "", "-secret-cloud needs -secret", 1},
		{"a cloud that does not exist", "-cloud yours", "", `"yours"`, 1},
		{"a cluster that does not answer", "-master http://127.0.0.1:1", "", "list Networks", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, code := export(t, strings.Fields(tt.arguments)...)
			if stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) || tt.stderr == "" && stderr != "" || code != tt.code {
				t.Errorf("exit code %d\n%s\nwant\n%s\nstandard error: %s", code, stdout, tt.stdout, stderr)
			}
		})
	}
	if stdout, _, code := export(t, shared); code != 0 || !strings.Contains(stdout, "# It belongs to another project, ") || !strings.Contains(stdout, "  shared: true\n") {
		t.Errorf("another project's by ID: exit code %d\n%s", code, stdout)
	}
	t.Setenv("OS_CLOUD", "mine-admin")
	stdout, stderr, code := export(t)
	if code != 0 || !strings.Contains(stdout, "\n# Left out network public (") || !strings.Contains(stderr, "Left out network public (") ||
		!strings.Contains(stdout, `#   provider: networkType "vxlan"`) || strings.Contains(stdout, "name: web") {
		t.Errorf("as admin: exit code %d\n%s%s", code, stdout, stderr)
	}
	if stdout, _, code := export(t, "public"); code != 0 || !strings.Contains(stdout, "# It is an external network: ") {
		t.Errorf("an external network by name: exit code %d\n%s", code, stdout)
	}
}

func TestExportToFiles(t *testing.T) {
	c := newCloud(t)
	c.create(c.mine, "network", `{"name":"web"}`)
	c.create(c.mine, "network", `{"name":"db"}`)
	dir := filepath.Join(t.TempDir(), "manifests")
	_, stderr, code := export(t, "-n", "team", "-secret", "openstack", "-o", dir+"/")
	if want := "Wrote the manifests of 2 networks to " + dir + "/\n"; code != 0 || stderr != want {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	for _, name := range []string{"web", "db"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".yaml"))
		if err != nil || !strings.Contains(string(text), "\n  name: "+name+"\n  namespace: team\n") || !strings.Contains(string(text), "\n    cloudName: mine\n") {
			t.Errorf("%v\n%s", err, text)
		}
	}
	file := filepath.Join(dir, "all.yaml")
	if _, _, code := export(t, "-o", file); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Count(string(text), "\n---\n") != 1 {
		t.Errorf("%v\n%s", err, text)
	}
	if _, stderr, code := export(t, "-o", filepath.Join(file, "x")); code != 1 || !strings.Contains(stderr, "not a directory") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestNetworksThatTheClusterImportsAreLeftOut(t *testing.T) {
	c := newCloud(t)
	web := c.create(c.mine, "network", `{"name":"web"}`)
	kubernetes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"apiVersion":"samplecrd.k8s.io/v1","kind":"NetworkList","items":[{"metadata":{"name":"web","namespace":"team"},"spec":{"import":{"networkID":"` + web + `"}}}]}`))
	}))
	defer kubernetes.Close()
	stdout, stderr, code := export(t, "-master", kubernetes.URL)
	if code != 0 || stdout != "" || !strings.Contains(stderr, "Left out network web ("+web+"): the Network team/web imports it\n") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

func TestNoCloudIsAnError(t *testing.T) {
	for _, variable := range []string{"OS_CLOUD", "OS_AUTH_URL"} {
		t.Setenv(variable, "")
	}
	if _, stderr, code := export(t); code != 1 || !strings.Contains(stderr, "no cloud is configured") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
}

func TestAnInterruptedExportWritesNothing(t *testing.T) {
	newCloud(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	if code := Run(ctx, nil, &out, &errOut); code != 1 || out.Len() > 0 || !strings.Contains(errOut.String(), "context canceled") {
		t.Errorf("exit code %d, %s%s", code, out.String(), errOut.String())
	}
}

func TestProgressIsToldOnlyIfItTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w bytes.Buffer
		p := startProgress(&w)
		p.count(3)
		time.Sleep(interval - time.Millisecond)
		p.count(1000)
		time.Sleep(interval)
		p.stop()
		if want := "Reading Neutron: 1000 networks so far\n"; w.String() != want {
			t.Errorf("got %q", w.String())
		}
	})
}
