// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

var attackFor = flag.Duration("attack", 10*time.Second, "how long each attack on the controller's memory takes")

// underAttack starts a controller as the Deployment does, and the attack. Meanwhile the controller must serve probes, and the Networks
// of others, in its own cloud and in that of a Secret. At the end it must have taken less memory than the Deployment's limit.
func underAttack(t *testing.T, attack func(*site, *stack.Controller)) {
	w := newWorldOf(t, "team")
	var err error
	w.binary, err = stack.BuildController(t.Context()) // the race detector takes memory
	w.must(err)
	container := find[appsv1.Deployment](w, w.built(w.kustomization(clusterWide)), "Deployment")[0].Spec.Template.Spec.Containers[0]
	env := []string{"KUBE_CACHE_MUTATION_DETECTOR=false"}
	for _, variable := range container.Env { // GOMEMLIMIT
		env = append(env, variable.Name+"="+variable.Value)
	}
	c := w.launchIn(append(w.neutron.Env(), env...), "-namespace= -v=0", serve)
	s := w.siteOf(c)
	w.waitForLog(c, "Starting workers")
	w.applySecret("creds", w.credentialsOf("team"))
	attack(s, c)

	rounds := time.NewTicker(time.Second)
	defer rounds.Stop()
	var slowest time.Duration
	n := 0
	for began := time.Now(); n == 0 || time.Since(began) < *attackFor; n++ {
		round := time.Now()
		own, theirs := fmt.Sprintf("own-%d", n), fmt.Sprintf("theirs-%d", n)
		w.apply(own, "10.1.0.0/16", "10.1.0.1")
		w.applyWith(theirs, "10.1.0.0/16", "10.1.0.1", "creds")
		w.waitReady(own)
		w.waitReady(theirs)
		s.ask("GET", "/healthz", "", http.StatusOK)
		s.ask("GET", "/readyz", "", http.StatusOK)
		slowest = max(slowest, time.Since(round))
		<-rounds.C
	}
	limit := container.Resources.Limits[corev1.ResourceMemory]
	peak := w.peak(c)
	t.Logf("%s: at most %d MiB of %s; two new Networks of others and two probes took at most %s, %d times",
		*attackFor, peak>>20, limit.String(), slowest.Round(time.Millisecond), n)
	if peak >= limit.Value() {
		t.Errorf("the controller has taken %d MiB, the Deployment's limit is %s", peak>>20, limit.String())
	}
}

// peak returns the most memory that the controller has had resident, in bytes.
func (w *world) peak(c *stack.Controller) (bytes int64) {
	w.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Pid()))
	w.must(err)
	_, value, _ := strings.Cut(string(status), "VmHWM:")
	_, err = fmt.Sscan(value, &bytes)
	w.must(err)
	return bytes << 10
}

// crowded is a cloud whose lists have as much as the controller keeps of them, among many items of strangers.
type crowded struct {
	http.Handler
	cluster string
	// endless lists have another page of strangers after each.
	endless bool
}

// strangers has 1 MiB of a list.
var strangers = sync.OnceValue(func() string {
	one := `{"id": "stranger", "name": "` + strings.Repeat("x", 100) + `"},`
	return strings.Repeat(one, 1<<20/len(one))
})

// kept is how many items are kept of a list of a Secret's cloud, and listed how many of them a page has.
const kept, listed = 5000, 1000

func (c *crowded) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	collection := path.Base(r.URL.Path)
	if r.Method != http.MethodGet || collection != "networks" && collection != "subnets" {
		c.Handler.ServeHTTP(rw, r)
		return
	}
	page := 0
	if _, err := fmt.Sscanf(r.URL.Query().Get("marker"), "%d-last", &page); err == nil {
		page++
	}
	rw.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(rw, `{%q: [`, collection)
	for i := page * listed; i < min(kept, (page+1)*listed); i++ {
		id := fmt.Sprintf("%08d-0000-0000-0000-000000000000", i)
		fmt.Fprintf(rw, `{"id": %q, "network_id": %[1]q, "name": %q, "description": "samplecrd.k8s.io/owner=%s/%[1]s", "subnets": ["x"], "cidr": "10.1.0.0/16", "revision_number": 1},`,
			id, strings.Repeat("x", 80), c.cluster)
	}
	_, _ = io.WriteString(rw, strangers()) // an error means that the controller has stopped
	fmt.Fprintf(rw, `{"id": "%d-last"}]`, page)
	if c.endless || page < kept/listed-1 {
		fmt.Fprintf(rw, `, "%s_links": [{"rel": "next", "href": "x"}]`, collection)
	}
	fmt.Fprint(rw, `}`)
}

// One namespace has as many clouds as it may. One half of them keeps as much as it may, and the lists of the other half have no end.
func endlessListsStayWithinTheMemory(t *testing.T) {
	attacker := newAttacker(t)
	system, err := attacker.kube.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	attacker.must(err)
	cloud := newCloud(t)
	var servers []*httptest.Server
	for _, endless := range []bool{false, true} {
		server := httptest.NewServer(&crowded{cloud, string(system.UID), endless})
		t.Cleanup(server.Close)
		servers = append(servers, server)
	}
	underAttack(t, func(*site, *stack.Controller) {
		attacker.applyClouds(servers...)
		attacker.applyNetworks(cloudsPerNamespace, func(i int) (string, string) { return "clouds", cloudName(i) })
		for i := 0; i < cloudsPerNamespace; i += len(servers) {
			attacker.waitReady(fmt.Sprintf("net-%d", i)) // the cloud has been listed
		}
	})
}

// Each of 20 namespaces has 100 Networks with as many Secrets, of which it may use 20. All the time, Networks are deleted, so that
// others get their places, and are created again.
func missingSecretsStayWithinTheMemory(t *testing.T) {
	var attackers []*world
	for range 20 {
		attackers = append(attackers, newAttacker(t))
	}
	underAttack(t, func(s *site, _ *stack.Controller) {
		var creating, churning sync.WaitGroup
		for _, attacker := range attackers {
			creating.Go(func() {
				attacker.applyNetworks(100, func(i int) (string, string) { return fmt.Sprintf("missing-%d", i), "mycloud" })
			})
		}
		creating.Wait()
		for _, attacker := range attackers {
			attacker.eventually(func() error {
				for name, network := range attacker.list() {
					if reason := condition(&network, samplecrdv1.ConditionReady).Reason; reason != samplecrdv1.ReasonNoCredentials {
						return fmt.Errorf("Network %s has the reason %q", name, reason)
					}
				}
				return nil
			})
		}
		t.Cleanup(churning.Wait)
		churning.Go(func() {
			for i := 0; t.Context().Err() == nil; i++ {
				attacker := attackers[i%len(attackers)]
				networks, name := attacker.client.SamplecrdV1().Networks(attacker.namespace), fmt.Sprintf("net-%d", i/len(attackers)%100)
				network, err := networks.Get(t.Context(), name, metav1.GetOptions{})
				if err == nil {
					err = networks.Delete(t.Context(), name, metav1.DeleteOptions{})
				}
				if err == nil {
					network.ResourceVersion = ""
					_, err = networks.Create(t.Context(), network, metav1.CreateOptions{})
				}
				if t.Context().Err() == nil {
					s.noError(err)
				}
			}
		})
	})
}

// Each of 100 addresses opens 50 connections, which send a header without an end. One that is closed is opened again.
func unfinishedHeadersStayWithinTheMemory(t *testing.T) {
	underAttack(t, func(s *site, c *stack.Controller) {
		var dialing sync.WaitGroup
		t.Cleanup(dialing.Wait)
		for i := range 100 {
			dialing.Go(func() { s.sendHeadersWithoutEnd(net.IPv4(127, 0, 1, byte(i+1)), 50) })
		}
		s.eventually(func() error {
			if n := s.openFiles(c); n < 512 {
				return fmt.Errorf("the controller has %d open files", n)
			}
			return nil
		})
	})
}

// sendHeadersWithoutEnd keeps n connections from that address open until the test ends.
func (s *site) sendHeadersWithoutEnd(from net.IP, n int) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	header := []byte("GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 15<<10))
	var open []net.Conn
	closeUnless := func(keep func(net.Conn) bool) {
		open = slices.DeleteFunc(open, func(c net.Conn) bool { return !keep(c) && c.Close() == nil })
	}
	defer closeUnless(func(net.Conn) bool { return false })
	rounds := time.NewTicker(time.Second)
	defer rounds.Stop()
	for s.Context().Err() == nil {
		closeUnless(func(c net.Conn) bool {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, err := c.Read(make([]byte, 1))
			return errors.Is(err, os.ErrDeadlineExceeded)
		})
		for len(open) < n {
			c, err := dialer.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
			if err != nil {
				break
			}
			_, _ = c.Write(header) // it fails if the controller has closed the connection
			open = append(open, c)
		}
		select {
		case <-rounds.C:
		case <-s.Context().Done():
		}
	}
}

// openFiles returns how many files and connections the controller has open.
func (w *world) openFiles(c *stack.Controller) int {
	w.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.Pid()))
	w.must(err)
	return len(files)
}
