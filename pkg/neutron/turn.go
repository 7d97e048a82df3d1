// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
)

// maxSync is how long the requests of a sync may begin. A server that answers each of them just in time would otherwise keep a
// worker for as long as it likes.
const maxSync = 2 * time.Minute

// errSlow is no unsentError: the sync has made requests, and is tried again with a back-off.
var errSlow = fmt.Errorf("OpenStack is slow: this sync has taken more than %s", maxSync)

// turn is the key of a sync in a context.
type turn struct{}

type turnOf struct {
	id   uuid.UUID
	ends time.Time
}

// ForSync returns a context for one sync that begins now. A request later than two minutes from now fails with Unavailable. One that
// was made before can still wait for its turn, and for an authentication. Each request carries the ID to OpenStack, which logs it beside its own request ID: req-<id>, the "global request
// ID". Debian 12's Neutron, with neutron-lib 3.1.0 and oslo.messaging 14.0.3, loses it in the middle of a change.
func ForSync(ctx context.Context, id uuid.UUID) context.Context {
	return context.WithValue(ctx, turn{}, turnOf{id, time.Now().Add(maxSync)})
}

// checkTurn fails if the sync of the context, if there is one, must not begin a request any more.
func checkTurn(ctx context.Context) error {
	if t, ok := ctx.Value(turn{}).(turnOf); ok && time.Now().After(t.ends) {
		return errSlow
	}
	return nil
}

// withReconcileID sets the request's header to the ID of its sync, if it has one.
func withReconcileID(request *http.Request) *http.Request {
	if t, ok := request.Context().Value(turn{}).(turnOf); ok {
		request.Header.Set(requestIDHeader, "req-"+t.id.String())
	}
	return request
}
