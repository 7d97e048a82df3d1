/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package serving

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/time/rate"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	"github.com/samplecrd/samplecrd-controller/pkg/orphans"
)

// fieldManager is in managedFields for those who ask over HTTP.
const fieldManager = "samplecrd-controller-http"

// requestedAt is the layout of AnnotationReconcileRequestedAt: no two requests get the same.
const requestedAt = "2006-01-02T15:04:05.000000000Z07:00"

// The limits of requests with tokens, of all callers together.
const (
	requestsPerSecond = 10
	requestsAtOnce    = 20
)

// Routes are what a handler is told from outside.
type Routes struct {
	// Metrics and Readiness are served to everybody, and so are the profiles of the process,
	// if it is to be Profiled.
	Metrics   prometheus.Gatherer
	Readiness *Readiness
	Profiled  bool
	// Guarded says whether there are routes for callers with tokens. They need what follows.
	Guarded bool
	// Kube reviews the callers' tokens and rights.
	Kube kubernetes.Interface
	// Networks writes what callers ask for.
	Networks clientset.Interface
	// Namespace is the one in which Networks are worked on; "" for all.
	Namespace string
	// Orphans lists the orphans; nil: nobody looks for them.
	Orphans func() []orphans.Orphan
	// Leader names the replica that leads, and says whether it is this one: only that one
	// knows orphans. nil: it is the only one.
	Leader func() (name string, here bool)
	// Limiter is for requests with tokens; nil: the usual one.
	Limiter *rate.Limiter
}

// NewHandler makes the handler of all routes. Answers are plain text, but for metrics, and
// the list of orphans, which is JSON.
func NewHandler(routes Routes) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthz)
	mux.Handle("GET /readyz", routes.Readiness)
	mux.Handle("GET /metrics", promhttp.HandlerFor(routes.Metrics, promhttp.HandlerOpts{}))
	if routes.Profiled {
		handleProfiles(mux)
	}
	if !routes.Guarded {
		return mux
	}
	if routes.Limiter == nil {
		routes.Limiter = rate.NewLimiter(requestsPerSecond, requestsAtOnce)
	}
	guard := &guard{kube: routes.Kube, limiter: routes.Limiter}
	mux.HandleFunc("POST /reconcile/{namespace}/{name}", guard.protect(mayUpdate, routes.reconcile))
	if routes.Orphans != nil {
		mux.HandleFunc("GET /orphans", guard.protect(mayListAll, routes.listOrphans))
	}
	return mux
}

// mayUpdate is the right that POST /reconcile takes.
func mayUpdate(r *http.Request) *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{
		Verb:      "update",
		Group:     samplecrdv1.GroupName,
		Resource:  "networks",
		Namespace: r.PathValue("namespace"),
		Name:      r.PathValue("name"),
	}
}

// mayListAll is the right that GET /orphans takes.
func mayListAll(*http.Request) *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{Verb: "list", Group: samplecrdv1.GroupName, Resource: "networks"}
}

// reconcile has the controller look at Neutron for one Network, whichever replica was
// asked: it writes the annotation by which people do so. The answer is its value.
func (o *Routes) reconcile(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	at := time.Now().UTC().Format(requestedAt)
	switch err := o.request(r.Context(), namespace, name, at); {
	case apierrors.IsNotFound(err):
		http.Error(w, fmt.Sprintf("there is no Network %q in namespace %q", name, namespace), http.StatusNotFound)
	case err != nil:
		unavailable(r.Context(), err).send(w)
	default:
		klog.FromContext(r.Context()).Info("Asked over HTTP to look at Neutron", "network", cache.NewObjectName(namespace, name), "requestedAt", at)
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(http.StatusAccepted)
		_, _ = fmt.Fprintln(w, at) // the caller may have gone away
	}
}

func (o *Routes) request(ctx context.Context, namespace, name, at string) error {
	outside := o.Namespace != "" && o.Namespace != namespace
	if outside || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return apierrors.NewNotFound(samplecrdv1.Resource("networks"), name)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{samplecrdv1.AnnotationReconcileRequestedAt: at},
	}})
	if err != nil {
		return err
	}
	_, err = o.Networks.SamplecrdV1().Networks(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	return err
}

func (o *Routes) listOrphans(w http.ResponseWriter, _ *http.Request) {
	if leader, here := o.leader(); !here {
		whom := "none is known to"
		if leader != "" {
			whom = fmt.Sprintf("the one that leads is %q", leader)
		}
		(&refusal{code: http.StatusServiceUnavailable, header: http.Header{"Retry-After": {"5"}},
			message: "this replica does not lead, and so knows of no orphans; " + whom}).send(w)
		return
	}
	list := o.Orphans()
	if list == nil {
		list = []orphans.Orphan{} // and not null
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // the caller may have gone away
}

func (o *Routes) leader() (name string, here bool) {
	if o.Leader == nil {
		return "", true
	}
	return o.Leader()
}
