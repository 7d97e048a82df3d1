// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/subnetpools"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// The Networks of the namespace team: two with routers of their own, of which the first one has all that a network and a router can have
// beside it, one whose range Neutron chooses, one in another project, and an import.
const (
	team   = "apiVersion: samplecrd.k8s.io/v1\nkind: Network\nmetadata: {namespace: team, name: "
	office = team + "office}\nspec:\n  cidr: 10.1.0.0/24\n  additionalSubnets: [{name: more, cidr: 10.1.1.0/24}]\n" +
		"  tags: [prod]\n  availabilityZoneHints: [nova]\n  sharedWith: [{projectID: %s}]\n" +
		"  router: {externalNetwork: {name: public}, availabilityZoneHints: [nova], routes: [{destination: 10.99.0.0/16, nextHop: 10.1.0.10}]}\n"
	lab      = team + "lab}\nspec:\n  cidr: 10.2.0.0/24\n" + viaPublic
	pooled   = team + "pooled}\nspec:\n  subnetPool: {name: team-pool, prefixLength: 24}\n"
	theirs   = team + "theirs}\nspec:\n  cidr: 10.5.0.0/24\n  cloudCredentialsRef: {secretName: theirs, cloudName: " + realneutron.OtherCloud + "}\n"
	imported = team + "legacy}\nspec:\n  cidr: 10.7.0.0/24\n  dnsNameservers: [192.0.2.53]\n  import: {networkID: %s}\n"
	// notPaused is the Network lab in the new cluster, whose administrator has forgotten the pause. Neutron refuses its network.
	notPaused = team + "lab}\nspec: {cidr: 10.2.0.0/24, mtu: 60000}\n"
	// deployed is that of the Deployment web, as an administrator writes it.
	deployed = team + "web, labels: {samplecrd.k8s.io/deployment: web}}\nspec: {cidr: 10.9.0.0/24}\n"
)

var theirNames = []string{"office", "lab", "pooled", "theirs", "legacy"}

// networksMove does what artifacts/deploy/recovery.md says, with its commands: it moves the Networks from the cluster east to the cluster
// west, which then gets another ID and is lost. So they move back.
func networksMove(w *world) {
	_, err := subnetpools.Create(w.Context(), w.neutron.Client, subnetpools.CreateOpts{Name: "team-pool", Prefixes: []string{"10.8.0.0/16"}}).Extract()
	w.must(err)
	project, err := w.connectAs(realneutron.OtherCloud).GetAuthResult().(tokens.CreateResult).ExtractProject()
	w.must(err)
	manifests := strings.Join([]string{fmt.Sprintf(office, project.ID), lab, pooled, theirs, fmt.Sprintf(imported, w.legacy().network)}, "---\n")
	w.must(os.MkdirAll(filepath.Join(w.dir, "networks"), 0o700))
	w.file("networks.yaml", manifests)
	w.file("networks/team.yaml", manifests)

	east, west, commands := w.cluster("east"), w.cluster("west"), w.readPage()
	running := east.start(retryQuickly)
	east.applyText(manifests)
	for _, name := range theirNames {
		east.waitReady(name)
	}
	port := w.port(east.get("office").Status.NetworkID, "vm")
	before := east.facts()
	hasMoved := func(m *migration) {
		w.Helper()
		for _, name := range theirNames {
			m.new.waitReady(name)
		}
		if diff := gocmp.Diff(before, m.new.facts()); diff != "" {
			w.Errorf("something has changed (-before +after):\n%s", diff)
		}
		if diff := gocmp.Diff(m.moved, m.new.inNeutron()); diff != "" {
			w.Errorf("the new controller has changed something (-moved +after):\n%s", diff)
		}
	}

	m := w.migration(commands, east, west)
	running = m.bothAreThere(running)
	hasMoved(m)
	m = w.migration(commands, west, west)
	running = m.anotherID(running)
	hasMoved(m)
	west.deploy("web", "10.9.0.0/24", "")
	west.waitInForce("web", "10.9.0.0/24", "10.9.0.1")
	before = west.facts()
	m = w.migration(commands, west, east)
	m.oldIsGone(running)
	hasMoved(m)
	for command, isTried := range commands {
		if !isTried {
			w.Errorf("the page has a command that was not tried: %s", command)
		}
	}

	// The last owner can delete everything: all marks are its own.
	w.removePort(port)
	east.annotateDeployment("web", cidrAnnotation+"-")
	east.waitGone("web")
	for _, name := range theirNames {
		east.delete(name)
	}
	maps.DeleteFunc(before, func(key string, _ any) bool { return !strings.HasPrefix(key, "team-net: ") })
	if diff := gocmp.Diff(before, east.facts()); diff != "" {
		w.Errorf("want only the imported network to be left (-want +left):\n%s", diff)
	}
}

// connectAs returns a client for that entry of clouds.yaml.
func (w *world) connectAs(cloud string) *gophercloud.ServiceClient {
	w.Helper()
	text, err := os.ReadFile(w.neutron.CloudsYAML)
	w.must(err)
	return w.connectTo(cloud, text)
}

// cluster starts a control plane with the namespace team, and with the Secret of the Networks in the other project.
func (w *world) cluster(name string) *world {
	w.Helper()
	test, _, _ := strings.Cut(w.Name(), "/")
	c := *w
	c.plane = startAlone(w.T, strings.ToLower(test)+"-"+name+"-cluster")
	w.must(c.applyCRD(crdOfToday))
	c.namespace, c.reach = "team", "-kubeconfig="+c.controlPlane.Kubeconfig()
	c.kubectl("create", "namespace", c.namespace)
	c.kubectl("create", "secret", "generic", "theirs", "--from-file=clouds.yaml="+w.neutron.CloudsYAML)
	w.Cleanup(c.showIfFailed)
	return &c
}

// facts are what the Networks say that they have, and all that Neutron has for them except the marks, by the names.
func (w *world) facts() map[string]any {
	w.Helper()
	facts := w.inNeutron()
	for _, has := range facts {
		object := has.(map[string]any)
		delete(object, "updated_at")
		delete(object, "revision_number")
		object["description"] = anyMark.ReplaceAllString(fmt.Sprint(object["description"]), "")
		if tags, ok := object["tags"].([]any); ok {
			object["tags"] = slices.DeleteFunc(tags, func(tag any) bool { return strings.HasPrefix(tag.(string), "samplecrd-owner-") })
		}
	}
	for name, network := range w.list() {
		s := network.Status
		facts["status of "+name] = samplecrdv1.NetworkStatus{NetworkID: s.NetworkID, ProjectID: s.ProjectID, Subnets: s.Subnets, Router: s.Router, SharedWith: s.SharedWith}
	}
	return facts
}

var anyMark = regexp.MustCompile(regexp.QuoteMeta("samplecrd.k8s.io/owner=") + `\S+`)

// inNeutron is all that Neutron has for the Networks, by the names and IDs: networks, routers, subnets, ports and RBAC policies.
func (w *world) inNeutron() map[string]any {
	w.Helper()
	admin, names, found := w.connectAs(realneutron.AdminCloud), map[string]string{}, map[string]any{}
	for _, kind := range []struct{ collection, path, of string }{
		{"networks", "networks", "id"},
		{"routers", "routers", "id"},
		{"subnets", "subnets", "network_id"},
		{"ports", "ports", "network_id"},
		{"rbac_policies", "rbac-policies", "object_id"},
	} {
		var all map[string][]map[string]any
		_, err := admin.Get(w.Context(), admin.ServiceURL(kind.path), &all, nil)
		w.must(err)
		for _, object := range all[kind.collection] {
			id := object["id"].(string)
			if name, _ := object["name"].(string); kind.of == "id" && (strings.HasPrefix(name, "team/") || name == "team-net") {
				names[id] = name // the others are of another test
			}
			if name := names[object[kind.of].(string)]; name != "" {
				found[name+": "+kind.collection+" "+id] = inOrder(object)
			}
		}
	}
	return found
}

// inOrder sorts the lists of words of an object. Neutron does not always list them in the same order.
func inOrder(object map[string]any) map[string]any {
	for _, value := range object {
		if list, ok := value.([]any); ok {
			slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	return object
}

// commands are those of the page, and whether they were tried.
type commands map[string]bool

// notTried are names of commands, what startAlone does, and what needs a Deployment of the controller.
var notTried = []string{"samplecrd-controller move", "kubectl apply", "kubectl apply -f artifacts/crd", "kubectl -n samplecrd-system scale "}

var commandOnPage = regexp.MustCompile("(?s)```sh\n(.*?)```|`((?:kubectl|samplecrd-controller) [^`]+)`")

func (w *world) readPage() commands {
	w.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "artifacts", "deploy", "recovery.md"))
	w.must(err)
	c := commands{}
	for _, found := range commandOnPage.FindAllStringSubmatch(string(text), -1) {
		command := strings.TrimSpace(cmp.Or(found[1], found[2]))
		c[command] = slices.ContainsFunc(notTried, func(p string) bool { return command == p || strings.HasSuffix(p, " ") && strings.HasPrefix(command, p) })
	}
	return c
}

// migration is an administrator who moves the Networks of one cluster to another one.
type migration struct {
	*world
	commands commands
	old, new *world
	oldID    string
	bin      string
	// moved is what Neutron had after the move, before the new controller worked on it.
	moved map[string]any
}

// migration makes both clusters known to kubectl, as the contexts old and new.
func (w *world) migration(c commands, from, to *world) *migration {
	w.Helper()
	m := &migration{world: w, commands: c, old: from, new: to, bin: w.TempDir()}
	w.must(os.Symlink(binary, filepath.Join(m.bin, "samplecrd-controller")))
	kubectl, err := filepath.Abs(filepath.Join("..", "_output", "bin", "kubectl"))
	w.must(err)
	w.must(os.Symlink(kubectl, filepath.Join(m.bin, "kubectl")))
	both := clientcmdapi.NewConfig()
	for name, c := range map[string]*world{"old": from, "new": to} {
		config, err := clientcmd.LoadFromFile(c.controlPlane.Kubeconfig())
		w.must(err)
		context := config.Contexts[config.CurrentContext]
		both.Clusters[name], both.AuthInfos[name] = config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
		both.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	for _, name := range []string{"old", "new"} {
		both.CurrentContext = name
		w.must(clientcmd.WriteToFile(*both, filepath.Join(m.bin, name)))
	}
	m.oldID = m.does("old", 0, "kubectl get namespace kube-system")
	return m
}

// does runs the page's command with that beginning in the context, and returns its output. It fails unless the exit code is that one.
func (m *migration) does(context string, code int, beginning string, oldNew ...string) string {
	m.Helper()
	var matching []string
	for command := range m.commands {
		if command == beginning {
			matching = []string{command}
			break
		}
		if strings.HasPrefix(command, beginning) {
			matching = append(matching, command)
		}
	}
	if len(matching) != 1 {
		m.Fatalf("the page has %d commands that begin with %q", len(matching), beginning)
	}
	m.commands[matching[0]] = true
	command := strings.NewReplacer(append(oldNew, "OLD-ID", m.oldID, "NEW-ID", newID)...).Replace(matching[0])
	cmd := exec.CommandContext(m.Context(), "bash", "-e", "-o", "pipefail", "-c", command)
	cmd.Dir = m.dir
	cmd.Env = slices.Concat(m.neutron.Env(), []string{"PATH=" + m.bin + ":" + os.Getenv("PATH"), "KUBECONFIG=" + filepath.Join(m.bin, context),
		"KUBERC=off", "KUBECACHEDIR=" + filepath.Join(m.bin, "cache"), "GORACE=atexit_sleep_ms=0"})
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	m.Logf("$ %s\n%s%s(exit code %d)", command, out.String(), errs.String(), cmd.ProcessState.ExitCode())
	if cmd.ProcessState.ExitCode() != code {
		m.Fatalf("%v, want the exit code %d", err, code)
	}
	return out.String()
}

// newID is the ID that west gets later.
const newID = "west-2"

// The commands that are run more than once.
const (
	shows = "samplecrd-controller move -from-cluster-id OLD-ID -A"
	moves = "samplecrd-controller move -from-cluster-id OLD-ID -A -old-is-stopped -yes"
	pipes = "kubectl --context old -n team get networks.samplecrd.k8s.io -o yaml |"
)

// waitHandled waits until the controller has handled what the Networks' annotations request. A status that is older says nothing.
func (w *world) waitHandled(names ...string) {
	w.Helper()
	for _, name := range names {
		w.eventually(func() error {
			n := w.get(name)
			if requested := n.Annotations[samplecrdv1.AnnotationReconcileRequestedAt]; requested == "" || n.Status.LastHandledReconcileAt != requested {
				return fmt.Errorf("%s has not handled %q", name, requested)
			}
			return nil
		})
	}
}

func (m *migration) bothAreThere(oldController *stack.Controller) (newController *stack.Controller) {
	newController = m.new.start(retryQuickly)
	m.new.applyText(notPaused)
	m.new.waitNotReady("lab", samplecrdv1.ReasonInvalidSpec)
	m.does("new", 0, "kubectl annotate --local -f networks.yaml")
	for name, reason := range map[string]string{"office": samplecrdv1.ReasonPaused, "lab": samplecrdv1.ReasonPaused, "pooled": samplecrdv1.ReasonPaused, "theirs": samplecrdv1.ReasonPaused, "legacy": samplecrdv1.ReasonImportRefused} {
		m.new.waitNotReady(name, reason)
	}
	m.contains(m.does("new", 1, pipes), "team/office: error: a controller of cluster "+m.oldID+" may work on it: ")
	m.does("new", 0, "kubectl --context old -n team annotate")
	m.old.waitHandled(theirNames...)
	m.contains(m.does("new", 1, pipes), "team/lab: error: the controller of this cluster may be creating a network for it: ")
	m.new.kubectl("annotate", "network", "lab", samplecrdv1.AnnotationPaused+"=true", samplecrdv1.AnnotationReconcileRequestedAt+"=move-1")
	m.new.waitHandled("lab")
	m.does("new", 0, pipes)
	m.moved = m.inNeutron()
	m.does("new", 0, "kubectl --context new -n team annotate")
	m.new.waitForEvent("office", samplecrdv1.EventAdopted, "")
	m.does("new", 0, "kubectl --context old -n team delete")
	for _, name := range theirNames {
		m.old.waitGone(name)
	}
	m.must(oldController.Stop())
	return newController
}

func (m *migration) anotherID(controller *stack.Controller) *stack.Controller {
	m.must(controller.Stop())
	m.does("new", 0, "samplecrd-controller move -from-cluster-id OLD-ID -cluster-id NEW-ID")
	m.moved = m.inNeutron()
	controller = m.new.start("-cluster-id="+newID, retryQuickly)
	m.new.waitHandled(theirNames...)
	return controller
}

// withoutOwned returns the dump without the Networks of Deployments.
func (m *migration) withoutOwned(dump string) string {
	m.Helper()
	var list samplecrdv1.NetworkList
	m.must(yaml.Unmarshal([]byte(dump), &list))
	all := len(list.Items)
	list.Items = slices.DeleteFunc(list.Items, func(n samplecrdv1.Network) bool { return len(n.OwnerReferences) > 0 })
	if len(list.Items) != all-1 {
		m.Fatalf("want one Network of a Deployment:\n%s", dump)
	}
	text, err := yaml.Marshal(list)
	m.must(err)
	return string(text)
}

func (m *migration) oldIsGone(oldController *stack.Controller) {
	m.oldID = newID
	m.file("dump.yaml", m.withoutOwned(m.does("old", 0, "kubectl get networks.samplecrd.k8s.io -A")))
	restored := m.old.get("office")
	m.must(oldController.Stop())
	m.must(m.old.controlPlane.Stop())

	m.does("new", 0, "kubectl annotate --local -f dump.yaml")
	withStatus := m.new.get("office")
	withStatus.Status = restored.Status
	_, err := m.new.client.SamplecrdV1().Networks(m.new.namespace).UpdateStatus(m.Context(), withStatus, metav1.UpdateOptions{})
	m.must(err)
	m.startsTooEarly()
	m.does("new", 0, "kubectl apply -f networks/")
	m.new.applyText(deployed)

	here, there := m.new.list(), m.asItIs("networks", restored.Status.NetworkID)
	m.contains(m.does("new", 2, shows), "team/office: 4 changes to take over from "+string(restored.UID)+", found by status.networkID")
	m.contains(m.does("new", 2, shows, "-A", "-f dump.yaml"), "found by metadata.uid in -f")
	if diff := gocmp.Diff(here, m.new.list()) + gocmp.Diff(there, m.asItIs("networks", restored.Status.NetworkID)); diff != "" {
		m.Errorf("without -yes, something has changed (-before +after):\n%s", diff)
	}
	m.does("new", 0, moves)
	m.moved = m.inNeutron()
	m.contains(m.does("new", 0, moves), "team/office: nothing to move", "team/lab: nothing to move", "team/pooled: nothing to move", "team/theirs: nothing to move", "team/legacy: nothing to move")
	m.does("new", 0, shows)
	m.contains(m.does("new", 2, "samplecrd-controller plan -A"), "team/office: nothing to do", "team/pooled: nothing to do", "team/theirs: nothing to do", "team/legacy: 1 change\n  1. network ")
	m.new.start(retryQuickly)
	m.new.waitHandled(theirNames...)
	m.new.waitForEvent("lab", samplecrdv1.EventAdopted, "")
	m.new.waitForEvent("legacy", samplecrdv1.EventImported, "")
	web := m.new.deploy("web", "10.9.0.0/24", "")
	m.eventually(func() error {
		if n := m.new.get("web"); !metav1.IsControlledBy(n, web) {
			return fmt.Errorf("the Deployment has not adopted its Network: %v", n.OwnerReferences)
		}
		return nil
	})
}

// startsTooEarly starts the new controller before the Networks are moved.
func (m *migration) startsTooEarly() {
	early := m.new.start(retryQuickly)
	m.new.waitNotReady("office", samplecrdv1.ReasonOtherOwner)
	m.new.waitNotReady("legacy", samplecrdv1.ReasonImportRefused)
	var created []string
	for _, name := range []string{"lab", "pooled", "theirs"} {
		created = append(created, "it has network "+m.new.waitReady(name).Status.NetworkID+" already")
	}
	m.contains(m.does("new", 1, shows), created...)
	m.does("new", 0, "kubectl -n team delete networks.samplecrd.k8s.io NAME", "NAME", "lab pooled theirs")
	m.must(early.Stop())
	m.contains(m.does("new", 2, shows), "None of these Networks takes over what", `"team/lab"`, `"team/pooled"`)
}
