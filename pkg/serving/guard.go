// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// kubernetesTimeout bounds the requests to Kubernetes for one request of a caller.
const kubernetesTimeout = 10 * time.Second

// guard admits the callers that Kubernetes authorizes: it authenticates the bearer token with a
// TokenReview, and authorizes its user with a SubjectAccessReview.
type guard struct {
	kube kubernetes.Interface
	// limiter bounds the reviews, with valid and invalid tokens, to protect Kubernetes.
	limiter *rate.Limiter
	// junk keeps the reviews for those who have valid tokens.
	junk junk
	// audience is the one that a token must be for; "" for that of the API server.
	audience string
}

// refusal is the answer to a caller that is not admitted.
type refusal struct {
	code    int
	message string
	header  http.Header
}

// protect returns a handler that calls next only for callers with the permission that attributes
// returns.
func (g *guard) protect(attributes func(*http.Request) *authorizationv1.ResourceAttributes, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), kubernetesTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		user, refused := g.check(r, attributes(r))
		if refused != nil {
			klog.FromContext(ctx).V(2).Info("Refused a request", "method", r.Method, "path", r.URL.Path, "user", user, "code", refused.code)
			refused.send(w)
			return
		}
		klog.FromContext(ctx).V(2).Info("Serving a request", "method", r.Method, "path", r.URL.Path, "user", user)
		next(w, r)
	}
}

// check returns the name of the user, and a refusal unless the user is authorized.
func (g *guard) check(r *http.Request, attributes *authorizationv1.ResourceAttributes) (user string, refused *refusal) {
	token, ok := bearerToken(r)
	if !ok {
		return "", unauthorized("a bearer token is required", "")
	}
	if g.junk.exceeds(r.RemoteAddr) || !g.limiter.Allow() {
		return "", &refusal{code: http.StatusTooManyRequests, message: "too many requests", header: http.Header{"Retry-After": {"1"}}}
	}
	caller, err := g.authenticate(r.Context(), token)
	if err != nil {
		return "", unavailable(r.Context(), err)
	}
	if caller == nil {
		g.junk.add(r.RemoteAddr)
		return "", unauthorized("the token is not valid", `, error="invalid_token"`)
	}
	allowed, err := g.authorize(r.Context(), caller, attributes)
	if err != nil {
		return caller.Username, unavailable(r.Context(), err)
	}
	if !allowed {
		g.junk.add(r.RemoteAddr)
		return caller.Username, forbidden(caller.Username, attributes)
	}
	return caller.Username, nil
}

// bearerToken returns the bearer token of a request, if it has exactly one.
func bearerToken(r *http.Request) (string, bool) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && !strings.ContainsAny(token, " \t")
}

// authenticate returns the user of the token, or nil if the token is not valid.
func (g *guard) authenticate(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	// At its highest verbosity, client-go logs the bodies of requests and answers. They contain
	// the token.
	silent := klog.NewContext(ctx, klog.Logger{})
	spec := authenticationv1.TokenReviewSpec{Token: token}
	if g.audience != "" {
		spec.Audiences = []string{g.audience}
	}
	review, err := g.kube.AuthenticationV1().TokenReviews().Create(silent, &authenticationv1.TokenReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("review a token: %w", err)
	}
	// An authenticator that knows no audiences returns none: see the documentation of TokenReviewStatus.
	if !review.Status.Authenticated || g.audience != "" && !slices.Contains(review.Status.Audiences, g.audience) {
		return nil, nil
	}
	return &review.Status.User, nil
}

// authorize reports whether the user has the permission.
func (g *guard) authorize(ctx context.Context, user *authenticationv1.UserInfo, attributes *authorizationv1.ResourceAttributes) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := g.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			ResourceAttributes: attributes,
			User:               user.Username,
			Groups:             user.Groups,
			UID:                user.UID,
			Extra:              extra,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("review the permissions of %s: %w", user.Username, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

func unauthorized(message, parameters string) *refusal {
	return &refusal{code: http.StatusUnauthorized, message: message,
		header: http.Header{"Www-Authenticate": {`Bearer realm="samplecrd-controller"` + parameters}}}
}

func forbidden(user string, a *authorizationv1.ResourceAttributes) *refusal {
	name, where := "", "in all namespaces"
	if a.Namespace != "" {
		name, where = fmt.Sprintf(" %q", a.Name), fmt.Sprintf("in namespace %q", a.Namespace)
	}
	return &refusal{code: http.StatusForbidden,
		message: fmt.Sprintf("user %q may not %s %s.%s%s %s", user, a.Verb, a.Resource, a.Group, name, where)}
}

// unavailable returns the refusal for an error that is not the caller's fault, and logs it.
func unavailable(ctx context.Context, err error) *refusal {
	if !errors.Is(ctx.Err(), context.Canceled) { // canceled: the caller has gone away
		klog.FromContext(ctx).Error(err, "Failed to serve a request")
	}
	return &refusal{code: http.StatusServiceUnavailable, message: "a request to Kubernetes failed: see the controller's log",
		header: http.Header{"Retry-After": {"5"}}}
}

func (f *refusal) send(w http.ResponseWriter) {
	for key, values := range f.header {
		w.Header()[key] = values
	}
	http.Error(w, f.message, f.code)
}
