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
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// kubernetesTimeout bounds what Kubernetes is asked for one request.
const kubernetesTimeout = 10 * time.Second

// guard lets those pass whom Kubernetes lets: it asks who the bearer of a token is, and
// what he may do.
type guard struct {
	kube kubernetes.Interface
	// limiter keeps callers, with whatever token, from becoming a load on Kubernetes.
	limiter *rate.Limiter
}

// refusal is an answer to who does not pass.
type refusal struct {
	code    int
	message string
	header  http.Header
}

// protect returns a handler of what only those may ask for who may do what attributes says.
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

// check returns who asks, and an answer if that one may not.
func (g *guard) check(r *http.Request, attributes *authorizationv1.ResourceAttributes) (user string, refused *refusal) {
	token, ok := bearerToken(r)
	if !ok {
		return "", unauthorized("a bearer token is needed", "")
	}
	if !g.limiter.Allow() {
		return "", &refusal{code: http.StatusTooManyRequests, message: "too many requests", header: http.Header{"Retry-After": {"1"}}}
	}
	who, err := g.authenticate(r.Context(), token)
	if err != nil {
		return "", unavailable(r.Context(), err)
	}
	if who == nil {
		return "", unauthorized("the token is not valid", `, error="invalid_token"`)
	}
	allowed, err := g.authorize(r.Context(), who, attributes)
	if err != nil {
		return who.Username, unavailable(r.Context(), err)
	}
	if !allowed {
		return who.Username, forbidden(who.Username, attributes)
	}
	return who.Username, nil
}

// bearerToken returns the token of a request that has exactly one.
func bearerToken(r *http.Request) (string, bool) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "Bearer") && token != "" && !strings.ContainsAny(token, " \t")
}

// authenticate returns who the token's bearer is; nil if it is nobody's.
func (g *guard) authenticate(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	// At its highest verbosity, client-go logs the bodies of requests and answers. In these
	// the token stands.
	silent := klog.NewContext(ctx, klog.Logger{})
	review, err := g.kube.AuthenticationV1().TokenReviews().Create(silent,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("review a token: %w", err)
	}
	if !review.Status.Authenticated {
		return nil, nil
	}
	return &review.Status.User, nil
}

// authorize says whether the user may do that.
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
		return false, fmt.Errorf("review the rights of %s: %w", user.Username, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

func unauthorized(message, parameters string) *refusal {
	return &refusal{code: http.StatusUnauthorized, message: message,
		header: http.Header{"Www-Authenticate": {`Bearer realm="samplecrd-controller"` + parameters}}}
}

func forbidden(user string, a *authorizationv1.ResourceAttributes) *refusal {
	what, where := "", "in all namespaces"
	if a.Namespace != "" {
		what, where = fmt.Sprintf(" %q", a.Name), fmt.Sprintf("in namespace %q", a.Namespace)
	}
	return &refusal{code: http.StatusForbidden,
		message: fmt.Sprintf("user %q may not %s %s.%s%s %s", user, a.Verb, a.Resource, a.Group, what, where)}
}

// unavailable is for when it is not the caller who is at fault.
func unavailable(ctx context.Context, err error) *refusal {
	if !errors.Is(ctx.Err(), context.Canceled) { // the caller has not gone away
		klog.FromContext(ctx).Error(err, "Failed to serve a request")
	}
	return &refusal{code: http.StatusServiceUnavailable, message: "Kubernetes does not answer as it should; the controller's log says more",
		header: http.Header{"Retry-After": {"5"}}}
}

func (f *refusal) send(w http.ResponseWriter) {
	for key, values := range f.header {
		w.Header()[key] = values
	}
	http.Error(w, f.message, f.code)
}
