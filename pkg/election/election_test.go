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

package election

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationapi "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/record"
)

// options are the defaults of the flags.
var options = Options{
	Namespace:     "here",
	Name:          "controller",
	LeaseDuration: 15 * time.Second,
	RenewDeadline: 10 * time.Second,
	RetryPeriod:   400 * time.Millisecond,
}

const (
	// soon is enough for a Lease that was given up to be taken.
	soon = time.Second
	// long is enough for one that was not, and more.
	long = 30 * time.Second
)

// kubernetes is an API server with one client, to which things can happen. It knows of no
// conflicts.
type kubernetes struct {
	coordinationv1.LeasesGetter

	mu sync.Mutex
	// before is what happens to each request, and after to each answer; nil: nothing.
	before, after func(ctx context.Context, verb string) error
	// asked counts the requests.
	asked map[string]int
}

func newKubernetes() *kubernetes {
	return &kubernetes{LeasesGetter: fake.NewClientset().CoordinationV1(), asked: map[string]int{}}
}

// another returns another client of the same API server.
func (k *kubernetes) another() *kubernetes {
	return &kubernetes{LeasesGetter: k.LeasesGetter, asked: map[string]int{}}
}

func (k *kubernetes) Leases(namespace string) coordinationv1.LeaseInterface {
	return leases{k.LeasesGetter.Leases(namespace), k}
}

// harm has that happen from now on; nil ends it.
func (k *kubernetes) harm(before, after func(ctx context.Context, verb string) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.before, k.after = before, after
}

// requests returns how many there have been.
func (k *kubernetes) requests() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, times := range k.asked {
		n += times
	}
	return n
}

func (k *kubernetes) do(ctx context.Context, verb string, request func() error) error {
	k.mu.Lock()
	k.asked[verb]++
	before, after := k.before, k.after
	k.mu.Unlock()
	if before != nil {
		if err := before(ctx, verb); err != nil {
			return err
		}
	}
	err := request()
	if err == nil && after != nil {
		err = after(ctx, verb)
	}
	return err
}

// leases is what an Election uses of the client.
type leases struct {
	coordinationv1.LeaseInterface
	k *kubernetes
}

func (l leases) Get(ctx context.Context, name string, o metav1.GetOptions) (lease *coordinationapi.Lease, err error) {
	err = l.k.do(ctx, "get", func() error { lease, err = l.LeaseInterface.Get(ctx, name, o); return err })
	return lease, err
}

func (l leases) Create(ctx context.Context, new *coordinationapi.Lease, o metav1.CreateOptions) (lease *coordinationapi.Lease, err error) {
	err = l.k.do(ctx, "create", func() error { lease, err = l.LeaseInterface.Create(ctx, new, o); return err })
	return lease, err
}

func (l leases) Update(ctx context.Context, new *coordinationapi.Lease, o metav1.UpdateOptions) (lease *coordinationapi.Lease, err error) {
	err = l.k.do(ctx, "update", func() error { lease, err = l.LeaseInterface.Update(ctx, new, o); return err })
	return lease, err
}

// hangs is an API server that does not answer.
func hangs(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// refuses is an API server that is not there.
func refuses(context.Context, string) error { return errors.New("connection refused") }

// holder returns who holds the Lease; "" if nobody does.
func (k *kubernetes) holder(t *testing.T) string {
	t.Helper()
	lease, err := k.LeasesGetter.Leases(options.Namespace).Get(context.Background(), options.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// candidate is a replica whose work is to wait.
type candidate struct {
	*Election
	stop context.CancelFunc
	// leads is closed when it leads; asked, when it has been asked to stop after that.
	leads, asked chan struct{}
	// finish ends its work, with an error or nil.
	finish chan error
	// ended is what Run has returned.
	ended chan error
}

// run has a replica take part, until the test ends at the latest.
func run(t *testing.T, k coordinationv1.LeasesGetter) *candidate {
	t.Helper()
	e, err := New(k, nil, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := &candidate{e, cancel, make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan error, 1)}
	var running sync.WaitGroup
	running.Go(func() {
		c.ended <- e.Run(ctx, func(ctx context.Context) error {
			close(c.leads)
			<-ctx.Done()
			close(c.asked)
			return <-c.finish
		})
	})
	t.Cleanup(func() {
		defer running.Wait()
		c.stop()
		select {
		case c.finish <- nil:
		default: // the test has said already how it ends
		}
	})
	return c
}

// leader is run, and waits until the replica leads.
func leader(t *testing.T, k coordinationv1.LeasesGetter) *candidate {
	t.Helper()
	c := run(t, k)
	within(t, soon, "a leader", c.leads)
	return c
}

// within waits for something, and returns how long it took.
func within[T any](t *testing.T, limit time.Duration, what string, channel <-chan T) (value T, took time.Duration) {
	t.Helper()
	began := time.Now()
	select {
	case value = <-channel:
	case <-time.After(limit):
		t.Fatalf("within %s there was not: %s", limit, what)
	}
	return value, time.Since(began)
}

// never fails if something happens in that time.
func never[T any](t *testing.T, limit time.Duration, what string, channel <-chan T) {
	t.Helper()
	select {
	case <-channel:
		t.Fatalf("it must not happen: %s", what)
	case <-time.After(limit):
	}
}

// end lets it finish.
func (c *candidate) end(t *testing.T) {
	t.Helper()
	c.stop()
	c.finish <- nil
	if err, _ := within(t, soon, "the end", c.ended); err != nil {
		t.Errorf("it ended with %v", err)
	}
}

func TestTheLeaseIsKeptUntilTheWorkIsDoneAndTakenOverAtOnceThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubernetes()
		first := leader(t, k)
		second := run(t, k.another())
		never(t, long, "two lead", second.leads)

		first.stop()
		within(t, soon, "the end of its context", first.asked)
		never(t, long, "another leads while the work goes on", second.leads)
		if !first.Leads() || second.Leads() || k.holder(t) != first.Identity() || second.Leader() != first.Identity() {
			t.Errorf("while the work goes on, the Lease is held by %q", k.holder(t))
		}
		first.finish <- nil
		if err, _ := within(t, soon, "the end", first.ended); err != nil {
			t.Errorf("it ended with %v", err)
		}
		_, took := within(t, soon, "the next leader", second.leads)
		t.Logf("the next one leads %s after the work was done", took)
		if !second.Leads() || k.holder(t) != second.Identity() || second.Leader() != second.Identity() {
			t.Errorf("the Lease is held by %q", k.holder(t))
		}
		second.end(t)
		if holder := k.holder(t); holder != "" {
			t.Errorf("%q still holds the Lease", holder)
		}
	})
}

func TestTheNextOneLeadsWhenTheLeaseOfOneThatIsGoneHasRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubernetes()
		first, second := leader(t, k), run(t, k.another())
		never(t, long, "two lead", second.leads)
		k.harm(hangs, nil)
		_, took := within(t, options.LeaseDuration+2*time.Second, "the next leader", second.leads)
		if took < options.RenewDeadline || first.Leads() {
			t.Errorf("the next one leads after %s; the one before still: %t", took, first.Leads())
		}
		within(t, soon, "the end of the first", first.ended)
	})
}

func TestALostLeaseEndsItAtOnce(t *testing.T) {
	for name, harm := range map[string]func(context.Context, string) error{"no answer": hangs, "no connection": refuses} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKubernetes()
				c := leader(t, k)
				never(t, long, "the end", c.ended)

				k.harm(harm, nil)
				never(t, options.RenewDeadline-options.RetryPeriod-time.Millisecond, "the end before the deadline", c.ended)
				if !c.Leads() {
					t.Error("it does not lead while it tries")
				}
				<-time.After(options.RetryPeriod + 2*time.Millisecond)
				if c.Leads() {
					t.Error("it is sure to lead without a renewal in all that time")
				}
				err, _ := within(t, options.RetryPeriod+soon, "the end", c.ended)
				if !errors.Is(err, ErrLost) {
					t.Errorf("it ended with %v", err)
				}
				asked := k.requests()
				never(t, long, "the end of the work, which nobody has asked for", c.asked)
				if more := k.requests() - asked; more != 0 {
					t.Errorf("after it has lost the Lease it asks Kubernetes %d times", more)
				}
			})
		})
	}
}

func TestAShortOutageLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubernetes()
		first, second := leader(t, k), run(t, k.another())
		k.harm(refuses, nil)
		<-time.After(options.RenewDeadline - time.Second)
		k.harm(nil, nil)
		never(t, long, "two lead", second.leads)
		if !first.Leads() {
			t.Error("it leads no more")
		}
	})
}

func TestACandidateThatIsStoppedBeforeItLeadsLeavesNothingBehind(t *testing.T) {
	t.Run("another one leads", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newKubernetes()
			first := leader(t, k)
			second := run(t, k.another())
			never(t, long, "two lead", second.leads)
			second.stop()
			if err, _ := within(t, soon, "the end", second.ended); err != nil {
				t.Errorf("it ended with %v", err)
			}
			if k.holder(t) != first.Identity() || !first.Leads() {
				t.Errorf("the Lease is held by %q", k.holder(t))
			}
		})
	})
	t.Run("Kubernetes does not answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newKubernetes()
			// As the client's own time-out does.
			k.harm(func(ctx context.Context, verb string) error {
				ctx, cancel := context.WithTimeout(ctx, options.RenewDeadline/2)
				defer cancel()
				return hangs(ctx, verb)
			}, nil)
			c := run(t, k)
			never(t, long, "it leads", c.leads)
			c.stop()
			if err, _ := within(t, options.RenewDeadline+soon, "the end", c.ended); err != nil {
				t.Errorf("it ended with %v", err)
			}
			never(t, long, "it leads", c.leads)
		})
	})
	t.Run("the answer that it leads comes when it has been stopped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newKubernetes()
			k.harm(nil, func(_ context.Context, verb string) error {
				if verb == "create" {
					<-time.After(time.Second)
				}
				return nil
			})
			c := run(t, k)
			never(t, time.Second/2, "it leads", c.leads)
			c.stop()
			if err, _ := within(t, 2*soon, "the end", c.ended); err != nil {
				t.Errorf("it ended with %v", err)
			}
			if holder := k.holder(t); holder != "" {
				t.Errorf("%q holds the Lease", holder)
			}
			never(t, long, "it leads", c.leads)
		})
	})
}

func TestWhatLeadReturnsIsReturnedAndTheLeaseGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubernetes()
		c := leader(t, k)
		failed := errors.New("no luck")
		c.finish <- failed
		c.stop()
		if err, _ := within(t, soon, "the end", c.ended); !errors.Is(err, failed) {
			t.Errorf("it ended with %v", err)
		}
		if holder := k.holder(t); holder != "" {
			t.Errorf("%q still holds the Lease", holder)
		}
	})
}

func TestALeaseThatIsNotGivenUpIsWaitedForNoLongerThanItIsWorth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubernetes()
		c := leader(t, k)
		k.harm(hangs, nil)
		c.stop()
		c.finish <- nil
		if err, _ := within(t, options.RenewDeadline+soon, "the end", c.ended); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestWhatWouldBeAnErrorForEverIsOneAtOnceThatSaysWhatToDo(t *testing.T) {
	resource := coordinationapi.Resource("leases")
	forbidden := apierrors.NewForbidden(resource, options.Name, errors.New("no right"))
	for _, tt := range []struct {
		name, verb string
		err        error
	}{
		{"no right to read it", "get", forbidden},
		{"no right to make it", "create", forbidden},
		{"no right to change it", "update", forbidden},
		{"no such namespace", "create", apierrors.NewNotFound(corev1.Resource("namespaces"), options.Namespace)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKubernetes()
				if tt.verb == "update" {
					leader(t, k.another()).end(t)
				}
				k.harm(func(_ context.Context, verb string) error {
					if verb == tt.verb {
						return tt.err
					}
					return nil
				}, nil)
				c := run(t, k)
				err, _ := within(t, soon, "the end", c.ended)
				if !errors.Is(err, tt.err) || !strings.Contains(err.Error(), "-leader-elect=false") {
					t.Errorf("it ended with %v", err)
				}
				never(t, long, "it leads", c.leads)
			})
		})
	}
}

func TestTheElectionIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := record.NewFakeRecorder(10)
		e, err := New(newKubernetes(), recorder, options)
		if err != nil {
			t.Fatal(err)
		}
		if e.Leads() || e.Leader() != "" {
			t.Errorf("it has not begun, and %q leads", e.Leader())
		}
		if err := e.Run(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"became leader", "stopped leading"} {
			if event, _ := within(t, soon, want, recorder.Events); !strings.Contains(event, "LeaderElection "+e.Identity()+" "+want) {
				t.Errorf("want %q, got %q", want, event)
			}
		}
	})
}

func TestOptionsThatMakeNoSenseAreAnError(t *testing.T) {
	senseless := options
	senseless.RenewDeadline = options.LeaseDuration
	if _, err := New(newKubernetes(), nil, senseless); err == nil || !strings.Contains(err.Error(), "leader election") {
		t.Errorf("got %v", err)
	}
}
