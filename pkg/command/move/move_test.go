// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/attributestags"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"sigs.k8s.io/yaml"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/fallback"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/apiserver"
)

// The clusters, and the Networks of the old one. What is printed is compared with the words in their place.
const (
	oldCluster, newCluster = "11111111-0000-4000-8000-000000000000", "55555555-0000-4000-8000-000000000000"
	oldWeb, oldDB          = types.UID("22222222-0000-4000-8000-000000000000"), types.UID("33333333-0000-4000-8000-000000000000")
	newWeb, newDB          = types.UID("66666666-0000-4000-8000-000000000000"), types.UID("77777777-0000-4000-8000-000000000000")
)

// fixture is a new cluster, and an embedded Neutron.
type fixture struct {
	*testing.T
	api    *apiserver.Server
	server *embedded.Server
	client *fake.Clientset
	others *gophercloud.ServiceClient
	// words are what stands for the IDs in what is printed: each before its word.
	words []string
	dir   string
	// isMeddled: others write too.
	isMeddled bool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, client: fake.NewClientset(), dir: t.TempDir(), words: []string{
		oldCluster, "OLD", newCluster, "NEW", string(oldWeb), "OLD-WEB", string(oldDB), "OLD-DB", string(newWeb), "NEW-WEB", string(newDB), "NEW-DB",
	}}
	f.api = apiserver.Install(f.client)
	server, err := embedded.Start("127.0.0.1:0", fallback.Options())
	f.must(err)
	t.Cleanup(func() { _ = server.Close() })
	f.server = server
	file := filepath.Join(f.dir, "clouds.yaml")
	f.must(os.WriteFile(file, server.CloudsYAML("embedded"), 0o600))
	t.Setenv("OS_CLIENT_CONFIG_FILE", file)
	config, err := neutron.ParseConfig("embedded", server.CloudsYAML("embedded"))
	f.must(err)
	provider, err := openstack.AuthenticatedClient(t.Context(), config.Auth)
	f.must(err)
	f.others, err = openstack.NewNetworkV2(provider, config.Endpoint)
	f.must(err)
	return f
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// inNeutron creates a network with a subnet, which have the marks of the owner. word stands for the network's ID.
func (f *fixture) inNeutron(word, name string, owner neutron.Owner) (id string) {
	f.Helper()
	mark := ""
	if owner.UID != "" {
		mark = owner.Mark()
	}
	n, err := networks.Create(f.Context(), f.others, networks.CreateOpts{Name: name, Description: mark}).Extract()
	f.must(err)
	s, err := subnets.Create(f.Context(), f.others, subnets.CreateOpts{NetworkID: n.ID, CIDR: "10.0.0.0/24", IPVersion: 4, Description: mark}).Extract()
	f.must(err)
	f.words = append(f.words, n.ID, word, s.ID, word+"-SUBNET")
	return n.ID
}

// old creates what the old cluster has of a Network.
func (f *fixture) old(word, name string, uid types.UID) (id string) {
	f.Helper()
	return f.inNeutron(word, name, neutron.Owner{Cluster: oldCluster, UID: uid})
}

// imported creates a network that Networks import.
func (f *fixture) imported(owners ...neutron.Owner) (id string) {
	f.Helper()
	id = f.inNeutron("LEGACY", "legacy", neutron.Owner{})
	for _, owner := range owners {
		f.must(attributestags.Add(f.Context(), f.others, "networks", id, owner.ImportTag()).ExtractErr())
	}
	return id
}

// network stores the Network default/<name> in the new cluster, as kubectl apply does.
func (f *fixture) network(name string, changes ...func(*samplecrdv1.Network)) {
	f.Helper()
	n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: map[string]types.UID{"web": newWeb, "db": newDB}[name]}}
	n.Spec.CIDR = "10.0.0.0/24"
	for _, change := range changes {
		change(n)
	}
	f.api.Put(n)
}

func importing(id string) func(*samplecrdv1.Network) {
	return func(n *samplecrdv1.Network) {
		n.Spec = samplecrdv1.NetworkSpec{Import: &samplecrdv1.ImportSpec{NetworkID: id}}
	}
}

func annotated(pairs ...string) func(*samplecrdv1.Network) {
	return func(n *samplecrdv1.Network) {
		n.Annotations = map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			n.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func beingDeleted(n *samplecrdv1.Network) {
	n.DeletionTimestamp, n.Finalizers = new(metav1.Now()), []string{samplecrdv1.Finalizer}
}

// locked makes the Network one whose move was interrupted.
func locked(n *samplecrdv1.Network) {
	annotated(samplecrdv1.AnnotationMovingFrom, oldCluster+"/"+string(oldWeb))(n)
	n.Finalizers = []string{samplecrdv1.Finalizer}
}

// begun makes the Network one that the controller of this cluster has given its finalizer.
func begun(n *samplecrdv1.Network) {
	n.CreationTimestamp, n.Finalizers = metav1.Unix(1000, 0), []string{samplecrdv1.Finalizer}
	n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: new(metav1.Unix(1001, 0))}, {Manager: "samplecrd-controller", Time: new(metav1.Unix(1000, 0))}}
}

// dump writes what the old cluster has of default/<name>, and returns the arguments that name the file.
func (f *fixture) dump(name string, uid types.UID, changes ...func(*samplecrdv1.Network)) string {
	f.Helper()
	n := &samplecrdv1.Network{TypeMeta: metav1.TypeMeta{APIVersion: samplecrdv1.GroupVersion.String(), Kind: "Network"}}
	n.Namespace, n.Name, n.UID = "default", name, uid
	for _, change := range changes {
		change(n)
	}
	text, err := yaml.Marshal(n)
	f.must(err)
	file := filepath.Join(f.dir, name+".yaml")
	f.must(os.WriteFile(file, text, 0o600))
	return "-f " + file
}

var anyID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// run runs the subcommand, with the old cluster's ID if the arguments have none. It returns what it prints, with words for IDs.
func (f *fixture) run(arguments string) (out string, code int) {
	f.Helper()
	if !strings.Contains(arguments, "-from-cluster-id") {
		arguments += " -from-cluster-id=" + oldCluster
	}
	var printed bytes.Buffer
	s := &settings{}
	var err error
	s.Options, s.Names, _, err = command(s).Parse(strings.Fields("-n=default -cloud=embedded "+arguments), &printed)
	f.must(err)
	if code, err = exitError, s.complete(); err == nil {
		clients := &kubeclient.Clients{ClusterID: newCluster, Host: "https://new", Kube: kubefake.NewClientset(), Networks: f.client}
		ctx := klog.NewContext(f.Context(), s.Logging.Text(&printed))
		code, err = s.moveWith(ctx, clients, strings.NewReader(""), &printed, &printed)
	}
	if err != nil {
		fmt.Fprintln(&printed, err)
	}
	text := strings.NewReplacer(f.words...).Replace(printed.String())
	return anyID.ReplaceAllString(text, "ID"), code
}

// state returns all that Kubernetes and Neutron have.
func (f *fixture) state() string {
	f.Helper()
	all := fmt.Sprintln(f.api.Changes())
	for _, kind := range []string{"networks", "subnets", "routers"} {
		response, err := f.others.Get(f.Context(), f.others.ServiceURL(kind), nil, &gophercloud.RequestOpts{KeepResponseBody: true})
		f.must(err)
		var body bytes.Buffer
		_, err = body.ReadFrom(response.Body)
		f.must(err)
		f.must(response.Body.Close())
		all += body.String()
	}
	return all
}

// meddle does something before the requests first to last with that verb for a Network.
func (f *fixture) meddle(verb string, first, last int, do func()) {
	f.isMeddled = true
	requests := 0
	f.client.PrependReactor(verb, "networks", func(clienttesting.Action) (bool, runtime.Object, error) {
		if requests++; first <= requests && requests <= last {
			do()
		}
		return false, nil, nil
	})
}

// forbidden is Neutron's answer to what its policy does not allow.
func forbidden() *embedded.Fault {
	return &embedded.Fault{Status: http.StatusForbidden, Type: "PolicyNotAuthorized", Message: "it is disallowed by policy"}
}

// atRequest does something before the next request of that kind to Neutron, which fails if there is a Fault.
func (f *fixture) atRequest(method, path string, do func() *embedded.Fault) {
	f.isMeddled = true
	f.server.SetFault(func(r *http.Request) *embedded.Fault {
		if r.Method != method || !strings.Contains(r.URL.Path, path) {
			return nil
		}
		f.server.SetFault(nil)
		return do()
	})
}

// call is one call of the subcommand.
type call struct {
	arguments string
	code      int
	want      string
}

func TestMove(t *testing.T) {
	const sure = "-A -old-is-stopped -yes"
	owner := func(uid types.UID) neutron.Owner { return neutron.Owner{Cluster: oldCluster, UID: uid} }
	dry := call{"-A", 2, `
default/web: 2 changes to take over from OLD-WEB, found by the name
  1. mark of network WEB replaced
  2. mark of subnet WEB-SUBNET replaced
1 Network: 1 with changes`}
	moved := call{sure, 0, strings.NewReplacer("2 changes to take over from", "moved from", "with changes", "moved").Replace(dry.want)}
	hasBegun := call{sure, 1, `
default/web: error: the controller of this cluster may be creating a network for it: pause it with the annotations samplecrd.k8s.io/paused=true and samplecrd.k8s.io/reconcile-requested-at=move-1, and run this again in a few seconds; only if no controller works here, remove its finalizer samplecrd.k8s.io/neutron
1 Network: 1 with an error`}
	for _, test := range []struct {
		name string
		// prepare makes what is there. It returns what is added to the arguments.
		prepare func(f *fixture) string
		calls   []call
	}{
		{"a Network of the name, and one of another name", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			router, err := routers.Create(f.Context(), f.others, routers.CreateOpts{Name: "default/web", Description: owner(oldWeb).Mark()}).Extract()
			f.must(err)
			f.words = append(f.words, router.ID, "ROUTER")
			f.old("STORE", "default/store", oldDB)
			f.network("web")
			f.network("db")
			return ""
		}, []call{
			{"-A", 2, `
default/db: nothing to move: nothing of cluster OLD fits it
default/web: 3 changes to take over from OLD-WEB, found by the name
  1. mark of network WEB replaced
  2. mark of router ROUTER replaced
  3. mark of subnet WEB-SUBNET replaced
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-DB: network STORE "default/store" 10.0.0.0/24
2 Networks: 1 with changes, 1 with nothing to move`},
			{sure, 0, `
default/db: nothing to move: nothing of cluster OLD fits it
default/web: moved from OLD-WEB, found by the name
  1. mark of network WEB replaced
  2. mark of router ROUTER replaced
  3. mark of subnet WEB-SUBNET replaced
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-DB: network STORE "default/store" 10.0.0.0/24
2 Networks: 1 moved, 1 with nothing to move`},
			{sure, 0, `
default/db: nothing to move: nothing of cluster OLD fits it
default/web: nothing to move: it has everything of OLD-WEB
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-DB: network STORE "default/store" 10.0.0.0/24
2 Networks: 2 with nothing to move`},
			{"web", 0, `
default/web: nothing to move: it has everything of OLD-WEB
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-DB: network STORE "default/store" 10.0.0.0/24
1 Network: 1 with nothing to move`},
		}},
		{"everything is moved: a dry run after it finds no mark of the old ID, and is content", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			return ""
		}, []call{dry, moved, {"-A", 0, `
default/web: nothing to move: it has everything of OLD-WEB
1 Network: 1 with nothing to move`}}},
		{"a network that has lost its mark", func(f *fixture) string {
			f.must(networks.Update(f.Context(), f.others, f.old("WEB", "default/web", oldWeb), networks.UpdateOpts{Description: new("")}).Err)
			f.network("web")
			return ""
		}, []call{{sure, 1, `
default/web: error: take over: network WEB has lost its mark, so the controller of this cluster would not find it: if it is the right one, run openstack network set --description "samplecrd.k8s.io/owner=OLD/OLD-WEB" WEB
1 Network: 1 with an error`}}},
		{"a router with text before its mark", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			router, err := routers.Create(f.Context(), f.others, routers.CreateOpts{Name: "default/web", Description: "ours " + owner(oldWeb).Mark()}).Extract()
			f.must(err)
			f.words = append(f.words, router.ID, "ROUTER")
			f.network("web")
			return ""
		}, []call{{sure, 0, `
default/web: moved from OLD-WEB, found by the name
  1. mark of network WEB replaced
  2. mark of router ROUTER replaced
  3. mark of subnet WEB-SUBNET replaced
1 Network: 1 moved`}}},
		{"an import that is declared as a network of its own", func(f *fixture) string {
			f.imported(owner(oldWeb))
			f.network("web")
			return "-old-is-stopped " + f.dump("web", oldWeb)
		}, []call{{"-yes", 1, `
default/web: error: take over: network LEGACY was imported: create this Network with spec.import
1 Network: 1 with an error`}}},
		{"an annotation that a user has written", func(f *fixture) string {
			f.old("WEB", "team/web", oldWeb)
			f.network("web", annotated(samplecrdv1.AnnotationMovedFrom, oldCluster+"/"+string(oldWeb)))
			return ""
		}, []call{{sure, 1, `
default/web: error: its annotation samplecrd.k8s.io/moved-from names Network OLD/OLD-WEB, and nothing else does: name that one by metadata.uid in -f too, or remove the annotation
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-WEB: network WEB "team/web" 10.0.0.0/24
1 Network: 1 with an error`}}},
		{"an annotation that a user has written on an import", func(f *fixture) string {
			f.old("WEB", "team/web", oldWeb)
			router, err := routers.Create(f.Context(), f.others, routers.CreateOpts{Name: "team/web", Description: owner(oldWeb).Mark()}).Extract()
			f.must(err)
			f.words = append(f.words, router.ID, "ROUTER")
			f.network("web", importing(f.imported(neutron.Owner{Cluster: newCluster, UID: newWeb})), annotated(samplecrdv1.AnnotationMovedFrom, oldCluster+"/"+string(oldWeb)))
			return ""
		}, []call{{sure, 1, `
default/web: error: its annotation samplecrd.k8s.io/moved-from names Network OLD/OLD-WEB, and nothing else does: name that one by metadata.uid in -f too, or remove the annotation
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-WEB: network WEB "team/web" 10.0.0.0/24, router ROUTER "team/web"
1 Network: 1 with an error`}}},
		{"the ID of a third cluster that has the same names, and the dump of the old one", func(f *fixture) string {
			f.inNeutron("OTHERS", "default/web", neutron.Owner{Cluster: "third", UID: oldDB})
			f.network("web")
			return "-from-cluster-id=third " + f.dump("web", oldWeb)
		}, []call{{"-old-is-stopped -yes", 0, `
default/web: nothing to move: nothing of cluster third fits it
None of these Networks takes over what cluster third has in cloud embedded:
  OLD-DB: network OTHERS "default/web" 10.0.0.0/24
1 Network: 1 with nothing to move`}}},
		{"a mark with control characters", func(f *fixture) string {
			f.inNeutron("FORGED", "default/store", neutron.Owner{Cluster: oldCluster, UID: "a\n\x1bb"})
			f.network("web")
			return ""
		}, []call{{"-A", 0, `
default/web: nothing to move: nothing of cluster OLD fits it
None of these Networks takes over what cluster OLD has in cloud embedded:
  a  b: network FORGED "default/store" 10.0.0.0/24
1 Network: 1 with nothing to move`}}},
		{"nothing fits", func(f *fixture) string {
			f.old("STORE", "default/store", oldDB)
			f.network("web")
			return ""
		}, []call{{sure, 0, `
default/web: nothing to move: nothing of cluster OLD fits it
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-DB: network STORE "default/store" 10.0.0.0/24
1 Network: 1 with nothing to move`}}},
		{"no Network is there yet", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			return ""
		}, []call{{"-A", 1, `
there is no Network here: create the Networks of this cluster first; -A looks in all namespaces`}}},
		{"a mistyped ID", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.old("DB", "default/db", oldDB)
			f.inNeutron("MINE", "default/mine", neutron.Owner{Cluster: "other", UID: newDB})
			f.network("web")
			return "-from-cluster-id=mistyped"
		}, []call{
			{"-A", 1, `
-from-cluster-id=mistyped: no mark has this ID in cloud embedded; the IDs there are: OLD (2 Networks), other (1 Network)`},
			{sure, 1, `
-from-cluster-id=mistyped: no mark has this ID in cloud embedded; the IDs there are: OLD (2 Networks), other (1 Network)`},
		}},
		{"a cloud without marks, or of another project", func(f *fixture) string {
			f.network("web")
			return ""
		}, []call{{"-A", 1, `
-from-cluster-id=OLD: no mark has this ID in cloud embedded; the IDs there are: none`}}},
		{"the ID of the cluster itself", func(f *fixture) string {
			f.network("web")
			return "-from-cluster-id=" + newCluster
		}, []call{{sure, 1, `
-from-cluster-id=NEW is the ID of this cluster, https://new: is the current context that of the new cluster? Only if this cluster itself gets another ID, set -cluster-id to that one, which the controller here must have too`}}},
		{"no ID", func(f *fixture) string { return "-from-cluster-id=" }, []call{{sure, 1, `
-from-cluster-id is required: descriptions in Neutron have it, as samplecrd.k8s.io/owner=ID/UID`}}},
		{"a file and all", func(f *fixture) string { return f.dump("web", oldWeb) }, []call{{"-A", 1, `
-f cannot be combined with -A`}}},
		{"names and all", func(f *fixture) string { return "" }, []call{{"-A web", 1, `
-A cannot be combined with names`}}},
		{"a namespace that cannot be", func(f *fixture) string { return "-n=Team" }, []call{{sure, 1, `
-namespace="Team": must be a valid name of a namespace`}}},
		{"a name that is not there", func(f *fixture) string { return "" }, []call{{"web", 1, `
networks.samplecrd.k8s.io "web" not found`}}},
		{"manifests that were not applied", func(f *fixture) string {
			f.network("app")
			return f.dump("web", oldWeb) + " " + f.dump("app", "") + " " + f.dump("db", oldDB)
		}, []call{{"-yes", 1, `
default/web is not in this cluster: apply its manifest first
default/db is not in this cluster: apply its manifest first`}}},
		{"nobody says that the old controller is stopped", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			return ""
		}, []call{{"-A -yes", 1, `
default/web: error: a controller of cluster OLD may work on it: set -old-is-stopped if none does, or pause the old Network as -h says
1 Network: 1 with an error`}}},
		{"the old controller has not seen the pause", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			return f.dump("web", oldWeb, annotated(samplecrdv1.AnnotationPaused, "true", samplecrdv1.AnnotationReconcileRequestedAt, "move-2"))
		}, []call{{"-yes", 1, `
default/web: error: the controller of cluster OLD had not paused the old Network when -f was made: get it again in a few seconds, or look at its status there if that does not help
1 Network: 1 with an error`}}},
		{"the old controller has paused a Network of the same UID", func(f *fixture) string {
			f.old("WEB", "default/former-name", oldWeb)
			f.network("web")
			return f.dump("web", oldWeb, annotated(samplecrdv1.AnnotationPaused, "true", samplecrdv1.AnnotationReconcileRequestedAt, "move-1"),
				func(n *samplecrdv1.Network) { n.Status.LastHandledReconcileAt = "move-1" })
		}, []call{{"-yes", 0, strings.ReplaceAll(moved.want, "the name", "metadata.uid in -f")}}},
		{"a Network that is twice in -f", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			return f.dump("web", oldWeb)
		}, []call{{"-yes -old-is-stopped -f $dir/web.yaml", 1, "default/web is in -f twice: give it once"}}},
		{"two networks of one name: a file says which one", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.old("TWIN", "default/web", oldDB)
			f.network("web")
			f.dump("web", oldWeb)
			return "-old-is-stopped"
		}, []call{
			{"-yes web", 1, `
default/web: error: the name fits several Networks of cluster OLD: name one by metadata.uid in -f:
  OLD-WEB: network WEB "default/web" 10.0.0.0/24
  OLD-DB: network TWIN "default/web" 10.0.0.0/24
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-WEB: network WEB "default/web" 10.0.0.0/24
  OLD-DB: network TWIN "default/web" 10.0.0.0/24
1 Network: 1 with an error`},
			{"-f $dir/web.yaml", 2, strings.Replace(strings.ReplaceAll(dry.want, "the name", "metadata.uid in -f"), "1 Network:", `None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-DB: network TWIN "default/web" 10.0.0.0/24
1 Network:`, 1)},
		}},
		{"two Networks claim one owner", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.network("db")
			return "-old-is-stopped " + f.dump("web", "") + " " + f.dump("db", oldWeb)
		}, []call{{"-yes", 1, `
default/web: error: default/web (by the name) and default/db (by metadata.uid in -f) would take over from OLD-WEB: move only one of them
default/db: error: default/web (by the name) and default/db (by metadata.uid in -f) would take over from OLD-WEB: move only one of them
2 Networks: 2 with an error`}}},
		{"the controller here has created a network already", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.inNeutron("SECOND", "default/web", neutron.Owner{Cluster: newCluster, UID: newWeb})
			f.network("web")
			return ""
		}, []call{{sure, 1, `
default/web: error: take over: it has network SECOND already, and the old owner has network WEB: if nothing uses SECOND, delete this Network, and remove its annotation moving-from if it has that, so that the controller deletes SECOND; then create it again, paused; if nothing uses WEB, delete WEB in Neutron
1 Network: 1 with an error`}}},
		{"the old controller has created another network since the move", func(f *fixture) string {
			f.inNeutron("MOVED", "default/web", neutron.Owner{Cluster: newCluster, UID: newWeb})
			f.old("AGAIN", "default/web", oldWeb)
			f.network("web", annotated(samplecrdv1.AnnotationMovedFrom, oldCluster+"/"+string(oldWeb)))
			return ""
		}, []call{{sure, 1, `
default/web: error: take over: it has network MOVED already, and the old owner has network AGAIN: if nothing uses MOVED, delete this Network, and remove its annotation moving-from if it has that, so that the controller deletes MOVED; then create it again, paused; if nothing uses AGAIN, delete AGAIN in Neutron
1 Network: 1 with an error`}}},
		{"the controller here has begun", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", begun)
			return ""
		}, []call{hasBegun}},
		{"the controller here begins while it is moved", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.meddle("patch", 1, 1, func() { f.network("web", begun) })
			return ""
		}, []call{hasBegun}},
		{"the controller here has begun, and has not handled the pause", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", begun, annotated(samplecrdv1.AnnotationPaused, "true", samplecrdv1.AnnotationReconcileRequestedAt, "move-2"),
				func(n *samplecrdv1.Network) { n.Status.LastHandledReconcileAt = "move-1" })
			return ""
		}, []call{hasBegun}},
		{"the controller here has begun, and has handled the pause", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", begun, annotated(samplecrdv1.AnnotationPaused, "true", samplecrdv1.AnnotationReconcileRequestedAt, "move-1"),
				func(n *samplecrdv1.Network) { n.Status.LastHandledReconcileAt = "move-1" })
			return ""
		}, []call{moved}},
		{"a backup with the finalizer and what the old controller has written", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", begun, func(n *samplecrdv1.Network) { n.CreationTimestamp = metav1.Unix(1061, 0) })
			return ""
		}, []call{moved}},
		{"the controller here has written a Network, and has not begun", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", begun, func(n *samplecrdv1.Network) { n.Finalizers = nil })
			return ""
		}, []call{moved}},
		{"the cluster gets another ID, and the status was removed", func(f *fixture) string {
			f.old("WEB", "default/web", newWeb)
			f.network("web", begun)
			return ""
		}, []call{{sure, 0, strings.NewReplacer("OLD-WEB", "NEW-WEB", "the name", "its UID").Replace(moved.want)}}},
		{"an interrupted move, before anything was moved", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", begun, locked)
			return ""
		}, []call{{sure, 0, strings.Replace(strings.ReplaceAll(moved.want, "the name", "an earlier move"), "1 Network:", "  3. annotation samplecrd.k8s.io/moving-from removed\n1 Network:", 1)}}},
		{"the controller here has begun, and finds the network of the old one", func(f *fixture) string {
			id := f.old("WEB", "default/web", oldWeb)
			f.network("web", begun, func(n *samplecrdv1.Network) { n.Status.NetworkID = id })
			return ""
		}, []call{{sure, 0, strings.ReplaceAll(moved.want, "the name", "status.networkID")}}},
		{"the controller here has begun, and its network was deleted", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", begun, func(n *samplecrdv1.Network) { n.Status.NetworkID = "gone" })
			return ""
		}, []call{hasBegun}},
		{"the controller here has begun with an import", func(f *fixture) string {
			f.network("web", begun, importing(f.imported(owner(oldWeb))))
			return ""
		}, []call{{sure, 0, `
default/web: moved from OLD-WEB, found by spec.import.networkID
  1. new tag of network LEGACY added
  2. old tag of network LEGACY removed
1 Network: 1 moved`}}},
		{"the controller here creates a network while it is moved: what was moved must not be deleted", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.atRequest(http.MethodPut, "/subnets/", func() *embedded.Fault {
				f.inNeutron("TOO", "default/web", neutron.Owner{Cluster: newCluster, UID: newWeb})
				return nil
			})
			return ""
		}, []call{{sure, 1, `
default/web: error: not finished, run this again: take over: networks WEB and TOO have the same mark: delete the one that is not in use
1 Network: 1 with an error`}}},
		{"an import", func(f *fixture) string {
			f.network("web", importing(f.imported(owner(oldWeb))))
			return ""
		}, []call{{sure, 0, `
default/web: moved from OLD-WEB, found by spec.import.networkID
  1. new tag of network LEGACY added
  2. old tag of network LEGACY removed
1 Network: 1 moved`}, {sure, 0, `
default/web: nothing to move: it has everything of OLD-WEB
1 Network: 1 with nothing to move`}}},
		{"a network that is only observed", func(f *fixture) string {
			f.network("web", importing(f.imported(owner(oldWeb))), func(n *samplecrdv1.Network) { n.Spec.ManagementPolicy = samplecrdv1.ManagementObserve })
			return ""
		}, []call{{sure, 0, `
default/web: nothing to move: nothing of cluster OLD fits it
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-WEB: network LEGACY "legacy" 10.0.0.0/24
1 Network: 1 with nothing to move`}}},
		{"an import with the tag of a third Network", func(f *fixture) string {
			third := neutron.Owner{Cluster: "third", UID: oldDB}
			f.words = append(f.words, third.ImportTag(), "TAG")
			f.network("web", importing(f.imported(owner(oldWeb), third)))
			return ""
		}, []call{{sure, 1, `
default/web: error: take over: a third Network imports network LEGACY too: if that one is gone, run openstack network unset --tag TAG LEGACY
1 Network: 1 with an error`}}},
		{"an import whose old Network has created a network too", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", importing(f.imported(owner(oldWeb))))
			return ""
		}, []call{{"-A", 1, `
default/web: error: take over: Network OLD-WEB of the old cluster also has network WEB, which an import of network LEGACY does not take over: remove the mark of that one, or delete it if nothing uses it
1 Network: 1 with an error`}}},
		{"what is left cannot be listed", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.meddle("patch", 2, 2, func() {
				f.server.SetFault(func(r *http.Request) *embedded.Fault {
					if strings.HasPrefix(r.UserAgent(), "gophercloud") {
						return nil // state lists them
					}
					return &embedded.Fault{Status: http.StatusServiceUnavailable, Type: "Unavailable", Message: "it is down"}
				})
			})
			return ""
		}, []call{{sure, 1, strings.Replace(moved.want, "1 Network:", `error: what is left in cloud embedded cannot be listed: list networks: 503 it is down
1 Network:`, 1)}}},
		{"a Network that is being deleted", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", beingDeleted)
			return ""
		}, []call{{sure, 1, `
default/web: error: it is being deleted, and would delete what it takes over: if no controller works here, remove its finalizer samplecrd.k8s.io/neutron; then create it again
1 Network: 1 with an error`}}},
		{"a Network that is being deleted, and has a router already", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.must(routers.Create(f.Context(), f.others, routers.CreateOpts{Name: "default/web", Description: neutron.Owner{Cluster: newCluster, UID: newWeb}.Mark()}).Err)
			f.network("web", beingDeleted)
			return ""
		}, []call{{sure, 1, `
default/web: error: it is being deleted, and would delete what it takes over: create it again
1 Network: 1 with an error`}}},
		{"a Network that was deleted when its move was interrupted, before anything was moved", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", locked, beingDeleted)
			return ""
		}, []call{{sure, 1, `
default/web: error: it is being deleted, and would delete what it takes over: remove its annotation samplecrd.k8s.io/moving-from, for which the deletion waits; if no controller works here, remove its finalizer samplecrd.k8s.io/neutron; then create it again
1 Network: 1 with an error`}}},
		{"a Network that was deleted when its move was interrupted, and a part was moved", func(f *fixture) string {
			f.must(networks.Update(f.Context(), f.others, f.old("WEB", "default/web", oldWeb), networks.UpdateOpts{Description: new(neutron.Owner{Cluster: newCluster, UID: newWeb}.Mark())}).Err)
			f.network("web", locked, beingDeleted)
			return ""
		}, []call{{sure, 0, `
default/web: moved from OLD-WEB, found by an earlier move
  1. mark of subnet WEB-SUBNET replaced
  2. annotation samplecrd.k8s.io/moving-from removed
1 Network: 1 moved`}}},
		{"a Network that was deleted when its move was interrupted, and has a router of its own", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.must(routers.Create(f.Context(), f.others, routers.CreateOpts{Name: "default/web", Description: neutron.Owner{Cluster: newCluster, UID: newWeb}.Mark()}).Err)
			f.network("web", locked, beingDeleted)
			return ""
		}, []call{{sure, 1, `
default/web: error: it is being deleted, and would delete what it takes over: remove its annotation samplecrd.k8s.io/moving-from, for which the deletion waits; create it again
1 Network: 1 with an error`}}},
		{"a Network that is deleted between the lock and the first change", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.meddle("get", 2, 2, func() { f.network("web", locked, beingDeleted) })
			return ""
		}, []call{{sure, 1, `
default/web: error: it is being deleted, and would delete what it takes over: remove its annotation samplecrd.k8s.io/moving-from, for which the deletion waits; if no controller works here, remove its finalizer samplecrd.k8s.io/neutron; then create it again
1 Network: 1 with an error`}}},
		{"a Network that is deleted after the first change", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.meddle("get", 3, 3, func() { f.network("web", locked, beingDeleted) })
			return ""
		}, []call{moved}},
		{"an interrupted move, with the credentials of another project", func(f *fixture) string {
			f.network("web", locked)
			return ""
		}, []call{{sure, 1, `
default/web: error: neither it nor OLD-WEB has anything in cloud embedded: do its credentials lead to the same project and region as when the move began? If what it takes over is gone, remove its annotation samplecrd.k8s.io/moving-from
1 Network: 1 with an error`}}},
		{"an interrupted move of an import whose network was deleted, with its router", func(f *fixture) string {
			router, err := routers.Create(f.Context(), f.others, routers.CreateOpts{Name: "default/web", Description: owner(oldWeb).Mark()}).Extract()
			f.must(err)
			f.words = append(f.words, router.ID, "ROUTER")
			f.network("web", importing("8888"), locked)
			return "-old-is-stopped " + f.dump("web", oldWeb)
		}, []call{{"-yes", 0, `
default/web: moved from OLD-WEB, found by an earlier move
  1. mark of router ROUTER replaced
  2. annotation samplecrd.k8s.io/moving-from removed
1 Network: 1 moved`}}},
		{"a network that has lost its mark after it was moved", func(f *fixture) string {
			id := f.inNeutron("WEB", "default/web", neutron.Owner{Cluster: newCluster, UID: newWeb})
			f.must(networks.Update(f.Context(), f.others, id, networks.UpdateOpts{Description: new("")}).Err)
			f.network("web", annotated(samplecrdv1.AnnotationMovedFrom, oldCluster+"/"+string(oldWeb)))
			return ""
		}, []call{{sure, 1, `
default/web: error: take over: network WEB has lost its mark, so the controller of this cluster would not find it: if it is the right one, run openstack network set --description "samplecrd.k8s.io/owner=NEW/NEW-WEB" WEB
1 Network: 1 with an error`}}},
		{"a manifest that was copied with the annotation of its move", func(f *fixture) string {
			f.inNeutron("WEB", "default/web", neutron.Owner{Cluster: newCluster, UID: newWeb})
			f.inNeutron("DB", "default/db", neutron.Owner{Cluster: newCluster, UID: newDB})
			for _, name := range []string{"web", "db"} {
				f.network(name, annotated(samplecrdv1.AnnotationMovedFrom, oldCluster+"/"+string(oldWeb)))
			}
			return ""
		}, []call{{sure, 0, `
default/db: nothing to move: it has everything of OLD-WEB
default/web: nothing to move: it has everything of OLD-WEB
2 Networks: 2 with nothing to move`}}},
		{"a manifest that was copied with the annotation of its move, and the dump of its own network", func(f *fixture) string {
			f.inNeutron("SECOND", "default/web", neutron.Owner{Cluster: newCluster, UID: newWeb})
			f.old("WEB", "default/web", oldWeb)
			f.network("web", annotated(samplecrdv1.AnnotationMovedFrom, oldCluster+"/"+string(oldDB)))
			return "-old-is-stopped " + f.dump("web", oldWeb)
		}, []call{{"-yes", 1, `
default/web: error: take over: it has network SECOND already, and the old owner has network WEB: if nothing uses SECOND, delete this Network, and remove its annotation moving-from if it has that, so that the controller deletes SECOND; then create it again, paused; if nothing uses WEB, delete WEB in Neutron
1 Network: 1 with an error`}}},
		{"a manifest that was copied with the annotation of an interrupted move, and the dump of its own network", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", annotated(samplecrdv1.AnnotationMovingFrom, oldCluster+"/"+string(oldDB)))
			return "-old-is-stopped " + f.dump("web", oldWeb)
		}, []call{{"-yes", 1, `
default/web: error: its annotation samplecrd.k8s.io/moving-from names Network OLD/OLD-DB, and nothing else does: name that one by metadata.uid in -f too, or remove the annotation
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-WEB: network WEB "default/web" 10.0.0.0/24
1 Network: 1 with an error`}}},
		{"a Network that is being deleted after it was moved", func(f *fixture) string {
			f.inNeutron("WEB", "default/web", neutron.Owner{Cluster: newCluster, UID: newWeb})
			f.network("web", annotated(samplecrdv1.AnnotationMovedFrom, oldCluster+"/"+string(oldWeb)), beingDeleted)
			return ""
		}, []call{{sure, 0, `
default/web: nothing to move: it has everything of OLD-WEB
1 Network: 1 with nothing to move`}}},
		{"a dump with a network that is not in this cloud", func(f *fixture) string {
			f.old("STORE", "default/store", oldDB)
			f.network("web")
			return "-old-is-stopped " + f.dump("web", oldWeb, func(n *samplecrdv1.Network) { n.Status.NetworkID = "elsewhere" })
		}, []call{{"-yes", 1, `
default/web: error: in -f it has network elsewhere, and no network here has this ID and a mark of cluster OLD: do its credentials lead to the same project and region as in the old cluster? If that network is gone, remove its ID from -f
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-DB: network STORE "default/store" 10.0.0.0/24
1 Network: 1 with an error`}}},
		{"a dump, after everything was moved", func(f *fixture) string {
			id := f.inNeutron("WEB", "default/web", neutron.Owner{Cluster: newCluster, UID: newWeb})
			f.old("STORE", "default/store", oldDB)
			f.network("web")
			return "-old-is-stopped " + f.dump("web", oldWeb, func(n *samplecrdv1.Network) { n.Status.NetworkID = id })
		}, []call{{"-yes", 0, `
default/web: nothing to move: nothing of cluster OLD fits it
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-DB: network STORE "default/store" 10.0.0.0/24
1 Network: 1 with nothing to move`}}},
		{"an interrupted move of which only the end is left", func(f *fixture) string {
			f.inNeutron("WEB", "default/web", neutron.Owner{Cluster: newCluster, UID: newWeb})
			f.network("web", locked)
			return ""
		}, []call{
			{"-A", 2, `
default/web: 1 change to take over from OLD-WEB, found by an earlier move
  1. annotation samplecrd.k8s.io/moving-from removed
1 Network: 1 with changes`},
			{sure, 0, `
default/web: moved from OLD-WEB, found by an earlier move
  1. annotation samplecrd.k8s.io/moving-from removed
1 Network: 1 moved`},
			{sure, 0, `
default/web: nothing to move: it has everything of OLD-WEB
1 Network: 1 with nothing to move`},
		}},
		{"an interrupted move from a third cluster", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", locked, annotated(samplecrdv1.AnnotationMovingFrom, "third/"+string(oldWeb)))
			return ""
		}, []call{{sure, 1, `
default/web: error: an earlier move is not finished: finish it with -from-cluster-id=third, as the annotation samplecrd.k8s.io/moving-from says
None of these Networks takes over what cluster OLD has in cloud embedded:
  OLD-WEB: network WEB "default/web" 10.0.0.0/24
1 Network: 1 with an error`}}},
		{"Neutron refuses a change", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.atRequest(http.MethodPut, "/subnets/", forbidden)
			return ""
		}, []call{
			{sure, 1, `
default/web: error: not finished, run this again: update subnet: it is disallowed by policy
1 Network: 1 with an error`},
			{sure, 0, `
default/web: moved from OLD-WEB, found by an earlier move
  1. mark of subnet WEB-SUBNET replaced
  2. annotation samplecrd.k8s.io/moving-from removed
1 Network: 1 moved`},
		}},
		{"a network of another name with a router, and Neutron refuses a change", func(f *fixture) string {
			id := f.old("WEB", "renamed", oldWeb)
			router, err := routers.Create(f.Context(), f.others, routers.CreateOpts{Name: "default/web", Description: owner(oldWeb).Mark()}).Extract()
			f.must(err)
			f.words = append(f.words, router.ID, "ROUTER")
			f.network("web", func(n *samplecrdv1.Network) { n.Status.NetworkID = id })
			f.atRequest(http.MethodPut, "/routers/", forbidden)
			return ""
		}, []call{
			{sure, 1, `
default/web: error: not finished, run this again: update router: it is disallowed by policy
1 Network: 1 with an error`},
			{sure, 0, `
default/web: moved from OLD-WEB, found by an earlier move
  1. mark of router ROUTER replaced
  2. mark of subnet WEB-SUBNET replaced
  3. annotation samplecrd.k8s.io/moving-from removed
1 Network: 1 moved`},
		}},
		{"routers that the client may not list can have the mark", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.server.SetFault(func(r *http.Request) *embedded.Fault {
				if !strings.Contains(r.URL.Path, "/routers") || strings.HasPrefix(r.UserAgent(), "gophercloud") {
					return nil // state lists them
				}
				return forbidden()
			})
			return ""
		}, []call{{sure, 1, `
default/web: error: list routers: it is disallowed by policy
1 Network: 1 with an error`}}},
		{"somebody else changes a subnet in Neutron: it is read again", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.atRequest(http.MethodPut, "/subnets/", func() *embedded.Fault {
				f.must(subnets.Update(f.Context(), f.others, f.words[len(f.words)-2], subnets.UpdateOpts{Name: new("theirs")}).Err)
				return nil
			})
			return ""
		}, []call{moved}},
		{"a cloud without routers", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.server.SetFault(func(r *http.Request) *embedded.Fault {
				if !strings.Contains(r.URL.Path, "/routers") || strings.HasPrefix(r.UserAgent(), "gophercloud") {
					return nil // state lists them
				}
				return &embedded.Fault{Status: http.StatusNotFound}
			})
			return ""
		}, []call{dry, moved}},
		{"the cluster gets another ID", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", func(n *samplecrdv1.Network) { n.UID = oldWeb })
			return ""
		}, []call{{"-A", 2, strings.ReplaceAll(dry.want, "the name", "its UID")}, {sure, 0, strings.ReplaceAll(moved.want, "the name", "its UID")}}},
		{"somebody else writes the Network once", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.meddle("patch", 1, 1, func() { f.network("web", annotated("team", "a")) })
			return ""
		}, []call{moved}},
		{"somebody else writes the Network again and again", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.meddle("patch", 1, 100, func() { f.network("web", annotated("team", "a")) })
			return ""
		}, []call{{sure, 1, `
default/web: error: pause it: Operation cannot be fulfilled on networks.samplecrd.k8s.io "web": the object has been modified
1 Network: 1 with an error`}}},
		{"somebody else moves to the Network too", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.meddle("patch", 1, 1, func() { f.network("web", locked, annotated(samplecrdv1.AnnotationMovingFrom, "third/"+string(oldDB))) })
			return ""
		}, []call{{sure, 1, `
default/web: error: its annotation samplecrd.k8s.io/moving-from is of another move by now
1 Network: 1 with an error`}}},
		{"somebody else creates the Network again", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.meddle("patch", 1, 1, func() { f.network("web", func(n *samplecrdv1.Network) { n.UID = newDB }) })
			return ""
		}, []call{{sure, 1, `
default/web: error: pause it: it was deleted and created again meanwhile
1 Network: 1 with an error`}}},
		{"somebody else deletes the Network", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.meddle("patch", 1, 1, func() { f.network("web", beingDeleted) })
			return ""
		}, []call{{sure, 1, `
default/web: error: it is being deleted, and would delete what it takes over: if no controller works here, remove its finalizer samplecrd.k8s.io/neutron; then create it again
1 Network: 1 with an error`}}},
		{"somebody else removes the annotation", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web", locked)
			f.meddle("get", 2, 2, func() {
				f.network("web", annotated(), func(n *samplecrdv1.Network) { n.Finalizers = []string{samplecrdv1.Finalizer} })
			})
			return ""
		}, []call{{sure, 1, `
default/web: error: not finished, run this again: somebody has removed its finalizer or its annotation samplecrd.k8s.io/moving-from
1 Network: 1 with an error`}}},
		{"the old controller works still", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.meddle("patch", 2, 2, func() { f.old("WEB-AGAIN", "default/web", oldWeb) })
			return ""
		}, []call{{sure, 1, strings.Replace(moved.want, "1 Network:", `error: cluster OLD has in cloud embedded again what was moved: its controller still works, or a request of it has taken effect late:
  OLD-WEB: network WEB-AGAIN "default/web" 10.0.0.0/24
1 Network:`, 1)}}},
		{"a request of the old controller takes effect late", func(f *fixture) string {
			f.old("WEB", "default/web", oldWeb)
			f.network("web")
			f.network("late")
			f.meddle("patch", 2, 2, func() { f.old("LATE", "default/late", "OLD-LATE") })
			return ""
		}, []call{{sure, 1, `
default/late: nothing to move: nothing of cluster OLD fits it
default/web: moved from OLD-WEB, found by the name
  1. mark of network WEB replaced
  2. mark of subnet WEB-SUBNET replaced
error: cluster OLD has something new in cloud embedded that these Networks take over: check that its controller is stopped, and run this again:
  OLD-LATE: network LATE "default/late" 10.0.0.0/24
2 Networks: 1 moved, 1 with nothing to move`}, {sure, 0, `
default/late: moved from OLD-LATE, found by the name
  1. mark of network LATE replaced
  2. mark of subnet LATE-SUBNET replaced
default/web: nothing to move: it has everything of OLD-WEB
2 Networks: 1 moved, 1 with nothing to move`}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t)
			added := test.prepare(f)
			for _, c := range test.calls {
				before := f.state()
				out, code := f.run(strings.ReplaceAll(c.arguments, "$dir", f.dir) + " " + added)
				out = strings.ReplaceAll(out, "TOO and WEB", "WEB and TOO") // they are sorted by their IDs
				if diff := cmp.Diff(strings.TrimPrefix(c.want, "\n")+"\n", out); diff != "" || code != c.code {
					t.Errorf("move %s: exit code %d, want %d (-want +got)\n%s", c.arguments, code, c.code, diff)
				}
				isMove := strings.Contains(c.want, " 1 moved")
				if after := f.state(); (after != before) != isMove && !f.isMeddled {
					t.Errorf("move %s: something is written: %t, want %t (-before +after)\n%s", c.arguments, after != before, isMove, cmp.Diff(before, after))
				}
			}
		})
	}
}

// Without a condition for tags, the tags are read again before the old one goes: a third Network may have imported the network too.
func TestTheOldTagStaysIfAThirdNetworkImports(t *testing.T) {
	f := newFixture(t)
	third, old := neutron.Owner{Cluster: "third", UID: oldDB}, neutron.Owner{Cluster: oldCluster, UID: oldWeb}
	id := f.imported(old)
	f.network("web", importing(id))
	f.atRequest(http.MethodPut, "/tags/", func() *embedded.Fault {
		f.must(attributestags.Add(f.Context(), f.others, "networks", id, third.ImportTag()).ExtractErr())
		return nil
	})
	out, code := f.run("-A -old-is-stopped -yes")
	if want := "default/web: error: not finished, run this again: take over: a third Network imports network LEGACY too"; code != 1 || !strings.HasPrefix(out, want) {
		t.Errorf("exit code %d, and not %q:\n%s", code, want, out)
	}
	if kept, err := attributestags.Confirm(f.Context(), f.others, "networks", id, old.ImportTag()).Extract(); err != nil || !kept {
		t.Errorf("the old tag is gone: %v", err)
	}
}

// A cloud that does not answer takes a timeout once, and not for each of its Networks.
func TestACloudThatCannotBeListedIsAskedOnce(t *testing.T) {
	f := newFixture(t)
	f.old("WEB", "default/web", oldWeb)
	f.network("web")
	f.network("db")
	lists := 0
	f.server.SetFault(func(r *http.Request) *embedded.Fault {
		if !strings.HasSuffix(r.URL.Path, "/networks") {
			return nil
		}
		if lists++; lists != 2 { // the first is that of a cloud that is opened
			return nil
		}
		return &embedded.Fault{Status: http.StatusServiceUnavailable, Type: "Unavailable", Message: "it is down"}
	})
	out, code := f.run("-A -old-is-stopped -yes")
	if want := "2 Networks: 2 with an error\n"; code != 1 || !strings.HasSuffix(out, want) || !strings.Contains(out, "it is down") {
		t.Errorf("exit code %d, want 1, and %q:\n%s", code, want, out)
	}
}

// writerFunc is a standard output.
type writerFunc func(text string) error

func (w writerFunc) Write(text []byte) (int, error) { return len(text), w(string(text)) }

// Many Networks are moved at the same time, and what is printed is in their order. When somebody interrupts it, it ends soon.
func TestManyAreMovedAtATime(t *testing.T) {
	f := newFixture(t)
	var targets []Target
	for i := range 40 {
		uid := types.UID(fmt.Sprintf("44444444-0000-4000-8000-%012d", i))
		name := fmt.Sprintf("many-%02d", i)
		f.old(name, "default/"+name, uid)
		f.network(name, func(n *samplecrdv1.Network) { n.UID = types.UID("8" + string(uid[1:])) })
		n, err := f.client.SamplecrdV1().Networks("default").Get(t.Context(), name, metav1.GetOptions{})
		f.must(err)
		targets = append(targets, Target{Network: n})
	}
	config, err := neutron.ParseConfig("embedded", f.server.CloudsYAML("embedded"))
	f.must(err)
	client := neutron.NewClient(config, neutron.ClientOptions{Timeout: time.Minute})
	defer client.Close()
	cloud := neutron.NewCloud("embedded", client, newCluster, time.Hour)
	cloudOf := func(context.Context, *samplecrdv1.Network) (*neutron.Cloud, error) { return cloud, nil }
	clients := &kubeclient.Clients{ClusterID: newCluster, Host: "https://new", Kube: kubefake.NewClientset(), Networks: f.client}
	request := Request{From: oldCluster, OldIsStopped: true, Yes: true, Workers: 8}

	ctx, interrupt := context.WithCancel(t.Context())
	f.atRequest(http.MethodPut, "/networks/", func() *embedded.Fault { interrupt(); return nil })
	_, err = request.Move(ctx, clients, cloudOf, targets, io.Discard)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "run this again") {
		t.Errorf("interrupted: %v", err)
	}
	all, err := cloud.ListOwners(t.Context(), oldCluster)
	f.must(err)
	maps.DeleteFunc(all, func(owner neutron.Owner, _ *neutron.Observed) bool { return owner.Cluster != oldCluster })
	if least := len(targets) - request.Workers; len(all) < least {
		t.Errorf("interrupted at the first request, and only %d Networks are left, want at least %d", len(all), least)
	}
	_, err = request.Move(t.Context(), clients, cloudOf, targets, writerFunc(func(string) error { return io.ErrClosedPipe }))
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("its output has nobody who reads it: %v", err)
	}

	var printed []string
	code, err := request.Move(t.Context(), clients, cloudOf, targets, writerFunc(func(text string) error {
		if name, _, ok := strings.Cut(text, ": "); ok {
			printed = append(printed, name)
		}
		return nil
	}))
	f.must(err)
	if n := len(targets); code != exitNothing || len(printed) != n+1 || !slices.IsSorted(printed[:n]) || printed[n] != "40 Networks" {
		t.Errorf("exit code %d, and printed: %q", code, printed)
	}
}
