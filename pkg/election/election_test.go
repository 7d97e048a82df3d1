// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
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
	// soon is enough time to take a Lease that was released.
	soon = time.Second
	// long is more than enough for a Lease to expire.
	long = 30 * time.Second
)

// kubernetes is one client of an API server. Its requests can be made to fail. There are no
// conflicts.
type kubernetes struct {
	coordinationv1.LeasesGetter

	mu sync.Mutex
	// before is called with each request, and after with each answer; nil: nothing happens.
	before, after func(ctx context.Context, verb string) error
	// asked counts the requests by verb.
	asked map[string]int
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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

// harm sets what happens to requests and answers from now on.
func (k *kubernetes) harm(before, after func(ctx context.Context, verb string) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.before, k.after = before, after
}

// requests returns the number of requests so far.
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

// leases has the methods of the client that an Election uses.
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

// hangs simulates an API server that does not answer.
func hangs(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// refuses simulates an API server that does not run.
func refuses(context.Context, string) error { return errors.New("connection refused") }

// holder returns the identity of the Lease's holder, or "".
func (k *kubernetes) holder(t *testing.T) string {
	t.Helper()
	lease, err := k.LeasesGetter.Leases(options.Namespace).Get(context.Background(), options.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	must(t, err)
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// candidate is a replica that waits instead of working.
type candidate struct {
	*Election
	stop context.CancelFunc
	// leads is closed when it leads, and asked when it was told to stop after that.
	leads, asked chan struct{}
	// finish ends its work with an error or nil.
	finish chan error
	// ended receives what Run returned.
	ended chan error
}

// run starts a replica. It stops when the test ends, at the latest.
func run(t *testing.T, k coordinationv1.LeasesGetter) *candidate {
	t.Helper()
	e, err := New(k, nil, &options, func() {})
	must(t, err)
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
		default: // the test has sent something already
		}
	})
	return c
}

// leader starts a replica and waits until it leads.
func leader(t *testing.T, k coordinationv1.LeasesGetter) *candidate {
	t.Helper()
	c := run(t, k)
	within(t, soon, "a leader", c.leads)
	return c
}

// within waits for a value, and returns it and how long that took.
func within[T any](t *testing.T, limit time.Duration, what string, channel <-chan T) (value T, took time.Duration) {
	t.Helper()
	began := time.Now()
	select {
	case value = <-channel:
	case <-time.After(limit):
		t.Fatalf("waited %s in vain for %s", limit, what)
	}
	return value, time.Since(began)
}

// never fails the test if a value comes within limit.
func never[T any](t *testing.T, limit time.Duration, what string, channel <-chan T) {
	t.Helper()
	select {
	case <-channel:
		t.Fatalf("unexpected: %s", what)
	case <-time.After(limit):
	}
}

// end stops it, lets it finish, and expects no error.
func (c *candidate) end(t *testing.T) {
	t.Helper()
	c.stop()
	c.finish <- nil
	if err, _ := within(t, soon, "Run to return", c.ended); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

func TestTheLeaseIsHeldUntilTheWorkIsDoneAndThenTakenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubernetes()
		first := leader(t, k)
		second := run(t, k.another())
		never(t, long, "two leaders", second.leads)

		first.stop()
		within(t, soon, "its context to be cancelled", first.asked)
		never(t, long, "another leader while the work goes on", second.leads)
		if !first.Leads() || second.Leads() || k.holder(t) != first.identity || second.Leader() != first.identity {
			t.Errorf("while the work goes on, %q holds the Lease", k.holder(t))
		}
		first.finish <- nil
		if err, _ := within(t, soon, "Run to return", first.ended); err != nil {
			t.Errorf("Run returned %v", err)
		}
		_, took := within(t, soon, "the next leader", second.leads)
		t.Logf("the next one leads %s after the work was done", took)
		if !second.Leads() || k.holder(t) != second.identity || second.Leader() != second.identity {
			t.Errorf("%q holds the Lease", k.holder(t))
		}
		second.end(t)
		if holder := k.holder(t); holder != "" {
			t.Errorf("%q still holds the Lease", holder)
		}
	})
}

func TestALostLeaseEndsRunAtOnce(t *testing.T) {
	for name, harm := range map[string]func(context.Context, string) error{"no answer": hangs, "no connection": refuses} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKubernetes()
				c := leader(t, k)
				never(t, long, "Run returned", c.ended)

				k.harm(harm, nil)
				never(t, options.RenewDeadline-options.RetryPeriod-time.Millisecond, "Run returned before the deadline", c.ended)
				if !c.Leads() {
					t.Error("it does not lead while it retries")
				}
				<-time.After(options.RetryPeriod + 2*time.Millisecond)
				if c.Leads() {
					t.Error("it still leads, without a renewal within RenewDeadline")
				}
				err, _ := within(t, options.RetryPeriod+soon, "Run to return", c.ended)
				if !errors.Is(err, ErrLost) {
					t.Errorf("Run returned %v", err)
				}
				asked := k.requests()
				never(t, long, "the work was told to stop", c.asked)
				if more := k.requests() - asked; more != 0 {
					t.Errorf("%d requests after the Lease was lost", more)
				}
			})
		})
	}
}

func TestACandidateThatStopsBeforeItLeadsLeavesNoLeaseBehind(t *testing.T) {
	t.Run("Kubernetes does not answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			k := newKubernetes()
			// As the client's own timeout does.
			k.harm(func(ctx context.Context, verb string) error {
				ctx, cancel := context.WithTimeout(ctx, options.RenewDeadline/2)
				defer cancel()
				return hangs(ctx, verb)
			}, nil)
			c := run(t, k)
			never(t, long, "it leads", c.leads)
			c.stop()
			if err, _ := within(t, options.RenewDeadline+soon, "Run to return", c.ended); err != nil {
				t.Errorf("Run returned %v", err)
			}
			never(t, long, "it leads", c.leads)
		})
	})
	t.Run("the answer that it leads comes after the stop", func(t *testing.T) {
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
			if err, _ := within(t, 2*soon, "Run to return", c.ended); err != nil {
				t.Errorf("Run returned %v", err)
			}
			if holder := k.holder(t); holder != "" {
				t.Errorf("%q holds the Lease", holder)
			}
			never(t, long, "it leads", c.leads)
		})
	})
}

func TestReleasingTheLeaseIsBoundedByRenewDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubernetes()
		c := leader(t, k)
		k.harm(hangs, nil)
		c.stop()
		c.finish <- nil
		if err, _ := within(t, options.RenewDeadline+soon, "Run to return", c.ended); err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
}

func TestRunReleasesTheLeaseWithRetriesAndReturnsTheErrorOfLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubernetes()
		c := leader(t, k)
		var requests atomic.Int32
		k.harm(func(ctx context.Context, verb string) error {
			if requests.Add(1) <= 3 {
				return refuses(ctx, verb)
			}
			return nil
		}, nil)
		failed := errors.New("no luck")
		c.finish <- failed
		c.stop()
		if err, _ := within(t, options.RenewDeadline, "Run to return", c.ended); !errors.Is(err, failed) {
			t.Errorf("Run returned %v", err)
		}
		if holder := k.holder(t); holder != "" || requests.Load() <= 3 {
			t.Errorf("%q holds the Lease after %d requests", holder, requests.Load())
		}
	})
}

func TestAPermanentErrorIsReturnedAtOnceWithAdvice(t *testing.T) {
	resource := coordinationapi.Resource("leases")
	forbidden := apierrors.NewForbidden(resource, options.Name, errors.New("no right"))
	for _, tt := range []struct {
		name, verb string
		err        error
	}{
		{"no permission to read it", "get", forbidden},
		{"no permission to create it", "create", forbidden},
		{"no permission to update it", "update", forbidden},
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
				err, _ := within(t, soon, "Run to return", c.ended)
				if !errors.Is(err, tt.err) || !strings.Contains(err.Error(), "-leader-elect=false") {
					t.Errorf("Run returned %v", err)
				}
				never(t, long, "it leads", c.leads)
			})
		})
	}
}

func TestTheElectionIsRecordedInEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := record.NewFakeRecorder(10)
		e, err := New(newKubernetes(), recorder, &options, func() {})
		must(t, err)
		if e.Leads() || e.Leader() != "" {
			t.Errorf("before the start, %q leads", e.Leader())
		}
		must(t, e.Run(t.Context(), func(context.Context) error { return nil }))
		for _, want := range []string{"became leader", "stopped leading"} {
			if event, _ := within(t, soon, want, recorder.Events); !strings.Contains(event, "LeaderElection "+e.identity+" "+want) {
				t.Errorf("want %q, got %q", want, event)
			}
		}
	})
}

func TestInvalidOptionsAreAnError(t *testing.T) {
	senseless := options
	senseless.RenewDeadline = options.LeaseDuration
	if _, err := New(newKubernetes(), nil, &senseless, func() {}); err == nil || !strings.Contains(err.Error(), "leader election") {
		t.Errorf("got %v", err)
	}
}

func TestTheOnlyReplicaLeads(t *testing.T) {
	e, err := New(nil, nil, nil, func() { t.Error("the lease is lost") })
	must(t, err)
	e.MustLead()
	if e.Leader() != "" || !e.Leads() {
		t.Errorf("the leader is %q, here: %t", e.Leader(), e.Leads())
	}
	failed := errors.New("failed")
	if err := e.Run(t.Context(), func(context.Context) error { return failed }); err != failed {
		t.Errorf("got %v", err)
	}
}

func TestAReplicaThatLosesTheLeaseIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, lost := newKubernetes(), 0
		e, err := New(k, nil, &options, func() { lost++ })
		must(t, err)
		if e.MustLead(); lost != 1 {
			t.Errorf("before it leads: lost was called %d times", lost)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan error)
		go func() { ended <- e.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
		time.Sleep(soon)
		if e.MustLead(); lost != 1 || !e.Leads() || e.Leader() != k.holder(t) {
			t.Errorf("while %q leads, here: %t: lost was called %d times", e.Leader(), e.Leads(), lost)
		}
		k.harm(refuses, nil)
		if err := <-ended; !errors.Is(err, ErrLost) || lost != 2 {
			t.Errorf("got %v; lost was called %d times", err, lost)
		}
		if e.MustLead(); lost != 3 {
			t.Errorf("afterwards: lost was called %d times", lost)
		}
	})
}

// A process that is suspended while Kubernetes answers may read the answer when another leads.
func TestAnAnswerThatIsReadLateDoesNotCountAsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubernetes()
		c := leader(t, k)
		var once sync.Once
		read := make(chan struct{})
		k.harm(nil, func(_ context.Context, verb string) error {
			if verb == "update" {
				once.Do(func() {
					<-time.After(options.LeaseDuration + time.Second)
					close(read)
				})
			}
			return nil
		})
		within(t, long, "the answer", read)
		synctest.Wait()
		if c.Leads() {
			t.Error("it still leads, long after its last renewal")
		}
	})
}

func TestALeaseThatAnotherReplicaTookEndsRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubernetes()
		c := leader(t, k)
		other := "another"
		k.harm(func(ctx context.Context, verb string) error {
			if verb != "update" {
				return nil
			}
			held, err := k.LeasesGetter.Leases(options.Namespace).Get(ctx, options.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			held.Spec.HolderIdentity = &other
			_, err = k.LeasesGetter.Leases(options.Namespace).Update(ctx, held, metav1.UpdateOptions{})
			return errors.Join(err, errors.New("conflict"))
		}, nil)
		if err, _ := within(t, soon, "Run to return", c.ended); !errors.Is(err, ErrLost) {
			t.Errorf("Run returned %v", err)
		}
		if c.Leads() {
			t.Error("it still leads")
		}
		synctest.Wait()
		if c.Leader() != other || k.holder(t) != other {
			t.Errorf("%q leads", c.Leader())
		}
	})
}

// A process can be suspended between its last request to OpenStack and the release. client-go's own
// release would take the Lease away from the next leader here.
func TestTheLeaseOfASuccessorIsNotReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKubernetes()
		c := leader(t, k)
		synctest.Wait() // the first renewal would overwrite the successor: the fake knows no conflicts
		lease, err := k.LeasesGetter.Leases(options.Namespace).Get(t.Context(), options.Name, metav1.GetOptions{})
		must(t, err)
		successor := "successor"
		lease.Spec.HolderIdentity = &successor
		_, err = k.LeasesGetter.Leases(options.Namespace).Update(t.Context(), lease, metav1.UpdateOptions{})
		must(t, err)
		c.end(t)
		if holder := k.holder(t); holder != successor {
			t.Errorf("%q holds the Lease", holder)
		}
	})
}
