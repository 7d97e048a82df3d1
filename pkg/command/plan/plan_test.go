// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	commandnetworks "github.com/samplecrd/samplecrd-controller/pkg/command/networks"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/fallback"
	"github.com/samplecrd/samplecrd-controller/pkg/options"
)

const (
	cluster   = "11111111-0000-0000-0000-000000000000"
	cloudName = "embedded"
)

// fixture is a cluster with fake clients, and an embedded Neutron.
type fixture struct {
	*testing.T
	server *embedded.Server
	yaml   []byte // the clouds.yaml
	kube   *kubefake.Clientset
	client *fake.Clientset
	cloud  *neutron.Cloud
	others *gophercloud.ServiceClient // another client of the same project
	// refusal is what the API server says of each manifest.
	refusal error
	dir     string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server, err := embedded.Start("127.0.0.1:0", fallback.Options())
	f := &fixture{T: t, server: server, kube: kubefake.NewClientset(), client: fake.NewClientset(), dir: t.TempDir()}
	f.must(err)
	t.Cleanup(func() { _ = server.Close() })
	f.yaml = server.CloudsYAML(cloudName)
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	f.must(os.WriteFile(file, f.yaml, 0o600))
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	config, err := neutron.ParseConfig(cloudName, f.yaml)
	f.must(err)
	client := neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Second})
	t.Cleanup(client.Close)
	f.cloud = neutron.NewCloud(cloudName, client, cluster, time.Minute)
	f.must(f.cloud.Observer().Relist(t.Context()))
	provider, err := openstack.AuthenticatedClient(t.Context(), config.Auth)
	f.must(err)
	f.others, err = openstack.NewNetworkV2(provider, config.Endpoint)
	f.must(err)
	f.client.PrependReactor("*", "networks", f.onlyDryRun)
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// onlyDryRun answers dry runs, which the fake would store, and fails the test for other writes.
func (f *fixture) onlyDryRun(action clienttesting.Action) (bool, runtime.Object, error) {
	isDry := func(options []string) {
		if !cmp.Equal(options, dryRun) {
			f.Errorf("a write that is no dry run: %+v", action)
		}
	}
	switch a := action.(type) {
	case clienttesting.CreateActionImpl:
		isDry(a.CreateOptions.DryRun)
		created := a.Object.(*samplecrdv1.Network).DeepCopy()
		created.UID = "99999999-0000-0000-0000-000000000000"
		return true, created, f.refusal
	case clienttesting.PatchActionImpl:
		isDry(a.PatchOptions.DryRun)
		object, err := f.client.Tracker().Get(a.Resource, a.Namespace, a.Name)
		f.must(err)
		live := object.(*samplecrdv1.Network)
		if a.PatchType == types.ApplyPatchType { // whose only owner is the manager
			live = &samplecrdv1.Network{ObjectMeta: live.ObjectMeta, Status: live.Status}
		}
		before, err := json.Marshal(live)
		f.must(err)
		after, err := jsonpatch.MergePatch(before, a.Patch)
		f.must(err)
		patched := &samplecrdv1.Network{}
		f.must(json.Unmarshal(after, patched))
		return true, patched, f.refusal
	case clienttesting.GetActionImpl, clienttesting.ListActionImpl:
	default:
		f.Errorf("unexpected request: %+v", action)
	}
	return false, nil, nil
}

// network returns the Network default/<name>, which the controller has finished before.
func (f *fixture) network(name string, spec samplecrdv1.NetworkSpec, changes ...func(*samplecrdv1.Network)) *samplecrdv1.Network {
	f.Helper()
	n := &samplecrdv1.Network{Spec: spec, ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID("22222222-0000-0000-0000-0000000000" + name[:1] + "0"), Finalizers: []string{samplecrdv1.Finalizer}}}
	for range 4 {
		desired, err := neutron.NewDesired(n, cluster)
		f.must(err)
		as := neutron.NewIdentity(n, cluster)
		observed, err := f.cloud.Observe(f.Context(), as, neutron.Live)
		f.must(err)
		view, _, err := f.cloud.Converge(f.Context(), neutron.View{Identity: as, Desired: desired, Observed: observed}, neutron.Guard{})
		f.record(n, view)
		if neutron.ReasonOf(err) != neutron.Unrecorded {
			f.must(err)
			break
		}
	}
	for _, change := range changes {
		change(n)
	}
	f.must(f.client.Tracker().Add(n))
	return n
}

// update stores the Network without a sync.
func (f *fixture) update(n *samplecrdv1.Network) {
	f.Helper()
	f.must(f.client.Tracker().Update(samplecrdv1.Resource("networks").WithVersion("v1"), n, n.Namespace))
}

// record writes the status.
func (f *fixture) record(n *samplecrdv1.Network, view neutron.View) {
	n.Status.NetworkID, n.Status.Subnets, n.Status.Imported = view.Observed.ID, nil, view.IsImported()
	for _, s := range view.Current() {
		n.Status.Subnets = append(n.Status.Subnets, samplecrdv1.SubnetStatus{ID: s.ID, CIDR: s.CIDR.String(), RouterPortID: s.RouterPortID})
	}
	if id, exists := view.CurrentRouter(); exists {
		n.Status.Router = &samplecrdv1.RouterStatus{ID: id}
	}
}

// legacy returns the ID of a network of another client, with a subnet.
func (f *fixture) legacy(cidr string) string {
	f.Helper()
	n, err := networks.Create(f.Context(), f.others, networks.CreateOpts{Name: "legacy"}).Extract()
	f.must(err)
	f.must(subnets.Create(f.Context(), f.others, subnets.CreateOpts{NetworkID: n.ID, CIDR: cidr, IPVersion: 4}).Err)
	return n.ID
}

// port creates the port web-0 on the network.
func (f *fixture) port(network string) {
	f.Helper()
	f.must(ports.Create(f.Context(), f.others, ports.CreateOpts{NetworkID: network, Name: "web-0"}).Err)
}

// manifest writes a file with a Network, and returns the arguments that name it.
func (f *fixture) manifest(name, spec string) []string {
	f.Helper()
	file := filepath.Join(f.dir, name+".yaml")
	f.must(os.WriteFile(file, []byte("apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: "+name+"}\nspec: {"+spec+"}\n"), 0o600))
	return []string{"-f", file}
}

var anyID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// run runs the subcommand. It returns what it prints, without IDs, and the exit code. It fails the test
// if Neutron changes.
func (f *fixture) run(arguments ...string) (out, errs string, code int) {
	f.Helper()
	before := f.inNeutron()
	var stdout, stderr bytes.Buffer
	s := &settings{}
	var err error
	s.Options, s.Names, _, err = command(s).Parse(append([]string{"-n", "default", "-cloud", cloudName}, arguments...), &stdout)
	f.must(err)
	f.must(s.complete())
	plans, err := s.planWith(f.Context(), &kubeclient.Clients{ClusterID: cluster, Kube: f.kube, Networks: f.client}, &stderr)
	f.must(err)
	f.must(write(&stdout, s.output, plans))
	if diff := cmp.Diff(before, f.inNeutron()); diff != "" {
		f.Errorf("plan has changed Neutron (-before +after)\n%s", diff)
	}
	return anyID.ReplaceAllString(stdout.String(), "ID"), stderr.String(), exitCode(plans)
}

// inNeutron returns all that Neutron has.
func (f *fixture) inNeutron() (all []string) {
	f.Helper()
	for _, kind := range []string{"networks", "subnets", "routers", "ports"} {
		response, err := f.others.Get(f.Context(), f.others.ServiceURL(kind), nil, &gophercloud.RequestOpts{KeepResponseBody: true})
		f.must(err)
		var body bytes.Buffer
		_, err = body.ReadFrom(response.Body)
		f.must(err)
		f.must(response.Body.Close())
		all = append(all, body.String())
	}
	return all
}

func cidr(text string) samplecrdv1.NetworkSpec {
	return samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: text}}
}

func with(spec samplecrdv1.NetworkSpec, change func(*samplecrdv1.NetworkSpec)) samplecrdv1.NetworkSpec {
	change(&spec)
	return spec
}

func imports(id string) samplecrdv1.NetworkSpec {
	return samplecrdv1.NetworkSpec{Import: &samplecrdv1.ImportSpec{NetworkID: id}}
}

func beingDeleted(n *samplecrdv1.Network) { n.DeletionTimestamp = new(metav1.Now()) }
func paused(n *samplecrdv1.Network) {
	n.Annotations = map[string]string{samplecrdv1.AnnotationPaused: "true"}
}

// applied makes the Network one that was created with kubectl apply.
func applied(manifest string) func(*samplecrdv1.Network) {
	return func(n *samplecrdv1.Network) { n.Annotations = map[string]string{lastApplied: manifest} }
}

// comparison is a plan with what it must print.
type comparison struct {
	name string
	// prepare makes what is there, and returns the arguments.
	prepare func(f *fixture) []string
	code    int
	want    string
}

func TestPlan(t *testing.T) {
	const router = ", router: {externalNetwork: {name: public}}"
	withDNS := with(cidr("10.0.0.0/24"), func(s *samplecrdv1.NetworkSpec) { s.DNSNameservers = []samplecrdv1.IPAddress{"192.0.2.53"} })
	for _, test := range []comparison{
		{"a new Network with a router: the plan goes past the write of the status", func(f *fixture) []string { return f.manifest("web", "cidr: 10.0.0.0/24"+router) }, 2, `
default/web: 4 changes
  1. network created
  2. subnet 10.0.0.0/24 created
  3. router created
  4. subnet 10.0.0.0/24 attached to router new-router
1 Network: 1 with changes`},
		{"nothing to do", func(f *fixture) []string {
			f.network("web", cidr("10.0.0.0/24"))
			return f.manifest("web", "cidr: 10.0.0.0/24")
		}, 0, `
default/web: nothing to do
1 Network: 1 with nothing to do`},
		{"a field in place", func(f *fixture) []string {
			f.network("web", cidr("10.0.0.0/24"))
			return f.manifest("web", "cidr: 10.0.0.0/24, gateway: 10.0.0.254")
		}, 2, `
default/web: 1 change
  1. gateway 10.0.0.1 → 10.0.0.254
1 Network: 1 with changes`},
		{"a field that the manifest no longer has, after kubectl apply", func(f *fixture) []string {
			f.network("web", withDNS, applied(`{"spec": {"cidr": "10.0.0.0/24", "dnsNameservers": ["192.0.2.53"]}}`))
			return f.manifest("web", "cidr: 10.0.0.0/24")
		}, 2, `
default/web: 1 change
  1. DNS servers 192.0.2.53 → none
1 Network: 1 with changes`},
		{"a field that the manifest never had stays, as with kubectl apply", func(f *fixture) []string {
			f.network("web", withDNS, applied(`{"spec": {"cidr": "10.0.0.0/24"}}`))
			return f.manifest("web", "cidr: 10.0.0.0/24")
		}, 0, `
default/web: nothing to do
1 Network: 1 with nothing to do`},
		{"a field that the manifest no longer has, after a server-side apply", func(f *fixture) []string {
			f.network("web", withDNS, func(n *samplecrdv1.Network) {
				n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "gitops", Operation: metav1.ManagedFieldsOperationApply}}
			})
			return f.manifest("web", "cidr: 10.0.0.0/24")
		}, 2, `
default/web: 1 change
  1. DNS servers 192.0.2.53 → none
1 Network: 1 with changes`},
		{"a replacement that a port prevents", func(f *fixture) []string {
			f.port(f.network("web", cidr("10.0.0.0/24")).Status.NetworkID)
			return f.manifest("web", "cidr: 10.1.0.0/24")
		}, 2, `
default/web: 2 changes, blocked
  1. subnet 10.0.0.0/24 replaced by 10.1.0.0/24
     blocked: in use by port web-0 (no device)
  2. subnet 10.0.0.0/24 deleted
1 Network: 1 blocked`},
		{"a subnet goes before its successor comes", func(f *fixture) []string {
			f.network("web", cidr("10.0.0.0/24"))
			return f.manifest("web", "cidr: 10.0.0.0/16")
		}, 2, `
default/web: 2 changes
  1. subnet 10.0.0.0/24 replaced by 10.0.0.0/16, with which it overlaps
     interrupts: the old subnet goes before the new one comes
  2. subnet 10.0.0.0/16 created
1 Network: 1 with changes`},
		{"a router that does not exist: the rest is done", func(f *fixture) []string {
			return f.manifest("web", "cidr: 10.0.0.0/24, router: {existing: {name: nowhere}}")
		}, 1, `
default/web: error after 2 changes: spec.router.existing: there is no router named "nowhere" that the credentials can see
  1. network created
  2. subnet 10.0.0.0/24 created
1 Network: 1 with an error`},
		{"a paused Network", func(f *fixture) []string {
			n := f.network("web", cidr("10.0.0.0/24"), paused)
			n.Spec.Gateway = "10.0.0.254"
			f.update(n)
			return nil
		}, 2, `
default/web: 1 change, when the Network is no longer paused
  1. gateway 10.0.0.1 → 10.0.0.254
1 Network: 1 paused`},
		{"a manifest that the API server refuses", func(f *fixture) []string {
			f.refusal = apierrors.NewInvalid(schema.GroupKind{Group: samplecrdv1.GroupName, Kind: "Network"}, "web",
				field.ErrorList{field.Invalid(field.NewPath("spec", "gateway"), "10.9.0.1", "is outside of cidr")})
			return f.manifest("web", "cidr: 10.0.0.0/24, gateway: 10.9.0.1")
		}, 1, `
default/web: error: Network.samplecrd.k8s.io "web" is invalid: spec.gateway: Invalid value: "10.9.0.1": is outside of cidr
1 Network: 1 with an error`},
		{"a mistyped field", func(f *fixture) []string { return f.manifest("web", "cdir: 10.0.0.0/24") }, 1, `
default/web: error: strict decoding error: unknown field "spec.cdir"
1 Network: 1 with an error`},
		{"a spec that was stored under an older CustomResourceDefinition", func(f *fixture) []string {
			n := f.network("web", cidr("10.0.0.0/24"))
			n.Spec.Gateway = "10.9.0.1"
			f.update(n)
			return []string{"web"}
		}, 1, `
default/web: error: spec.gateway: "10.9.0.1" is not an address inside 10.0.0.0/24, nor None
1 Network: 1 with an error`},
		{"characters that mislead a terminal", func(f *fixture) []string {
			f.refusal = apierrors.NewBadRequest("invalid: \x1b[2J")
			return f.manifest("web", "cidr: 10.0.0.0/24")
		}, 1, `
default/web: error: invalid:  [2J
1 Network: 1 with an error`},
	} {
		t.Run(test.name, func(t *testing.T) { newFixture(t).compare(test.prepare, test.code, test.want) })
	}
}

// compare runs the subcommand with the arguments that prepare returns, and compares.
func (f *fixture) compare(prepare func(*fixture) []string, code int, want string) {
	f.Helper()
	out, _, got := f.run(prepare(f)...)
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n")+"\n", out); diff != "" || got != code {
		f.Errorf("exit code %d, want %d (-want +got)\n%s", got, code, diff)
	}
}

func TestPlanOfImports(t *testing.T) {
	for _, test := range []comparison{
		{"only observed, and different", func(f *fixture) []string {
			return f.manifest("web", "cidr: 10.8.0.0/24, mtu: 1400, managementPolicy: Observe, import: {networkID: "+f.legacy("10.7.0.0/24")+"}")
		}, 0, `
default/web: nothing to do: the network is only observed, and differs from the spec
  MTU is 1450, and the spec has 1400
  subnet 10.8.0.0/24 is missing
1 Network: 1 with nothing to do`},
		{"two manifests import the same network", func(f *fixture) []string {
			id := f.legacy("10.7.0.0/24")
			return append(f.manifest("a", "import: {networkID: "+id+"}"), f.manifest("b", "import: {networkID: "+id+"}")...)
		}, 1, `
default/a: 1 change
  1. network ID imported
default/b: error: spec.import.networkID: default/a imports network ID too, and only one of them gets it
2 Networks: 1 with changes, 1 with an error`},
		{"the Network that has the network keeps it, whatever the order", func(f *fixture) []string {
			id := f.legacy("10.7.0.0/24")
			f.network("b", imports(id))
			return append(f.manifest("a", "import: {networkID: "+id+"}"), f.manifest("b", "import: {networkID: "+id+"}")...)
		}, 1, `
default/a: error: spec.import.networkID: network ID is imported by the Network default/b: if that is gone, remove the tag samplecrd-owner-ID-8a10ff8
default/b: nothing to do
2 Networks: 1 with nothing to do, 1 with an error`},
	} {
		t.Run(test.name, func(t *testing.T) { newFixture(t).compare(test.prepare, test.code, test.want) })
	}
}

func TestPlanOfADeletion(t *testing.T) {
	withoutFinalizer := func(n *samplecrdv1.Network) { n.Finalizers = []string{"example.org/other"} }
	for _, test := range []comparison{
		{"the network is deleted", func(f *fixture) []string {
			f.network("web", cidr("10.0.0.0/24"), beingDeleted)
			return nil
		}, 2, `
default/web: 1 change: the Network is being deleted
  1. network ID deleted
1 Network: 1 with changes`},
		{"the network is retained, with its ports", func(f *fixture) []string {
			retained := with(cidr("10.0.0.0/24"), func(s *samplecrdv1.NetworkSpec) { s.DeletionPolicy = samplecrdv1.DeletionRetain })
			f.port(f.network("web", retained, beingDeleted).Status.NetworkID)
			return nil
		}, 2, `
default/web: 1 change: the Network is being deleted
  1. network ID stays, without its ownership mark
1 Network: 1 with changes`},
		{"it waits for the finalizers of others only", func(f *fixture) []string {
			f.network("web", cidr("10.0.0.0/24"), beingDeleted, withoutFinalizer)
			return nil
		}, 0, `
default/web: nothing to do: the Network is being deleted
1 Network: 1 with nothing to do`},
		{"an observed network is left alone, even if its credentials are gone", func(f *fixture) []string {
			spec := with(imports(f.legacy("10.7.0.0/24")), func(s *samplecrdv1.NetworkSpec) { s.ManagementPolicy = samplecrdv1.ManagementObserve })
			f.network("web", spec, beingDeleted, func(n *samplecrdv1.Network) {
				n.Spec.CloudCredentialsRef = &samplecrdv1.CloudCredentialsReference{SecretName: "gone", CloudName: "x"}
			})
			return nil
		}, 0, `
default/web: nothing to do: the Network is being deleted
1 Network: 1 with nothing to do`},
	} {
		t.Run(test.name, func(t *testing.T) { newFixture(t).compare(test.prepare, test.code, test.want) })
	}
}

func TestPlanWithTheCredentialsOfASecret(t *testing.T) {
	manifest := "cidr: 10.0.0.0/24, cloudCredentialsRef: {secretName: openstack, cloudName: " + cloudName + "}"
	for _, test := range []struct {
		name      string
		yaml      func(f *fixture) []byte // of the Secret; nil: there is none
		arguments []string
		code      int
		want      string
	}{
		{"a good one", func(f *fixture) []byte { return f.yaml }, nil, 2, `
default/web: 2 changes
  1. network created
  2. subnet 10.0.0.0/24 created
1 Network: 1 with changes`},
		{"there is none", nil, nil, 1, `
default/web: error: spec.cloudCredentialsRef: there is no Secret default/openstack
1 Network: 1 with an error`},
		{"its content is not shown", func(*fixture) []byte { return []byte("clouds: {other: {auth: {password: hunter2}}}") }, nil, 1, `
default/web: error: Secret openstack: key clouds.yaml: cloud embedded: cloud "embedded" not found in clouds.yaml
1 Network: 1 with an error`},
		{"its Keystone is not allowed", func(f *fixture) []byte { return f.yaml }, []string{"-allowed-auth-urls=https://keystone.example"}, 1, `
default/web: error: Secret openstack: key clouds.yaml: the controller is not allowed to connect to the auth_url of cloud embedded; its administrator can allow it with -allowed-auth-urls
1 Network: 1 with an error`},
	} {
		t.Run(test.name, func(t *testing.T) {
			newFixture(t).compare(func(f *fixture) []string {
				if test.yaml != nil {
					f.must(f.kube.Tracker().Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "openstack"}, Data: map[string][]byte{"clouds.yaml": test.yaml(f)}}))
				}
				return append(f.manifest("web", manifest), test.arguments...)
			}, test.code, test.want)
		})
	}
}

// What a namespace may use is decided as the controller decides it.
func TestPlanWithACloudThatAnAdministratorReserves(t *testing.T) {
	const own, offered = "cidr: 10.0.0.0/24", "cidr: 10.0.0.0/24, cloudCredentialsRef: {clusterCloudName: production}"
	const system = "-cluster-resource-namespace=system"
	for _, test := range []struct {
		name, manifest, team string // team is the label that the ClusterCloud wants; "": there is none
		arguments            []string
		want                 string
	}{
		{"its own cloud is for this team", own, "", []string{"-cloud-namespace-selector=team=a"}, `2 changes
  1. network created
  2. subnet 10.0.0.0/24 created
1 Network: 1 with changes`},
		{"its own cloud is for another team", own, "", []string{"-cloud-namespace-selector=team=b"},
			`error: the controller's own cloud: namespace default may not use it: name other credentials in spec.cloudCredentialsRef, or ask an administrator to label the namespace as -cloud-namespace-selector wants
1 Network: 1 with an error`},
		{"a ClusterCloud for this team", offered, "a", []string{system}, `2 changes
  1. network created
  2. subnet 10.0.0.0/24 created
1 Network: 1 with changes`},
		{"the allowed Keystones are for the Secrets of Networks", offered, "a", []string{system, "-allowed-auth-urls=https://keystone.example"}, `2 changes
  1. network created
  2. subnet 10.0.0.0/24 created
1 Network: 1 with changes`},
		{"a ClusterCloud for another team", offered, "b", []string{system},
			`error: ClusterCloud production: namespace default may not use it: an administrator can label the namespace as its namespaceSelector wants
1 Network: 1 with an error`},
		{"where its Secret is, is not known", offered, "a", nil,
			`error: ClusterCloud production: the namespace of its Secret is not known: set -cluster-resource-namespace as the controller has it
1 Network: 1 with an error`},
		{"its Secret does not exist", offered, "a", []string{"-cluster-resource-namespace=empty"},
			`error: spec.cloudCredentialsRef: there is no Secret empty/all
1 Network: 1 with an error`},
		{"there is none", offered, "", []string{system}, `error: spec.cloudCredentialsRef: there is no ClusterCloud production
1 Network: 1 with an error`},
	} {
		t.Run(test.name, func(t *testing.T) {
			code := 1
			if strings.HasPrefix(test.want, "2 changes") {
				code = 2
			}
			newFixture(t).compare(func(f *fixture) []string {
				f.must(f.kube.Tracker().Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{"team": "a"}}}))
				f.must(f.kube.Tracker().Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "all"}, Data: map[string][]byte{"clouds.yaml": f.yaml}}))
				if test.team != "" {
					f.must(f.client.Tracker().Add(&samplecrdv1.ClusterCloud{ObjectMeta: metav1.ObjectMeta{Name: "production"}, Spec: samplecrdv1.ClusterCloudSpec{
						SecretName: "all", CloudName: cloudName, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": test.team}}}}))
				}
				return append(f.manifest("web", test.manifest), test.arguments...)
			}, code, "\ndefault/web: "+test.want)
		})
	}
}

func TestWhichNetworksArePlanned(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"a", "b"} {
		f.network(name, cidr("10.0.0.0/24"))
	}
	f.must(f.client.Tracker().Add(&samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "c", UID: "c"}, Spec: cidr("10.0.0.0/24")}))
	for _, test := range []struct {
		name      string
		arguments []string
		want      string
		code      int
	}{
		{"those of the namespace", nil, "default/a: nothing to do default/b: nothing to do", 0},
		{"by name", []string{"b"}, "default/b: nothing to do", 0},
		{"of another namespace", []string{"-n", "other"}, "other/c: 2 changes", 2},
		{"of all namespaces", []string{"-A"}, "default/a: nothing to do default/b: nothing to do other/c: 2 changes", 2},
		{"of none", []string{"-n", "empty"}, "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			out, _, code := f.run(test.arguments...)
			var headlines []string
			for line := range strings.Lines(out) {
				if strings.Contains(line, "/") && !strings.HasPrefix(line, " ") {
					headlines = append(headlines, strings.TrimSpace(line))
				}
			}
			if got := strings.Join(headlines, " "); got != test.want || code != test.code {
				t.Errorf("got %q, %d, want %q, %d", got, code, test.want, test.code)
			}
		})
	}
}

func TestAFileWithoutTheFlagIsPointedOut(t *testing.T) {
	f := newFixture(t)
	for argument, hint := range map[string]bool{"network.yaml": true, "manifests/web": true, "-": true, "web": false, "web.v2": false} {
		s := &settings{Options: &options.Options{Namespace: "default"}, Selection: commandnetworks.Selection{Names: []string{argument}}}
		_, err := s.targets(t.Context(), f.client, io.Discard)
		if err == nil || strings.Contains(err.Error(), "use -f "+argument) != hint {
			t.Errorf("%s: got %v", argument, err)
		}
	}
}

// The fields and the values are documented: scripts use them.
func TestJSON(t *testing.T) {
	f := newFixture(t)
	f.port(f.network("a", cidr("10.0.0.0/24")).Status.NetworkID)
	f.network("b", cidr("10.1.0.0/24"))
	out, _, code := f.run(append(append(f.manifest("a", "cidr: 10.0.0.0/16"), f.manifest("b", "cidr: 10.1.0.0/24")...), "-o", "json")...)
	want := `[
  {
    "namespace": "default",
    "name": "a",
    "action": "blocked",
    "steps": [
      {
        "type": "DeleteSubnet",
        "text": "subnet 10.0.0.0/24 replaced by 10.0.0.0/16, with which it overlaps",
        "blockedBy": "in use by port web-0 (no device)",
        "interrupts": "the old subnet goes before the new one comes"
      },
      {
        "type": "CreateSubnet",
        "text": "subnet 10.0.0.0/16 created"
      }
    ]
  },
  {
    "namespace": "default",
    "name": "b",
    "action": "none",
    "steps": []
  }
]
`
	if diff := cmp.Diff(want, out); diff != "" || code != exitChanges {
		t.Errorf("exit code %d (-want +got)\n%s", code, diff)
	}
}

func TestReadFiles(t *testing.T) {
	const network = "apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {name: NAME}\n"
	named := func(name string) string { return strings.ReplaceAll(network, "NAME", name) }
	for _, test := range []struct {
		name, file, text string
		// want are the names of the Networks, errs what standard error has, and err the error.
		want, errs, err string
	}{
		{"several documents", "a.yaml", "# a comment\n---\n" + named("a") + "---\n" + named("b"), "a b", "", ""},
		{"other kinds are skipped", "a.yml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n---\n" + named("a"), "a", "skipped ConfigMap x", ""},
		{"no kind", "a.yaml", "{}\n---\n" + named("a"), "a", "skipped an object without a kind\n", ""},
		{"a kind of the same name in another group", "a.yaml", strings.Replace(named("x"), "samplecrd.k8s.io", "example.org", 1) + "---\n" + named("a"), "a", "skipped Network x", ""},
		{"a list", "a.json", `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": {"name": "a"}}]}`, "a", "", ""},
		{"JSON documents one after the other", "a.json", `{"apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": {"name": "a"}} {"apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": {"name": "b"}}`, "a b", "", ""},
		{"other files in a directory are not read", "a.txt", named("a"), "", "", "there is no Network"},
		{"no Network", "a.yaml", "# nothing\n", "", "", "there is no Network"},
		{"no name", "a.yaml", "apiVersion: samplecrd.k8s.io/v1\nkind: Network\n", "", "", "a Network has no name"},
		{"no YAML", "a.yaml", "kind: [", "", "", "a.yaml: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, test.file), []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			manifests, err := commandnetworks.ReadFiles([]string{dir}, nil, &stderr)
			var names []string
			for _, m := range manifests {
				names = append(names, m.GetName())
			}
			if got := strings.Join(names, " "); got != test.want || !strings.Contains(stderr.String(), test.errs) {
				t.Errorf("got %q, %q", got, stderr.String())
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got the error %v", err)
			}
		})
	}
	manifests, err := commandnetworks.ReadFiles([]string{"-"}, strings.NewReader(named("a")), nil)
	if err != nil || len(manifests) != 1 {
		t.Errorf("standard input: %v, %v", manifests, err)
	}
}

func TestArguments(t *testing.T) {
	for _, test := range []struct {
		name      string
		arguments []string
		err       string
	}{
		{"an unknown format", []string{"-o", "yaml"}, "must be one of: text, json"},
		{"manifests and the cluster", []string{"-A", "-f", "x"}, "-f cannot be combined with -A"},
		{"names and all namespaces", []string{"-A", "x"}, "-A cannot be combined with names"},
		{"a namespace that cannot exist", []string{"-n", "A b"}, "must be a valid name of a namespace"},
		{"a mistyped flag", []string{"-outptu"}, "flag provided but not defined: -outptu"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := Run(t.Context(), test.arguments, &stdout, &stderr)
			if code != exitError || stdout.Len() > 0 || !strings.Contains(stderr.String(), test.err) {
				t.Errorf("exit code %d, %s%s", code, stdout.String(), stderr.String())
			}
		})
	}
	var help bytes.Buffer
	if code := Run(t.Context(), []string{"-h"}, &help, nil); code != 0 || !strings.Contains(help.String(), "-allowed-auth-urls") {
		t.Errorf("exit code %d, %s", code, help.String())
	}
}
