// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// hostile is the control plane of TestHostileTenants.
var hostile *plane

// TestHostileTenants shows that tenants cannot take the workers or the memory of the controller from others. Its controllers see the
// Networks of all namespaces.
func TestHostileTenants(t *testing.T) {
	t.Parallel()
	hostile = startAlone(t, "hostile-cluster")
	if err := hostile.applyCRD(crdOfToday); err != nil {
		t.Fatal(err)
	}
	t.Run("SlowCloudsLeaveWorkers", slowCloudsLeaveWorkers)
	t.Run("EndlessLists", endlessListsStayWithinTheMemory)
	t.Run("MissingSecrets", missingSecretsStayWithinTheMemory)
	t.Run("UnfinishedHeaders", unfinishedHeadersStayWithinTheMemory)
}

// cloudsPerNamespace is the default of -clouds-per-namespace.
const cloudsPerNamespace = 20

// applyClouds applies the Secret "clouds" with the entries cloud-0, cloud-1 and so on, which lead to the servers in turn.
func (w *world) applyClouds(servers ...*httptest.Server) {
	w.Helper()
	text := "clouds:\n"
	for i := range cloudsPerNamespace {
		_, entry, _ := strings.Cut(cloudsYAML(servers[i%len(servers)].URL, "team", passwordOf("team")), "clouds:\n")
		text += strings.Replace(entry, "mycloud", cloudName(i), 1)
	}
	w.applySecret("clouds", map[string]string{"clouds.yaml": text})
}

func cloudName(i int) string { return fmt.Sprintf("cloud-%d", i) }

// applyNetworks creates n Networks, each of which names the Secret and the cloud that credentials returns.
func (w *world) applyNetworks(n int, credentials func(i int) (secret, cloud string)) {
	w.Helper()
	for i := range n {
		secret, cloud := credentials(i)
		network := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("net-%d", i)}, Spec: samplecrdv1.NetworkSpec{
			SubnetSpec:          samplecrdv1.SubnetSpec{CIDR: "10.1.0.0/16", Gateway: "10.1.0.1"},
			CloudCredentialsRef: &samplecrdv1.CloudCredentialsReference{SecretName: secret, CloudName: cloud},
		}}
		_, err := w.client.SamplecrdV1().Networks(w.namespace).Create(w.Context(), network, metav1.CreateOptions{})
		w.noError(err)
	}
}

// newAttacker creates a namespace whose Networks are removed at the end, after the controllers that are started from now on.
func newAttacker(t *testing.T) *world {
	t.Helper()
	w := newWorldWithoutNeutron(t)
	t.Cleanup(func() {
		ctx, networks := context.WithoutCancel(t.Context()), w.client.SamplecrdV1().Networks(w.namespace)
		list, err := networks.List(ctx, metav1.ListOptions{})
		w.noError(err)
		for _, n := range list.Items {
			if len(n.Finalizers) == 0 {
				continue
			}
			_, err := networks.Patch(ctx, n.Name, types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`), metav1.PatchOptions{})
			w.noError(err)
		}
		w.noError(networks.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	})
	return w
}

// newCloud returns a cloud with the project of applyClouds.
func newCloud(t *testing.T) http.Handler {
	cloud := embedded.New(embedded.Options{Projects: projectsOf([]string{"team"})})
	t.Cleanup(func() { _ = cloud.Close() })
	return cloud
}

// dripping is a cloud that logs everyone in, and answers the lists that no worker waits for. All its other answers arrive byte by
// byte and have no end.
type dripping struct {
	cloud http.Handler
	// held is the number of answers that have begun, each of which holds a worker.
	held atomic.Int32
	stop chan struct{}
}

func (d *dripping) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if !strings.Contains(r.URL.Path, "/v2.0/") || query.Has("project_id") && !query.Has("description") {
		d.cloud.ServeHTTP(rw, r)
		return
	}
	d.held.Add(1)
	defer d.held.Add(-1)
	rw.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPost {
		rw.WriteHeader(http.StatusCreated)
	}
	drops := time.NewTicker(100 * time.Millisecond)
	defer drops.Stop()
	for {
		fmt.Fprint(rw, " ")
		rw.(http.Flusher).Flush()
		select {
		case <-drops.C:
		case <-r.Context().Done():
			return
		case <-d.stop:
			return
		}
	}
}

// starved is far from the usual time of an edit, which is less than a second, and from that of an edit that waits for a worker of a
// cloud that drips, which is half a minute or more.
const starved = 20 * time.Second

func slowCloudsLeaveWorkers(t *testing.T) {
	attackers := []*world{newAttacker(t), newAttacker(t)}
	slow := &dripping{cloud: newCloud(t), stop: make(chan struct{})}
	server := httptest.NewServer(slow)
	t.Cleanup(server.Close)
	w := newWorldOf(t, "team")
	w.start("-namespace=")
	t.Cleanup(func() { close(slow.stop) }) // the controller waits for its workers at the end

	w.applySecret("creds", w.credentialsOf("team"))
	w.applyWith("net", "10.1.0.0/16", "10.1.0.1", "creds")
	subnet := w.waitReady("net").Status.SubnetID
	for _, attacker := range attackers {
		attacker.applyClouds(server)
		attacker.applyNetworks(2*cloudsPerNamespace, func(i int) (string, string) { return "clouds", cloudName(i % cloudsPerNamespace) })
	}
	w.eventually(func() error {
		// With 32 workers, the clouds of Secrets have 18, of which two such namespaces leave 2 to 4.
		if held := slow.held.Load(); held < 14 {
			return fmt.Errorf("the attackers hold %d workers", held)
		}
		return nil
	})
	// After half a minute, the answers time out, and the next Networks of the attackers have their turns.
	var times []time.Duration
	edits := time.NewTicker(3 * time.Second)
	defer edits.Stop()
	for i := range 12 {
		gateway, began := fmt.Sprintf("10.1.1.%d", i+1), time.Now()
		w.patch("net", fmt.Sprintf(`{"spec": {"gateway": %q}}`, gateway))
		w.eventually(func() error {
			if got := w.asItIs("subnets", subnet)["subnet"].(map[string]any)["gateway_ip"]; got != gateway {
				return fmt.Errorf("the gateway in Neutron is %s, want %s", got, gateway)
			}
			return nil
		})
		times = append(times, time.Since(began))
		t.Logf("edit %d took %s; the attackers hold %d workers", i+1, times[i].Round(time.Millisecond), slow.held.Load())
		<-edits.C
	}
	slices.Sort(times)
	t.Logf("median %s, maximum %s", times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
	if second := times[len(times)-2]; second > starved { // once, the whole computer can have waited
		t.Errorf("two edits of another tenant took %s or more", second)
	}
}
