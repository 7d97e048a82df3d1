// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	"github.com/samplecrd/samplecrd-controller/pkg/orphans"
)

// The tokens of an authorized user, of another user, and of nobody.
const (
	right    = "right-token"
	stranger = "stranger-token"
	nobody   = "nobody-token"
)

var alice = authenticationv1.UserInfo{
	Username: "alice", UID: "a-1", Groups: []string{"admins", "system:authenticated"},
	Extra: map[string]authenticationv1.ExtraValue{"scopes": {"x", "y"}},
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lab has the routes of a handler, with fake clients of Kubernetes.
type lab struct {
	*testing.T
	kube     *kubefake.Clientset
	networks *fake.Clientset
	routes   Routes
	log      bytes.Buffer
	// asked holds the requests to Kubernetes, and reviews the access reviews in full.
	asked   []string
	reviews []authorizationv1.SubjectAccessReviewSpec
	from    string // the address of the caller; "" for any
}

var errAway = errors.New("connection refused")

func newRegistry() *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector())
	return registry
}

func newLab(t *testing.T) *lab {
	l := &lab{T: t, kube: kubefake.NewClientset(), networks: fake.NewClientset(&samplecrdv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "net", Annotations: map[string]string{"other": "stays"}},
		Spec:       samplecrdv1.NetworkSpec{SubnetSpec: samplecrdv1.SubnetSpec{CIDR: "10.0.0.0/24"}},
	})}
	l.routes = Routes{
		Metrics:   newRegistry(),
		Readiness: NewReadiness("networks"),
		Guarded:   true,
		Kube:      l.kube,
		Networks:  l.networks,
		Orphans:   func() []orphans.Orphan { return nil },
		Leads:     func() bool { return true },
		Leader:    func() string { return "pod-1" },
		Limiter:   rate.NewLimiter(rate.Inf, 1),
	}
	l.kube.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		l.asked = append(l.asked, "who")
		review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
		switch review.Spec.Token {
		case right:
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: alice}
		case stranger:
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "mallory"}}
		default:
			review.Status = authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}
		}
		return true, review, nil
	})
	l.kube.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		l.asked = append(l.asked, "may "+review.Spec.User)
		l.reviews = append(l.reviews, review.Spec)
		review.Status.Allowed = review.Spec.User == "alice"
		return true, review, nil
	})
	l.networks.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		l.asked = append(l.asked, action.GetVerb())
		return false, nil, nil
	})
	return l
}

// fails makes these requests to Kubernetes fail.
func (l *lab) fails(verb, resource string, err error) {
	fail := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err }
	l.kube.PrependReactor(verb, resource, fail)
	l.networks.PrependReactor(verb, resource, fail)
}

// ask sends a request with these Authorization headers, and returns the answer.
func (l *lab) ask(handler http.Handler, method, path string, headers ...string) *http.Response {
	l.Helper()
	ctx := klog.NewContext(l.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&l.log), textlogger.Verbosity(10))))
	request := httptest.NewRequestWithContext(ctx, method, path, nil)
	request.Header["Authorization"] = headers
	if l.from != "" {
		request.RemoteAddr = l.from
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder.Result()
}

func bearer(token string) string { return "Bearer " + token }

func (l *lab) body(response *http.Response) string {
	l.Helper()
	body, err := io.ReadAll(response.Body)
	must(l, err)
	return string(body)
}

func TestAnswers(t *testing.T) {
	const reconcile, list = "/reconcile/default/net", "/orphans"
	for _, test := range []struct {
		name         string
		method, path string
		headers      []string
		change       func(*lab)
		code         int
		says         string   // part of the body
		asked        []string // requests to Kubernetes
	}{
		{name: "an authorized user", method: "POST", path: reconcile, headers: []string{bearer(right)}, code: 202, says: "T", asked: []string{"who", "may alice", "patch"}},
		{name: "the scheme in lower case", method: "POST", path: reconcile, headers: []string{"bearer  " + right}, code: 202, asked: []string{"who", "may alice", "patch"}},
		{name: "no token", method: "POST", path: reconcile, code: 401, says: "token is required"},
		{name: "an empty token", method: "POST", path: reconcile, headers: []string{"Bearer "}, code: 401},
		{name: "another scheme", method: "POST", path: reconcile, headers: []string{"Basic " + right}, code: 401},
		{name: "two words", method: "POST", path: reconcile, headers: []string{bearer(right + " " + right)}, code: 401},
		{name: "two tokens", method: "POST", path: reconcile, headers: []string{bearer(right), bearer(right)}, code: 401},
		{name: "a token in the address", method: "POST", path: reconcile + "?access_token=" + right, code: 401},
		{name: "an invalid token", method: "POST", path: reconcile, headers: []string{bearer(nobody)}, code: 401, says: "not valid", asked: []string{"who"}},
		{name: "another user", method: "POST", path: reconcile, headers: []string{bearer(stranger)}, code: 403,
			says: `user "mallory" may not update networks.samplecrd.k8s.io "net" in namespace "default"`, asked: []string{"who", "may mallory"}},
		{name: "a permission that is denied", method: "POST", path: reconcile, headers: []string{bearer(right)}, code: 403, change: func(l *lab) {
			l.kube.PrependReactor("create", "subjectaccessreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}}, nil
			})
		}, asked: []string{"who"}},
		{name: "no such Network", method: "POST", path: "/reconcile/default/none", headers: []string{bearer(right)}, code: 404,
			says: `no Network "none"`, asked: []string{"who", "may alice", "patch"}},
		{name: "an invalid name", method: "POST", path: "/reconcile/default/a%2Fstatus", headers: []string{bearer(right)}, code: 404, asked: []string{"who", "may alice"}},
		{name: "a Network in another namespace than the controller's", method: "POST", path: "/reconcile/other/net", headers: []string{bearer(right)}, code: 404,
			change: func(l *lab) { l.routes.Namespace = "default" }, asked: []string{"who", "may alice"}},
		{name: "more than a name", method: "POST", path: reconcile + "/status", headers: []string{bearer(right)}, code: 404},
		{name: "another method", method: "GET", path: reconcile, headers: []string{bearer(right)}, code: 405},
		{name: "too many requests", method: "POST", path: reconcile, headers: []string{bearer(right)}, code: 429,
			change: func(l *lab) { l.routes.Limiter = rate.NewLimiter(0, 0) }},
		{name: "too many requests, and no token", method: "POST", path: reconcile, code: 401, change: func(l *lab) { l.routes.Limiter = rate.NewLimiter(0, 0) }},
		{name: "tokens cannot be reviewed", method: "POST", path: reconcile, headers: []string{bearer(right)}, code: 503,
			change: func(l *lab) { l.fails("create", "tokenreviews", errAway) }},
		{name: "permissions cannot be reviewed", method: "POST", path: reconcile, headers: []string{bearer(right)}, code: 503,
			change: func(l *lab) { l.fails("create", "subjectaccessreviews", errAway) }, asked: []string{"who"}},
		{name: "the patch fails", method: "POST", path: reconcile, headers: []string{bearer(right)}, code: 503,
			change: func(l *lab) { l.fails("patch", "networks", errAway) }, asked: []string{"who", "may alice"}},

		{name: "orphans, an authorized user", method: "GET", path: list, headers: []string{bearer(right)}, code: 200, says: "[]", asked: []string{"who", "may alice"}},
		{name: "orphans, no token", method: "GET", path: list, code: 401},
		{name: "orphans, another user", method: "GET", path: list, headers: []string{bearer(stranger)}, code: 403,
			says: `user "mallory" may not list networks.samplecrd.k8s.io in all namespaces`, asked: []string{"who", "may mallory"}},
		{name: "orphans, not looked for", method: "GET", path: list, headers: []string{bearer(right)}, code: 404,
			change: func(l *lab) { l.routes.Orphans = nil }},

		{name: "reconcile, another replica leads", method: "POST", path: reconcile, headers: []string{bearer(right)}, code: 202,
			change: anotherLeads, asked: []string{"who", "may alice", "patch"}},
		{name: "metrics, no token", method: "GET", path: "/metrics", code: 200, says: "go_goroutines "},
		{name: "metrics, another method", method: "POST", path: "/metrics", code: 405},
		{name: "routes are off: reconcile", method: "POST", path: reconcile, headers: []string{bearer(right)}, code: 404, change: func(l *lab) { l.routes.Guarded = false }},
		{name: "routes are off: orphans", method: "GET", path: list, headers: []string{bearer(right)}, code: 404, change: func(l *lab) { l.routes.Guarded = false }},
		{name: "no such route", method: "GET", path: "/", code: 404},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			if test.change != nil {
				test.change(l)
			}
			response := l.ask(NewHandler(l.routes), test.method, test.path, test.headers...)
			body := l.body(response)
			equal(t, test.code, response.StatusCode)
			equal(t, test.asked, l.asked)
			if !strings.Contains(body, test.says) {
				t.Errorf("%q does not contain %q", body, test.says)
			}
			equal(t, test.code == 401, response.Header.Get("WWW-Authenticate") != "")
			equal(t, test.code == 429 || test.code == 503, response.Header.Get("Retry-After") != "")
			equal(t, test.code == 503, strings.Contains(l.log.String(), "Failed to serve"))
			kind, want := response.Header.Get("Content-Type"), "text/plain"
			if test.path == list && test.code == 200 {
				want = "application/json"
			}
			if !strings.HasPrefix(kind, want) {
				t.Errorf("Content-Type is %s, want %s", kind, want)
			}
			patched := slices.Contains(l.asked, "patch") && test.code == 202
			equal(t, patched, l.annotation() != "")
			if said := l.log.String() + body; strings.Contains(said, "-token") {
				t.Errorf("the log or the answer contains a token: %s", said)
			}
		})
	}
}

func (l *lab) annotation() string {
	n, err := l.networks.Tracker().Get(samplecrdv1.Resource("networks").WithVersion("v1"), "default", "net")
	must(l, err)
	network := n.(*samplecrdv1.Network)
	equal(l.T, "stays", network.Annotations["other"])
	equal(l.T, "10.0.0.0/24", network.Spec.CIDR)
	return network.Annotations[samplecrdv1.AnnotationReconcileRequestedAt]
}

func TestTheAnswerIsTheValueOfTheAnnotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		handler := NewHandler(l.routes)
		l.networks.PrependReactor("patch", "networks", func(action clienttesting.Action) (bool, runtime.Object, error) {
			options := action.(clienttesting.PatchActionImpl).PatchOptions
			if options.FieldManager != fieldManager || options.Force != nil {
				t.Errorf("%+v", options)
			}
			return false, nil, nil
		})
		for range 2 {
			time.Sleep(123 * time.Millisecond)
			body := l.body(l.ask(handler, "POST", "/reconcile/default/net", bearer(right)))
			equal(t, l.annotation()+"\n", body)
			at, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(body))
			if err != nil || !at.Equal(time.Now()) || len(body) != len("2000-01-01T00:00:00.000000000Z\n") {
				t.Errorf("got %q, %v", body, err)
			}
		}
	})
}

func TestTheReviewHasAllAttributesOfTheCaller(t *testing.T) {
	l := newLab(t)
	handler := NewHandler(l.routes)
	l.ask(handler, "POST", "/reconcile/default/net", bearer(right))
	l.ask(handler, "GET", "/orphans", bearer(right))
	who := authorizationv1.SubjectAccessReviewSpec{
		User: "alice", UID: "a-1", Groups: []string{"admins", "system:authenticated"},
		Extra: map[string]authorizationv1.ExtraValue{"scopes": {"x", "y"}},
	}
	update, list := who, who
	update.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: "update", Group: "samplecrd.k8s.io", Resource: "networks", Namespace: "default", Name: "net"}
	list.ResourceAttributes = &authorizationv1.ResourceAttributes{Verb: "list", Group: "samplecrd.k8s.io", Resource: "networks"}
	equal(t, []authorizationv1.SubjectAccessReviewSpec{update, list}, l.reviews)
}

func TestOrphansAreListedAsJSON(t *testing.T) {
	l := newLab(t)
	ports := 2
	since := time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)
	l.routes.Orphans = func() []orphans.Orphan {
		return []orphans.Orphan{
			{Cloud: "mine", NetworkID: "a", Name: "default/a", OwnerUID: "u", Since: since, Ports: &ports},
			{Cloud: "mine", NetworkID: "b", Name: "default/b", OwnerUID: "v", Since: since},
		}
	}
	var got []map[string]any
	must(t, json.NewDecoder(l.ask(NewHandler(l.routes), "GET", "/orphans", bearer(right)).Body).Decode(&got))
	equal(t, []map[string]any{
		{"cloud": "mine", "networkID": "a", "name": "default/a", "ownerUID": "u", "since": "2026-11-16T12:00:00Z", "ports": 2.0},
		{"cloud": "mine", "networkID": "b", "name": "default/b", "ownerUID": "v", "since": "2026-11-16T12:00:00Z"},
	}, got)
}

func TestTheUsualLimitIsForRequestsWithTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.routes.Limiter = nil
		handler := NewHandler(l.routes)
		codes := func(n int, headers ...string) map[string]int {
			counts := map[string]int{}
			for range n {
				counts[strconv.Itoa(l.ask(handler, "POST", "/reconcile/default/net", headers...).StatusCode)]++
			}
			return counts
		}
		equal(t, map[string]int{"401": 100}, codes(100))
		equal(t, map[string]int{"202": 20, "429": 5}, codes(25, bearer(right)))
		time.Sleep(time.Second)
		equal(t, map[string]int{"202": 10, "429": 5}, codes(15, bearer(right)))
		equal(t, map[string]int{"200": 1}, map[string]int{strconv.Itoa(l.ask(handler, "GET", "/metrics").StatusCode): 1})
	})
}

func TestATokenMustBeForTheAudience(t *testing.T) {
	for _, test := range []struct {
		name, audience string
		returned       []string // by the API server
		want           int
	}{
		{"none is set", "", []string{"https://kubernetes.default.svc"}, http.StatusAccepted},
		{"the right one", "us", []string{"us"}, http.StatusAccepted},
		{"an authenticator that knows no audiences", "us", nil, http.StatusUnauthorized},
		{"another one", "us", []string{"them"}, http.StatusUnauthorized},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			l.routes.Audience = test.audience
			l.kube.PrependReactor("create", "tokenreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview).DeepCopy()
				equal(t, strings.Fields(test.audience), append([]string{}, review.Spec.Audiences...))
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: alice, Audiences: test.returned}
				return true, review, nil
			})
			equal(t, test.want, l.ask(NewHandler(l.routes), "POST", "/reconcile/default/net", bearer(right)).StatusCode)
		})
	}
}

// Tokens that are not valid use up the reviews of their own address only.
func TestJunkShutsOutOnlyItsOwnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.routes.Limiter = nil
		handler := NewHandler(l.routes)
		count := func(from, token string, n int) map[int]int {
			l.from = from
			counts := map[int]int{}
			for range n {
				counts[l.ask(handler, "POST", "/reconcile/default/net", bearer(token)).StatusCode]++
			}
			return counts
		}
		equal(t, map[int]int{401: 10, 429: 90}, count("192.0.2.1:1", nobody, 100))
		equal(t, map[int]int{429: 1}, count("192.0.2.1:2", right, 1)) // from the same address
		equal(t, map[int]int{202: 5}, count("192.0.2.2:1", right, 5))
		equal(t, map[int]int{202: 1}, count("[::ffff:192.0.2.3]:1", right, 1))
		time.Sleep(2 * time.Second)
		equal(t, map[int]int{401: 2, 429: 8}, count("192.0.2.1:3", nobody, 10))
		// A host can have all addresses of its IPv6 network.
		equal(t, map[int]int{401: 10}, count("[2001:db8::1]:1", nobody, 10))
		equal(t, map[int]int{429: 5}, count("[2001:db8::2]:1", nobody, 5))
		equal(t, map[int]int{202: 5}, count("[2001:db8:0:1::1]:1", right, 5))
		time.Sleep(10 * time.Second)
		equal(t, map[int]int{202: 1}, count("192.0.2.1:4", right, 1))
		equal(t, map[int]int{403: 10, 429: 5}, count("192.0.2.4:1", stranger, 15)) // a valid token, for what it does not allow
	})
}

func TestACallerThatGoesAwayIsNotLogged(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&l.log)))))
	l.kube.PrependReactor("create", "tokenreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		return true, nil, context.Canceled
	})
	request := httptest.NewRequestWithContext(ctx, "POST", "/reconcile/default/net", nil)
	request.Header.Set("Authorization", bearer(right))
	NewHandler(l.routes).ServeHTTP(httptest.NewRecorder(), request)
	equal(t, "", l.log.String())
}

func TestNoTokenIsLoggedAtWhateverVerbosity(t *testing.T) {
	var reviewed, log bytes.Buffer
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		reviewed.Write(body)
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body) // with the token, as the API server does
	}))
	defer api.Close()
	logAll(t, &log)
	kube, err := kubernetes.NewForConfig(&rest.Config{Host: api.URL, BearerToken: "our-own", ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	must(t, err)
	l := newLab(t)
	l.routes.Kube = kube
	request := httptest.NewRequestWithContext(t.Context(), "POST", "/reconcile/default/net", nil)
	request.Header.Set("Authorization", bearer(right))
	NewHandler(l.routes).ServeHTTP(httptest.NewRecorder(), request)
	klog.Flush()
	if !strings.Contains(reviewed.String(), right) {
		t.Errorf("no token was reviewed: %q", reviewed.String())
	}
	if !strings.Contains(log.String(), "Refused a request") || strings.Contains(log.String(), right) {
		t.Errorf("no log, or the token in it:\n%s", log.String())
	}
}

// logAll makes klog write at the highest verbosity to w for the rest of the test.
func logAll(t *testing.T, w io.Writer) {
	t.Helper()
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"v": "10", "logtostderr": "false", "alsologtostderr": "false"} {
		must(t, flags.Set(name, value))
	}
	var mu sync.Mutex
	klog.SetOutput(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return w.Write(p)
	}))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestMetricsThatCannotBeGatheredAreAnError(t *testing.T) {
	l := newLab(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.CollectorFunc(func(metrics chan<- prometheus.Metric) {
		metrics <- prometheus.NewInvalidMetric(prometheus.NewDesc("broken", "A broken metric.", nil, nil), errAway)
	}))
	l.routes.Metrics = registry
	equal(t, http.StatusInternalServerError, l.ask(NewHandler(l.routes), "GET", "/metrics").StatusCode)
}
