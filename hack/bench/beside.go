// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// besideOf returns the scenario in which a controller makes and deletes N networks.
func besideOf(p *peer) *scenario {
	return &scenario{name: besideName, controller: p.Name, n: 500, fresh: true, with: justKubernetes, named: true, observes: true, run: p.run}
}

// run measures the controller: first until the objects of n networks are ready, then until
// they are deleted.
func (p *peer) run(ctx context.Context, s *stand, n, _ int) (sample Sample, err error) {
	c, err := p.start(ctx, s)
	if err != nil {
		return sample, fmt.Errorf("%s: %w", p.Name, err)
	}
	defer func() { err = errors.Join(err, c.end()) }()
	if sample, err = p.measure(ctx, s, c, n); err != nil {
		return sample, fmt.Errorf("%s, whose log is %s: %w", p.Name, c.log.Name(), err)
	}
	return sample, nil
}

func (p *peer) measure(ctx context.Context, s *stand, c *running, n int) (sample Sample, err error) {
	ctx, cancel := c.whileRunning(ctx)
	defer cancel()
	o, err := s.observe(ctx, p, n)
	if err != nil {
		return sample, err
	}
	if err := rest(ctx, c.pid); err != nil {
		return sample, err
	}
	if sample, err = o.change(ctx, c, o.isReady, "post", o.create); err != nil {
		return sample, fmt.Errorf("create, until the condition %s is True: %w", p.Condition, err)
	}
	if err := s.checkSubnets(ctx, n); err != nil {
		return sample, err
	}
	deletion, err := o.change(ctx, c, nil, "delete", o.delete)
	if err != nil {
		return sample, fmt.Errorf("delete: %w", err)
	}
	sample.Deletion = &deletion
	return sample, s.checkSubnets(ctx, 0)
}

// start applies the manifests, and starts the controller.
func (p *peer) start(ctx context.Context, s *stand) (*running, error) {
	at, err := s.place()
	if err != nil {
		return nil, err
	}
	if err := p.apply(s, at); err != nil {
		return nil, err
	}
	command, err := p.command(at)
	if err != nil {
		return nil, err
	}
	env, err := p.env(at)
	if err != nil {
		return nil, err
	}
	// The stand measures the process of this executable.
	lab := *s.lab
	lab.controller = command[0]
	s.lab = &lab
	s.cloud.latency.Store(int64(s.latency))
	s.cloud.all.Store(true)
	return s.exec(ctx, env, p.Started, command[1:])
}

func (s *stand) place() (place, error) {
	content, err := os.ReadFile(s.cloud.CloudsYAML)
	return place{
		Controller: s.controller, Kubeconfig: s.cluster.Kubeconfig(),
		CloudsYAML: s.cloud.CloudsYAML, CloudsYAMLContent: string(content), Cloud: stack.Cloud,
	}, err
}

// apply applies the manifests, then the setup.
func (p *peer) apply(s *stand, at place) error {
	for _, path := range p.manifests() {
		if err := s.kubectl("", "apply", "--server-side", "-f", path); err != nil {
			return err
		}
	}
	if len(p.Manifests) > 0 {
		if err := s.kubectl("", "wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"); err != nil {
			return err
		}
	}
	setup, err := p.setup(at)
	if err != nil || strings.TrimSpace(setup) == "" {
		return err
	}
	return s.kubectl(setup, "apply", "--server-side", "-f", "-")
}

// whileRunning returns a context that is done when the process has ended.
func (r *running) whileRunning(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-r.Done():
			cancel(errors.New("the controller has ended"))
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// end stops the process. It does not matter which exit code another controller has then.
func (r *running) end() error {
	err := r.stop()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil
	}
	return err
}

// objectsOf are the objects of all networks of a run.
type objectsOf struct {
	*stand
	*peer
	client dynamic.Interface
	all    []object
	seen   *tracker[*unstructured.Unstructured]
}

// object is an object to create, with the client for it.
type object struct {
	*unstructured.Unstructured
	at dynamic.ResourceInterface
	// resource is the name of the resource in the API, in the plural.
	resource schema.GroupResource
}

// observe returns the objects of n networks, which do not exist yet, and watches them.
func (s *stand) observe(ctx context.Context, p *peer, n int) (*objectsOf, error) {
	client, err := dynamic.NewForConfig(s.config)
	if err != nil {
		return nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(s.kube.Discovery())
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	o := &objectsOf{stand: s, peer: p, client: client, seen: &tracker[*unstructured.Unstructured]{}}
	resources := map[schema.GroupVersionResource]bool{}
	for i := range n {
		objects, err := p.objects(i)
		if err != nil {
			return nil, err
		}
		for _, u := range objects {
			kind := u.GroupVersionKind()
			mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err != nil {
				return nil, fmt.Errorf("objects: %w", err)
			}
			resources[mapping.Resource] = true
			o.all = append(o.all, object{u, clientFor(client, mapping, u), mapping.Resource.GroupResource()})
		}
	}
	s.counted = filter{verbs: []string{"POST", "PUT", "PATCH", "APPLY", "DELETE"}}
	for resource := range resources {
		s.counted.groups = append(s.counted.groups, resource.Group)
	}
	return o, o.watch(ctx, resources)
}

func clientFor(client dynamic.Interface, mapping *meta.RESTMapping, u *unstructured.Unstructured) dynamic.ResourceInterface {
	if mapping.Scope.Name() == meta.RESTScopeNameRoot {
		return client.Resource(mapping.Resource)
	}
	if u.GetNamespace() == "" {
		u.SetNamespace(namespace)
	}
	return client.Resource(mapping.Resource).Namespace(u.GetNamespace())
}

// watch returns when the caches of all resources have synced. They stop when ctx is done. Other
// objects of the same kinds, which the controller or its setup makes, do not count.
func (o *objectsOf) watch(ctx context.Context, resources map[schema.GroupVersionResource]bool) error {
	factory := dynamicinformer.NewDynamicSharedInformerFactory(o.client, 0)
	keys := sets.New[string]()
	for _, object := range o.all {
		keys.Insert(keyOf(object.Unstructured))
	}
	see := func(object any) {
		if u, ok := object.(*unstructured.Unstructured); ok && keys.Has(keyOf(u)) {
			o.seen.see(keyOf(u), u)
		}
	}
	var registrations []cache.ResourceEventHandlerRegistration
	for resource := range resources {
		registration, err := factory.ForResource(resource).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    see,
			UpdateFunc: func(_, object any) { see(object) },
			DeleteFunc: func(object any) {
				if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = last.Obj
				}
				if u, ok := object.(*unstructured.Unstructured); ok && keys.Has(keyOf(u)) {
					o.seen.seeGone(keyOf(u))
				}
			},
		})
		if err != nil {
			return err
		}
		registrations = append(registrations, registration)
	}
	factory.Start(ctx.Done())
	for _, registration := range registrations {
		select {
		case <-registration.HasSyncedChecker().Done():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// change measures do, which makes one request with that verb for each object, until all
// objects fulfill the condition is, or are deleted if is is nil.
func (o *objectsOf) change(ctx context.Context, c *running, is func(*unstructured.Unstructured) bool, verb string, do func(context.Context, int) error) (sample Sample, err error) {
	m, err := o.begin(ctx, c)
	if err != nil {
		return sample, err
	}
	o.seen.expect(len(o.all), is)
	if err := inParallel(ctx, appliers, len(o.all), do); err != nil {
		return sample, err
	}
	at, err := o.seen.wait(ctx)
	if err != nil {
		return sample, err
	}
	if sample, err = m.end(ctx, c, last(at)); err != nil {
		return sample, err
	}
	own := map[string]int{}
	for _, object := range o.all {
		own[verb+" "+object.resource.Resource]++
	}
	sample.Writes = since(own, sample.Writes)
	return sample, nil
}

func (o *objectsOf) create(ctx context.Context, i int) error {
	_, err := o.all[i].at.Create(ctx, o.all[i].Unstructured, metav1.CreateOptions{})
	return err
}

// delete deletes the objects of a network in the opposite order of their creation.
func (o *objectsOf) delete(ctx context.Context, i int) error {
	last := o.all[len(o.all)-1-i]
	return last.at.Delete(ctx, last.GetName(), metav1.DeleteOptions{})
}

// isReady reports whether the condition is True for the current generation. A condition without
// observedGeneration counts.
func (p *peer) isReady(u *unstructured.Unstructured) bool {
	field, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "conditions")
	conditions, _ := field.([]any)
	return slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		if condition["type"] != p.Condition || condition["status"] != string(metav1.ConditionTrue) {
			return false
		}
		generation, known := condition["observedGeneration"]
		return !known || generation == u.GetGeneration()
	})
}

// checkSubnets returns an error unless Neutron has the subnets of n networks, and no others.
func (s *stand) checkSubnets(ctx context.Context, n int) error {
	all, err := s.cloud.allSubnets(ctx)
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, subnet := range all {
		found[subnet.CIDR] = true
	}
	for i := range n {
		if !found[cidr(i)] {
			return fmt.Errorf("all objects are ready, but Neutron has no subnet %s", cidr(i))
		}
	}
	if len(all) != n {
		return fmt.Errorf("there are %d subnets in Neutron, want %d", len(all), n)
	}
	return nil
}

// besideRows are the figures that writeBeside prints for the creation, and for the deletion.
var besideRows = []struct {
	what string
	get  func(Sample, int) string
}{
	{"time", func(s Sample, _ int) string { return seconds(s.Seconds) }},
	{"requests to Neutron", func(s Sample, n int) string { return perNetwork(s.Calls, n) }},
	{"writes to Kubernetes", func(s Sample, n int) string { return perNetwork(s.Writes, n) }},
	{"events", func(s Sample, n int) string { return perNetwork(s.Events, n) }},
	{"CPU of the controller", func(s Sample, _ int) string { return fmt.Sprintf("%.2f s", s.CPU[controllerProcess]) }},
	{"memory at the peak", func(s Sample, _ int) string { return mebibytes(s.Peak) }},
	{"memory at the end", func(s Sample, _ int) string { return mebibytes(s.Resident) }},
}

func perNetwork(counts map[string]int, n int) string {
	return fmt.Sprintf("%d (%.2f)", total(counts), float64(total(counts))/float64(n))
}

// writeBeside prints the figures of the scenario beside, with a column for each controller.
func writeBeside(out io.Writer, results []Result) {
	var sizes []int
	for _, r := range results {
		if r.Scenario == besideName && !slices.Contains(sizes, r.N) {
			sizes = append(sizes, r.N)
		}
	}
	for _, n := range sizes {
		of := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Scenario != besideName || r.N != n })
		fmt.Fprintln(out)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintf(w, "%d networks, each with a subnet", n)
		for _, r := range of {
			fmt.Fprintf(w, "\t%s", r.Controller)
		}
		fmt.Fprintln(w)
		writePhase(w, "create", of, func(r Result) Sample { return r.Median })
		writePhase(w, "delete", of, func(r Result) Sample { return *r.Median.Deletion })
		w.Flush()
		fmt.Fprintln(out, "The times are from the first request until the last object is ready, or gone. In parentheses: per network.")
		fmt.Fprintln(out)
	}
}

func writePhase(out io.Writer, name string, of []Result, get func(Result) Sample) {
	for _, row := range besideRows {
		fmt.Fprintf(out, "%s: %s", name, row.what)
		for _, r := range of {
			fmt.Fprintf(out, "\t%s", row.get(get(r), r.N))
		}
		fmt.Fprintln(out)
	}
}
