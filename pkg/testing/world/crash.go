// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/apiserver"
)

// Crash is the point at which a controller crashes: at one of its writes, after it took effect and
// before its answer is read. A crashed controller sends nothing more. A crash at a read, or before a
// write, leaves what a crash at the write before it leaves, and so has no number of its own.
type Crash struct {
	// Write is the number of the write, from 1.
	Write int
	// IsWorse means that something goes wrong in Neutron too: it crashes in the middle of the request, or creates a network or a subnet
	// twice. See Half and Twice of embedded.Fault.
	IsWorse bool
	// CanBeWorse is set when the controller has crashed, if it was at such a request.
	CanBeWorse bool

	seen    int
	crashed bool
}

func (c *Crash) String() string {
	return fmt.Sprintf("write %d, worse %v", c.Write, c.IsWorse)
}

// hasMiddle reports whether a worker of Neutron can die in the middle of the request.
func hasMiddle(method, path string) bool {
	return method != http.MethodGet && strings.Contains(path, "/routers") && !strings.HasSuffix(path, "/remove_router_interface")
}

// isRepeated reports whether two workers of Neutron can handle the request at the same moment.
func isRepeated(method, path string) bool {
	return method == http.MethodPost && (strings.HasSuffix(path, "/networks") || strings.HasSuffix(path, "/subnets"))
}

// next returns whether the next request takes effect, and whether its answer arrives.
func (c *Crash) next(isRead bool) (effect, answer bool) {
	if c.crashed {
		return false, false
	}
	if !isRead {
		c.seen++
	}
	c.crashed = !isRead && c.seen == c.Write
	return true, !c.crashed
}

// CrashAt makes the controller crash at that point; nil stops that. Requests of this package's
// methods do not count.
func (w *World) CrashAt(c *Crash) {
	w.mu.Lock()
	w.crash = c
	w.mu.Unlock()
	lost := errors.New("connection lost")
	w.AroundKubernetes(func(r apiserver.Request, do func() (runtime.Object, error)) (runtime.Object, error) {
		effect, answer := w.nextRequest(r.Verb == "get" || r.Verb == "list" || r.Verb == "watch")
		if !effect {
			return nil, lost
		}
		object, err := do()
		if !answer {
			return nil, lost
		}
		return object, err
	})
	w.Neutron.SetFault(func(r *http.Request) *embedded.Fault {
		if strings.Contains(r.URL.Path, "/identity") || !strings.HasPrefix(r.UserAgent(), userAgent) {
			return nil
		}
		effect, answer := w.nextRequest(r.Method == http.MethodGet)
		refusal := w.refused(r)
		if effect && answer {
			return refusal
		}
		effect = effect && refusal == nil
		half, twice := hasMiddle(r.Method, r.URL.Path), isRepeated(r.Method, r.URL.Path)
		if effect {
			w.mu.Lock()
			c.CanBeWorse = half || twice
			w.mu.Unlock()
		}
		isWorse := effect && c.IsWorse
		return &embedded.Fault{Drop: true, After: effect, Half: isWorse && half, Twice: isWorse && twice}
	})
}

func (w *World) nextRequest(isRead bool) (effect, answer bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.crash == nil {
		return true, true
	}
	return w.crash.next(isRead)
}

// Crashed reports whether the controller has reached the point of CrashAt.
func (w *World) Crashed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.crash != nil && w.crash.crashed
}
