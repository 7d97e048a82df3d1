// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

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

// fieldManager is the field manager of changes that are requested over HTTP.
const fieldManager = "samplecrd-controller-http"

// requestedAt is the layout of AnnotationReconcileRequestedAt, fine enough that no two requests get
// the same value.
const requestedAt = "2006-01-02T15:04:05.000000000Z07:00"

// The limits for requests with tokens, of all callers together.
const (
	requestsPerSecond = 10
	requestsAtOnce    = 20
)

// Routes configure the handler.
type Routes struct {
	// Metrics and Readiness are served without authorization. So are profiles of the process, if
	// Profiled is set.
	Metrics   prometheus.Gatherer
	Readiness *Readiness
	Profiled  bool
	// Guarded adds the routes for callers with tokens. They need the fields below.
	Guarded bool
	// Kube reviews the callers' tokens and permissions.
	Kube kubernetes.Interface
	// Audience is the one that a caller's token must be for; "" for that of the API server. Start sets it.
	Audience string
	// Networks writes the callers' requests to Networks.
	Networks clientset.Interface
	// Namespace is the namespace that the controller is limited to; "" for all.
	Namespace string
	// Orphans returns the orphans; nil if the controller does not look for them.
	Orphans func() []orphans.Orphan
	// Leads reports whether this replica leads: only the leader knows the orphans. Leader returns
	// the identity of the leader, or "" if none is known.
	Leads  func() bool
	Leader func() string
	// Limiter limits requests with tokens; nil for the default.
	Limiter *rate.Limiter
}

// NewHandler returns the handler of all routes. Answers are plain text, except metrics and the list
// of orphans, which is JSON.
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
	guard := &guard{kube: routes.Kube, limiter: routes.Limiter, junk: newJunk(), audience: routes.Audience}
	mux.HandleFunc("POST /reconcile/{namespace}/{name}", guard.protect(mayUpdate, routes.reconcile))
	if routes.Orphans != nil {
		mux.HandleFunc("GET /orphans", guard.protect(mayListAll, routes.listOrphans))
	}
	return mux
}

// mayUpdate returns the permission that POST /reconcile requires.
func mayUpdate(r *http.Request) *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{
		Verb:      "update",
		Group:     samplecrdv1.GroupName,
		Resource:  "networks",
		Namespace: r.PathValue("namespace"),
		Name:      r.PathValue("name"),
	}
}

// mayListAll returns the permission that GET /orphans requires.
func mayListAll(*http.Request) *authorizationv1.ResourceAttributes {
	return &authorizationv1.ResourceAttributes{Verb: "list", Group: samplecrdv1.GroupName, Resource: "networks"}
}

// reconcile requests a sync of one Network that lists Neutron. It works on any replica: it sets the
// annotation that users set for the same purpose. The answer is the annotation's value.
func (o *Routes) reconcile(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	at := time.Now().UTC().Format(requestedAt)
	switch err := o.request(r.Context(), namespace, name, at); {
	case apierrors.IsNotFound(err):
		http.Error(w, fmt.Sprintf("there is no Network %q in namespace %q", name, namespace), http.StatusNotFound)
	case err != nil:
		unavailable(r.Context(), err).send(w)
	default:
		klog.FromContext(r.Context()).Info("Requested a reconciliation over HTTP", "network", cache.NewObjectName(namespace, name), "requestedAt", at)
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
	if !o.Leads() {
		who := "no leader is known"
		if leader := o.Leader(); leader != "" {
			who = fmt.Sprintf("the leader is %q", leader)
		}
		(&refusal{code: http.StatusServiceUnavailable, header: http.Header{"Retry-After": {"5"}},
			message: "only the leader knows the orphans, and this replica does not lead: " + who}).send(w)
		return
	}
	list := o.Orphans()
	if list == nil {
		list = []orphans.Orphan{} // and not null
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list) // the caller may have gone away
}
