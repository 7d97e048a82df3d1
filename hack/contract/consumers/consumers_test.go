// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package consumers_test tries the manifests of artifacts/use/README.md: those who read them must accept them, and the real
// Neutron must find what they look for.
package consumers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/samplecrd/samplecrd-controller/hack/internal/crd"
	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
	"github.com/samplecrd/samplecrd-controller/hack/neutron/realneutron"
	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// module is a released version of a consumer, and the checksum of its files.
type module struct{ version, sum string }

var (
	clusterAPI = module{"sigs.k8s.io/cluster-api-provider-openstack@v0.13.0", "h1:iZN/qJhDZas74Mo/zM1tz038niv68e1g5wYCQJ5yczo="}
	orc        = module{"github.com/k-orc/openstack-resource-controller/v2@v2.3.0", "h1:jLI/GH/yzqy6MVzu54dMcimzFmpprBiWBrfHEc9eots="}
	cloud      = module{"k8s.io/cloud-provider-openstack@v1.33.0", "h1:BNXCEAfFB8Fe3u6DTCGk5TwiUnNSsbk0AhfsTeC9b9s="}
	terraform  = module{"github.com/terraform-provider-openstack/terraform-provider-openstack/v3@v3.4.0", "h1:Ap8gvameIY5ZM7CMh7fngP/VoIyeupzKX3izoyfp9yg="}
	gardener   = module{"github.com/gardener/gardener-extension-provider-openstack@v1.46.0", "h1:cpAkV2O59wLseRoW7YpcWiGxJdt369wYzUB3lel2IEI="}
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// file returns the path of a file of the module, which it fetches first. It skips the test if it cannot: not every proxy for Go
// modules has every consumer.
func (m module) file(t *testing.T, path ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", m.version)
	cmd.Dir = t.TempDir() // outside of our own module, whose packages do not depend on it
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GONOSUMDB="+strings.Split(m.version, "@")[0])
	out, err := cmd.Output()
	var answer struct{ Dir, Sum, Error string }
	if json.Unmarshal(out, &answer) != nil || answer.Error != "" || err != nil {
		t.Skipf("fetch %s: %v: %s", m.version, err, answer.Error)
	}
	if answer.Sum != m.sum {
		t.Fatalf("%s: checksum %s, want %s", m.version, answer.Sum, m.sum)
	}
	return filepath.Join(append([]string{answer.Dir}, path...)...)
}

// contains fails unless the file of the module has text that matches.
func (m module) contains(t *testing.T, pattern string, path ...string) {
	t.Helper()
	text, err := os.ReadFile(m.file(t, path...))
	must(t, err)
	if !regexp.MustCompile(pattern).Match(text) {
		t.Errorf("%s: %s has nothing like %s", m.version, filepath.Join(path...), pattern)
	}
}

var fence = regexp.MustCompile("(?ms)^```(yaml|hcl)\n(.*?)^```$")

// page returns the manifests and the data sources of the page.
func page(t *testing.T) (manifests []*unstructured.Unstructured, hcl string) {
	t.Helper()
	for _, m := range fence.FindAllStringSubmatch(read(t, "artifacts", "use", "README.md"), -1) {
		if m[1] == "hcl" {
			hcl += m[2]
			continue
		}
		for text := range strings.SplitSeq(m[2], "\n---\n") {
			o := &unstructured.Unstructured{}
			must(t, yaml.UnmarshalStrict([]byte(text), &o.Object))
			manifests = append(manifests, o)
		}
	}
	return manifests, hcl
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	root, err := stack.Root()
	must(t, err)
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	must(t, err)
	return string(text)
}

// Each manifest is accepted by those who read it.
func TestManifestsAreAccepted(t *testing.T) {
	bases := []string{"config", "crd", "bases"}
	accepted := map[string]func(t *testing.T, o *unstructured.Unstructured){
		"OpenStackCluster": func(t *testing.T, o *unstructured.Unstructured) {
			t.Helper()
			validate(t, o, clusterAPI.file(t, append(bases, "infrastructure.cluster.x-k8s.io_openstackclusters.yaml")...))
		},
		"Service": func(t *testing.T, o *unstructured.Unstructured) {
			t.Helper()
			must(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &corev1.Service{}, true))
			for annotation := range o.GetAnnotations() {
				cloud.contains(t, `"`+annotation+`"`, "pkg", "openstack", "loadbalancer.go")
			}
		},
		"InfrastructureConfig": func(t *testing.T, o *unstructured.Unstructured) {
			t.Helper()
			for _, path := range [][]string{{"floatingPoolName"}, {"networks", "id"}, {"networks", "workers"}, {"networks", "router", "id"}} {
				if _, found, _ := unstructured.NestedString(o.Object, path...); !found {
					t.Errorf("the manifest has no %s", path)
				}
				gardener.contains(t, "`json:\""+path[len(path)-1]+"[\",]", "pkg", "apis", "openstack", "v1alpha1", "types_infrastructure.go")
			}
		},
	}
	for kind, plural := range map[string]string{"Network": "networks", "Subnet": "subnets", "Port": "ports"} {
		accepted[kind] = func(t *testing.T, o *unstructured.Unstructured) {
			t.Helper()
			validate(t, o, orc.file(t, append(bases, "openstack.k-orc.cloud_"+plural+".yaml")...))
		}
	}
	manifests, hcl := page(t)
	for _, o := range manifests {
		t.Run(o.GetKind(), func(t *testing.T) { accepted[o.GetKind()](t, o) })
	}
	if len(manifests) != len(accepted) {
		t.Errorf("%d manifests, want %d", len(manifests), len(accepted))
	}
	for _, source := range sourcesIn(hcl) {
		t.Run(source.kind, func(t *testing.T) {
			for argument := range source.arguments {
				terraform.contains(t, `"`+argument+`": {`, "openstack", "data_source_"+source.kind+".go")
			}
		})
	}
}

// validate validates a manifest as the API server does. Fields that the schema lacks are an error.
func validate(t *testing.T, o *unstructured.Unstructured, file string) {
	t.Helper()
	s, err := crd.Read(file)
	must(t, err)
	pruned := o.DeepCopy()
	if pruning.Prune(pruned.Object, s.Structural, true); !equality.Semantic.DeepEqual(pruned.Object, o.Object) {
		t.Errorf("the schema lacks a field of %v: it leaves %v", o.Object, pruned.Object)
	}
	broken, _ := s.Broken(t.Context(), o.Object, nil)
	if errs := append(validation.ValidateCustomResource(nil, o.Object, s.OpenAPI), broken...); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
}

// source is a data source of Terraform.
type source struct {
	kind      string
	arguments map[string]string
}

var (
	block    = regexp.MustCompile(`(?ms)^data "(\w+)" "\w+" \{\n(.*?)^\}`)
	argument = regexp.MustCompile(`(?m)^ *(\w+) *= *"?(.*?)"?$`)
)

func sourcesIn(hcl string) (all []source) {
	for _, b := range block.FindAllStringSubmatch(hcl, -1) {
		s := source{b[1], map[string]string{}}
		for _, a := range argument.FindAllStringSubmatch(b[2], -1) {
			s.arguments[a[1]] = a[2]
		}
		all = append(all, s)
	}
	return all
}

// ids are those of what the controller has created.
type ids struct{ network, subnet, router string }

// query is what a consumer asks Neutron for, and the ID that it must find.
type query struct {
	want string
	ask  func() ([]string, error)
}

// The real Neutron answers each of their queries with what the controller has created, and nothing else.
func TestQueriesFindTheNetwork(t *testing.T) {
	client, has := create(t)
	manifests, hcl := page(t)
	asked := 0
	find := func(what string, queries []query) {
		for _, q := range queries {
			asked++
			if got, err := q.ask(); err != nil || !slices.Equal(got, []string{q.want}) {
				t.Errorf("%s: found %s, want %s: %v", what, got, q.want, err)
			}
		}
	}
	for _, o := range manifests {
		find(o.GetKind(), queriesOf(t.Context(), client, o, has))
	}
	for _, s := range sourcesIn(hcl) {
		if cidr := s.arguments["cidr"]; cidr != "" {
			find(s.kind, []query{{has.subnet, inNetwork(t.Context(), client, has.network, cidr)}})
		} else {
			find(s.kind, []query{{has.network, named(t.Context(), client, s.arguments["name"])}})
		}
	}
	if asked != 9 {
		t.Errorf("%d queries, want 9", asked)
	}
}

// queriesOf returns the queries for what a manifest refers to. Those with an ID of an example ask for the created one.
func queriesOf(ctx context.Context, client *gophercloud.ServiceClient, o *unstructured.Unstructured, has ids) []query {
	filter := func(path ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, path...)
		return value
	}
	switch o.GetKind() {
	case "OpenStackCluster":
		list, _, _ := unstructured.NestedSlice(o.Object, "spec", "subnets")
		cidr, _, _ := unstructured.NestedString(list[0].(map[string]any), "filter", "cidr")
		return []query{
			{has.network, named(ctx, client, filter("spec", "network", "filter", "name"))},
			{has.subnet, inNetwork(ctx, client, has.network, cidr)},
		}
	case "Network":
		return []query{{has.network, named(ctx, client, filter("spec", "import", "filter", "name"))}}
	case "Subnet":
		return []query{{has.subnet, inNetwork(ctx, client, has.network, filter("spec", "import", "filter", "cidr"))}}
	case "Service":
		return []query{{has.subnet, func() ([]string, error) {
			s, err := subnets.Get(ctx, client, has.subnet).Extract()
			return []string{s.ID}, err
		}}}
	case "InfrastructureConfig":
		return []query{{has.network, func() ([]string, error) {
			n, err := networks.Get(ctx, client, has.network).Extract()
			return []string{n.ID}, err
		}}, {has.router, func() ([]string, error) {
			r, err := routers.Get(ctx, client, has.router).Extract()
			return []string{r.ID}, err
		}}}
	}
	return nil
}

// named returns the query for networks with that name.
func named(ctx context.Context, client *gophercloud.ServiceClient, name string) func() ([]string, error) {
	return func() (ids []string, err error) {
		pages, err := networks.List(client, networks.ListOpts{Name: name}).AllPages(ctx)
		if err != nil {
			return nil, err
		}
		found, err := networks.ExtractNetworks(pages)
		for _, n := range found {
			ids = append(ids, n.ID)
		}
		return ids, err
	}
}

// inNetwork returns the query for subnets of a network with that CIDR.
func inNetwork(ctx context.Context, client *gophercloud.ServiceClient, network, cidr string) func() ([]string, error) {
	return func() (ids []string, err error) {
		pages, err := subnets.List(client, subnets.ListOpts{NetworkID: network, CIDR: cidr}).AllPages(ctx)
		if err != nil {
			return nil, err
		}
		found, err := subnets.ExtractSubnets(pages)
		for _, s := range found {
			ids = append(ids, s.ID)
		}
		return ids, err
	}
}

// create lets the controller's own code create the network of the example in a real Neutron.
func create(t *testing.T) (*gophercloud.ServiceClient, ids) {
	t.Helper()
	root, err := stack.Root()
	must(t, err)
	real, err := realneutron.Up(t.Context(), filepath.Join(root, "hack", "_output", "neutron", "consumers"))
	if errors.Is(err, realneutron.ErrUnavailable) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() {
		if err := real.Purge(); err != nil {
			t.Error(err)
		}
	})
	cloudsYAML, err := os.ReadFile(real.CloudsYAML)
	must(t, err)
	client, err := stack.Connect(t.Context(), realneutron.Cloud, cloudsYAML)
	must(t, err)
	// Somebody else has networks too.
	for i := range 2 {
		_, err := networks.Create(t.Context(), client, networks.CreateOpts{Name: fmt.Sprint("routed-network-", i)}).Extract()
		must(t, err)
	}

	config, err := neutron.ParseConfig(realneutron.Cloud, cloudsYAML)
	must(t, err)
	n := &samplecrdv1.Network{}
	must(t, yaml.UnmarshalStrict([]byte(read(t, "artifacts", "examples", "example-routed-network.yaml")), n))
	n.Namespace, n.UID = "default", "00000000-0000-4000-8000-000000000001"
	n.Status.Router = &samplecrdv1.RouterStatus{} // the controller writes it before it creates a router
	const cluster = "00000000-0000-4000-8000-000000000000"
	at := neutron.NewCloud("local", neutron.NewClient(config, neutron.ClientOptions{Timeout: 10 * time.Minute}), cluster, time.Hour)
	identity := neutron.NewIdentity(n, cluster)
	desired, err := neutron.NewDesired(n, cluster)
	must(t, err)
	observed, err := at.Observe(t.Context(), identity, neutron.Live)
	must(t, err)
	view, _, err := at.Converge(t.Context(), neutron.View{Identity: identity, Desired: desired, Observed: observed}, neutron.Guard{})
	must(t, err)
	return client, ids{view.Observed.ID, view.Observed.Subnets[0].ID, view.Observed.Routers[0].ID}
}
