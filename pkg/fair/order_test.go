// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fair

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/workqueue"
)

// groupOf returns the group of a key such as "cloud/namespace/name". "/namespace/name" is in
// the zero cloud. An administrator has chosen those in capitals.
func groupOf(key string) Group[string] {
	parts := strings.Split(key, "/")
	return Group[string]{Cloud: parts[0], Namespace: parts[1], IsOffered: parts[0] != strings.ToLower(parts[0])}
}

func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// popAll pops keys until a limit is reached or nothing waits, and returns them.
func popAll(o *Order[string, string]) (keys []string) {
	for o.Len() > 0 {
		keys = append(keys, o.Pop())
	}
	return keys
}

// drain pops and releases all keys, and checks that the Order then holds nothing.
func drain(t *testing.T, o *Order[string, string], handedOut []string) {
	t.Helper()
	for {
		for _, key := range handedOut {
			o.Release(key)
		}
		if handedOut = popAll(o); len(handedOut) == 0 {
			break
		}
	}
	expectEmpty(t, o)
}

// expectEmpty checks that the Order holds nothing except the zero cloud, which is empty.
func expectEmpty(t *testing.T, o *Order[string, string]) {
	t.Helper()
	if own := o.waiting[""]; own != nil && own.count+len(own.namespaces)+len(own.keys) > 0 {
		t.Errorf("the zero cloud holds %+v", own)
	}
	delete(o.waiting, "")
	if len(o.waiting)+len(o.turns)+len(o.processing)+len(o.busy)+len(o.tenants) > 0 {
		t.Errorf("the Order holds %+v", o)
	}
}

func TestTheOrderIsRoundRobinAmongCloudsAndAmongTheirNamespaces(t *testing.T) {
	for _, test := range []struct {
		name string
		push string
		want string
	}{
		{"first come, first served within a namespace", "/x/3 /x/1 /x/2", "/x/3 /x/1 /x/2"},
		{"namespaces take turns", "/x/1 /x/2 /x/3 /y/1 /y/2 /z/1", "/x/1 /y/1 /z/1 /x/2 /y/2 /x/3"},
		{"clouds take turns", "a/x/1 a/x/2 a/x/3 b/x/1 b/x/2 c/x/1", "a/x/1 b/x/1 c/x/1 a/x/2 b/x/2 a/x/3"},
		{"the zero cloud takes turns too", "/x/1 /x/2 /x/3 b/x/1 b/x/2", "/x/1 b/x/1 /x/2 b/x/2 /x/3"},
		{"many namespaces do not give a cloud more turns", "a/x/1 a/y/1 a/z/1 b/x/1 b/x/2", "a/x/1 b/x/1 a/y/1 b/x/2 a/z/1"},
		{"the same namespace in two clouds is two namespaces", "a/x/1 a/x/2 a/y/1 b/x/1 b/x/2 b/y/1", "a/x/1 b/x/1 a/y/1 b/y/1 a/x/2 b/x/2"},
		{"nothing is pushed", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := NewOrder(groupOf, Limits{PerCloud: 100, Total: 100})
			keys := strings.Fields(test.push)
			for _, key := range keys {
				o.Push(key)
				o.Touch(keys[0]) // it keeps its place
				equal(t, true, o.Len() > 0)
			}
			got := popAll(o)
			equal(t, test.want, strings.Join(got, " "))
			drain(t, o, got)
		})
	}
}

func TestAKeyThatComesBackWaitsBehindTheOthers(t *testing.T) {
	for _, test := range []struct {
		name string
		push string
		want string // after the first key was pushed again
	}{
		{"behind its namespace", "/x/1 /x/2 /x/3", "/x/2 /x/3 /x/1"},
		{"behind the other namespaces, if it is the only key of its own", "/x/1 /y/1 /y/2 /z/1", "/y/1 /z/1 /x/1 /y/2"},
		{"behind the other clouds, if it is the only key of its own", "a/x/1 b/x/1 b/x/2 c/x/1", "b/x/1 c/x/1 a/x/1 b/x/2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := NewOrder(groupOf, Limits{PerCloud: 100, Total: 100})
			for key := range strings.FieldsSeq(test.push) {
				o.Push(key)
			}
			first := o.Pop()
			o.Release(first)
			o.Push(first)
			got := popAll(o)
			equal(t, test.want, strings.Join(got, " "))
			drain(t, o, got)
		})
	}
}

func TestLimits(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits Limits
		// script has the verbs push and release with keys, and pop with the keys that are
		// handed out until a limit is reached or nothing waits.
		script []string
	}{
		{"a cloud has at most its limit, and another cloud is not held up", Limits{PerCloud: 2, Total: 10}, []string{
			"push a/x/1 a/x/2 a/x/3 a/x/4 a/x/5 b/x/1", "pop a/x/1 b/x/1 a/x/2", "pop",
			"release a/x/1", "pop a/x/3", "pop",
			"release a/x/2", "pop a/x/4", "release a/x/4", "pop a/x/5", "release a/x/3 a/x/5 b/x/1", "pop"}},
		{"all clouds together have at most the total", Limits{PerCloud: 2, Total: 3}, []string{
			"push a/x/1 a/x/2 b/y/1 b/y/2 c/z/1", "pop a/x/1 b/y/1 c/z/1", "pop",
			"release b/y/1", "pop b/y/2", "push d/w/1", "pop", "release a/x/1", "pop a/x/2", "release b/y/2", "pop d/w/1"}},
		{"a cloud has at most as many as are left", Limits{PerCloud: 10, Total: 6}, []string{
			"push a/x/1 a/x/2 a/x/3 a/x/4", "pop a/x/1 a/x/2 a/x/3", "pop",
			"push b/y/1 b/y/2 b/y/3", "pop b/y/1 b/y/2", "pop", "push c/z/1 c/z/2", "pop c/z/1", "pop",
			"release a/x/1", "pop", "release a/x/2", "pop a/x/4", "release a/x/3", "pop c/z/2"}},
		{"a namespace has at most twice as many as are left", Limits{PerCloud: 10, Total: 6}, []string{
			"push a/x/1 b/x/1 c/x/1 d/x/1 e/x/1 f/x/1", "pop a/x/1 b/x/1 c/x/1 d/x/1", "pop",
			"push a/y/1 a/y/2 g/y/1", "pop a/y/1 g/y/1", "release a/x/1 b/x/1 c/x/1", "pop e/x/1 f/x/1"}},
		{"one release makes room in the cloud, and in the namespace", Limits{PerCloud: 1, Total: 6}, []string{
			"push a/x/1 b/x/1 c/x/1 d/x/1 e/x/1", "pop a/x/1 b/x/1 c/x/1 d/x/1", "push a/y/1", "pop", "release a/x/1", "pop e/x/1 a/y/1"}},
		{"what users choose leaves some to what an administrator has chosen", Limits{PerCloud: 10, Total: 8, Untrusted: 4}, []string{
			"push a/x/1 a/x/2 a/x/3 b/y/1 b/y/2 c/z/1 c/z/2 d/w/1", "pop a/x/1 b/y/1 c/z/1 d/w/1", "pop",
			"push A/q/1 A/q/2 A/q/3", "pop A/q/1 A/q/2", "pop", "release a/x/1", "pop a/x/2", "release A/q/1", "pop A/q/3"}},
		{"the zero cloud has no limit unless it is set", Limits{PerCloud: 1, Total: 1}, []string{
			"push /x/1 /x/2 /x/3 a/x/1 a/x/2", "pop /x/1 a/x/1 /x/2 /x/3", "push /x/4", "pop /x/4"}},
		{"the release of a key of the zero cloud makes no room for others", Limits{PerCloud: 1, Total: 1}, []string{
			"push /x/1 a/x/1 a/x/2", "pop /x/1 a/x/1", "release /x/1", "pop"}},
		{"the zero cloud has at most its limit, and another cloud is not held up", Limits{PerCloud: 2, Total: 4, Own: 2}, []string{
			"push /x/1 /x/2 /x/3 /y/1 a/x/1", "pop /x/1 a/x/1 /y/1", "pop", "push a/x/2 b/x/1", "pop a/x/2 b/x/1",
			"release /x/1", "pop /x/2", "release a/x/1", "pop", "release /y/1 /x/2", "pop /x/3"}},
		{"the limit of the zero cloud is not part of the total", Limits{PerCloud: 1, Total: 1, Own: 2}, []string{
			"push /x/1 /x/2 /x/3 a/x/1 b/x/1", "pop /x/1 a/x/1 /x/2", "release a/x/1", "pop b/x/1", "release /x/2", "pop /x/3"}},
		{"a namespace of the zero cloud is not one of the others", Limits{PerCloud: 10, Total: 2}, []string{
			"push /x/1 /x/2 /x/3 a/x/1 b/x/1", "pop /x/1 a/x/1 b/x/1 /x/2 /x/3"}},
		{"a key makes room once, however often it is released", Limits{PerCloud: 1, Total: 2}, []string{
			"push a/x/1 a/x/2 a/x/3", "pop a/x/1", "release a/x/1", "pop a/x/2", "release a/x/1", "pop"}},
		{"a key that was never handed out makes no room", Limits{PerCloud: 1, Total: 1}, []string{
			"push a/x/1 a/x/2", "pop a/x/1", "release a/x/2 b/x/1", "pop"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := NewOrder(groupOf, test.limits)
			var handedOut []string
			for _, line := range test.script {
				words := strings.Fields(line)
				switch words[0] {
				case "push":
					for _, key := range words[1:] {
						o.Push(key)
					}
				case "release":
					for _, key := range words[1:] {
						o.Release(key)
					}
				case "pop":
					equal(t, len(words) > 1, o.Len() > 0)
					popped := popAll(o)
					equal(t, words, append([]string{"pop"}, popped...))
					handedOut = append(handedOut, popped...)
				}
			}
			drain(t, o, handedOut)
		})
	}
}

func TestNewLimits(t *testing.T) {
	for _, test := range []struct {
		name                 string
		workers, connections int
		want                 Limits
	}{
		{"the defaults", 32, 8, Limits{PerCloud: 16, Total: 24, Untrusted: 18, Own: 17}},
		{"few connections", 32, 2, Limits{PerCloud: 4, Total: 24, Untrusted: 18, Own: 17}},
		{"four workers", 4, 8, Limits{PerCloud: 16, Total: 3, Untrusted: 3, Own: 3}},
		{"three workers", 3, 8, Limits{PerCloud: 16, Total: 2, Untrusted: 2, Own: 2}},
		{"two workers", 2, 8, Limits{PerCloud: 16, Total: 1, Untrusted: 1, Own: 1}},
		{"one worker takes turns", 1, 1, Limits{PerCloud: 2, Total: 1, Untrusted: 1, Own: 1}},
	} {
		t.Run(test.name, func(t *testing.T) { equal(t, test.want, NewLimits(test.workers, test.connections)) })
	}
}

// A cloud that is slow takes all the workers that it may have, and the Networks of the others go on. With few workers,
// it leaves one to each other kind of cloud, as far as there are any.
func TestASlowCloudLeavesWorkersToTheOthers(t *testing.T) {
	for _, test := range []struct {
		name    string
		workers int
		slow    []string // groups
		fast    string   // a key
	}{
		{"the own cloud, and a cloud of a Secret", 32, []string{"/x"}, "a/x/fast"},
		{"one cloud of a Secret, and another one", 32, []string{"a/x"}, "b/x/fast"},
		{"all clouds of Secrets, and the own cloud", 32, []string{"a/x", "b/x", "c/y", "d/z"}, "/x/fast"},
		{"the own cloud and a cloud of a Secret, and another one", 32, []string{"/x", "a/x"}, "b/x/fast"},
		{"two clouds of one namespace, and that of another", 32, []string{"a/x", "b/x"}, "c/y/fast"},
		{"many clouds of one namespace, and that of another", 32, strings.Fields("a/x b/x c/x d/x e/x f/x g/x h/x"), "i/y/fast"},
		{"a cloud of many namespaces, and that of another", 32, strings.Fields("a/p a/q a/r a/s a/t a/u a/v a/w"), "b/y/fast"},
		{"two clouds of each of two namespaces, and that of another", 32, strings.Fields("a/p b/p c/q d/q"), "e/y/fast"},
		{"the Secrets of many namespaces, and a ClusterCloud", 32, strings.Fields("a/p b/q c/r d/s e/t f/u g/v h/w i/x j/y"), "A/z/fast"},
		{"the Secrets of many namespaces and a ClusterCloud, and another one", 32, strings.Fields("a/p b/q c/r d/s e/t f/u g/v h/w A/x"), "B/z/fast"},
		{"the Secrets of many namespaces and two ClusterClouds, and the own cloud", 32, strings.Fields("a/p b/q c/r d/s e/t f/u g/v h/w A/x B/y"), "/z/fast"},
		{"two workers, and the own cloud is slow", 2, []string{"/x"}, "a/x/fast"},
		{"two workers, and a cloud of a Secret is slow", 2, []string{"a/x"}, "/x/fast"},
		{"three workers, and a cloud of a Secret is slow", 3, []string{"a/x"}, "b/x/fast"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPool(t, NewLimits(test.workers, 8), test.workers, func(key string) {
					if key != test.fast {
						time.Sleep(time.Second)
					}
				})
				for _, group := range test.slow {
					for i := range 2 * test.workers {
						p.add(fmt.Sprint(group, "/", i))
					}
					synctest.Wait() // the first take more than the later ones
				}
				p.add(test.fast)
				synctest.Wait()
				p.mu.Lock()
				if p.served[test.fast] != 1 {
					t.Errorf("it is not processed while %d workers are busy", len(p.busy))
				}
				p.mu.Unlock()
				time.Sleep(time.Minute)
				p.stop()
				expectEmpty(t, p.order)
			})
		})
	}
}

// A Network can name other credentials while its key waits or is being processed.
func TestAKeyCountsForTheCloudThatItHadWhenItWasPushed(t *testing.T) {
	cloud := "a"
	o := NewOrder(func(key string) Group[string] {
		if key == "moves" {
			return Group[string]{Cloud: cloud, Namespace: "x"}
		}
		return groupOf(key)
	}, Limits{PerCloud: 1, Total: 10})
	o.Push("moves")
	cloud = "b"
	o.Push("a/x/1")
	o.Push("b/x/1")
	equal(t, []string{"moves", "b/x/1"}, popAll(o)) // so it is handed out for a, which is full then
	o.Release("moves")
	equal(t, []string{"a/x/1"}, popAll(o))
	o.Push("moves")
	equal(t, []string(nil), popAll(o)) // b is full
	o.Release("b/x/1")
	equal(t, []string{"moves"}, popAll(o))
	drain(t, o, []string{"a/x/1", "moves"})
}

func TestNoGroupWaitsForEver(t *testing.T) {
	for _, test := range []struct {
		name    string
		endless string // groups whose backlogs never end
		late    string // the group of one key that is pushed later
		limits  Limits
		workers int
	}{
		{"clouds, without limits", "a/x b/x", "c/x", Limits{PerCloud: 100, Total: 100}, 5},
		{"clouds at their limits", "a/x b/x", "c/x", Limits{PerCloud: 2, Total: 100}, 10},
		{"clouds that reach the total", "a/x b/x", "c/x", Limits{PerCloud: 2, Total: 3}, 10},
		{"clouds that reach the total beside a busy zero cloud", "a/x b/x /x", "c/x", Limits{PerCloud: 2, Total: 3}, 6},
		{"the zero cloud", "a/x b/x", "/x", Limits{PerCloud: 2, Total: 3}, 5},
		{"one worker", "a/x b/x /x", "c/x", Limits{PerCloud: 2, Total: 3}, 1},
		{"namespaces of the zero cloud", "/x /y", "/z", Limits{PerCloud: 2, Total: 3}, 5},
		{"namespaces of a cloud beside other clouds", "a/x a/y b/x b/y", "a/z", Limits{PerCloud: 2, Total: 3}, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			for seed := range uint64(20) {
				starve(t, seed, strings.Fields(test.endless), test.late, test.limits, test.workers)
			}
		})
	}
}

// starve keeps a number of workers busy with keys of endless backlogs, and checks that a key
// of another group is handed out after at most one key of each group that it competes with.
func starve(t *testing.T, seed uint64, endless []string, late string, limits Limits, workers int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	cloudOf := func(group string) string { return groupOf(group).Cloud }
	amongNamespaces := slices.ContainsFunc(endless, func(group string) bool { return cloudOf(group) == cloudOf(late) })
	competes := func(group string) bool {
		if amongNamespaces {
			return cloudOf(group) == cloudOf(late)
		}
		return cloudOf(group) != "" // the zero cloud goes on while the total is reached
	}
	o := NewOrder(groupOf, limits)
	pushed := 0
	push := func(group string) {
		pushed++
		o.Push(fmt.Sprint(group, "/", pushed))
	}
	for _, group := range endless {
		for range 10 {
			push(group)
		}
	}
	var busy []string
	passed := map[string]int{} // how many keys of each group were handed out before the late one
	for turn := range 1000 {
		if turn == 50 {
			o.Push(late + "/late")
		}
		for o.Len() > 0 && len(busy) < workers {
			key := o.Pop()
			if key == late+"/late" {
				return
			}
			busy = append(busy, key)
			group := key[:strings.LastIndex(key, "/")]
			push(group)
			if turn < 50 {
				continue
			}
			if passed[group]++; passed[group] > 1 && competes(group) {
				t.Fatalf("seed %d: two keys of %s were handed out before the one of %s", seed, group, late)
			}
		}
		i := random.IntN(len(busy))
		o.Release(busy[i])
		busy = slices.Delete(busy, i, i+1)
	}
	t.Fatalf("seed %d: the key of %s was not handed out", seed, late)
}

// pool is a queue with workers, in a synctest bubble.
type pool struct {
	t     *testing.T
	queue workqueue.TypedRateLimitingInterface[string]
	order *Order[string, string]
	// process is called by the workers for each key, without the lock.
	process func(key string)

	mu sync.Mutex
	// journal has the keys in the order in which their processing began.
	journal []string
	// busy are the keys that are being processed; most is the greatest number of them at one
	// time, by cloud, and of all limited clouds under "total".
	busy map[string]bool
	most map[string]int
	// asked counts the requests for each key, served how many there were when its last
	// processing began.
	asked, served map[string]int
	running       sync.WaitGroup
}

func newPool(t *testing.T, limits Limits, workers int, process func(string)) *pool {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Millisecond, 20*time.Millisecond)
	p := &pool{t: t, queue: NewQueue("test", groupOf, limits, workqueue.TypedRateLimiter[string](limiter)), process: process,
		busy: map[string]bool{}, most: map[string]int{}, asked: map[string]int{}, served: map[string]int{}}
	p.order = p.queue.(*queue[string, string]).order
	for range workers {
		p.running.Go(p.work)
	}
	return p
}

func (p *pool) work() {
	for {
		key, shutdown := p.queue.Get()
		if shutdown {
			return
		}
		p.begin(key)
		p.process(key)
		p.end(key)
		p.queue.Done(key)
	}
}

func (p *pool) begin(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.journal = append(p.journal, key)
	if p.busy[key] {
		p.t.Errorf("%s was handed out to two workers", key)
	}
	p.busy[key] = true
	counts := map[string]int{}
	for key := range p.busy {
		counts[groupOf(key).Cloud]++
		if groupOf(key).Cloud != "" {
			counts["total"]++
		}
	}
	for cloud, n := range counts {
		p.most[cloud] = max(p.most[cloud], n)
	}
	p.served[key] = p.asked[key]
}

func (p *pool) end(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, key)
}

// ask adds the key with one of the queue's methods. A processing of the key must begin after
// that.
func (p *pool) ask(key string, add func(string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[key]++
	add(key)
}

// add adds keys.
func (p *pool) add(keys ...string) {
	for _, key := range keys {
		p.ask(key, p.queue.Add)
	}
}

// stop shuts the queue down, and waits for the workers.
func (p *pool) stop() {
	p.queue.ShutDown()
	p.running.Wait() // a worker that hangs is a deadlock of the bubble
}

func TestARoomIsUsedWithoutAnotherAdd(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits Limits
		add    string
		before string // the keys that are processed before the end of the first one
		next   string // the key that is processed then
	}{
		{"in the cloud", Limits{PerCloud: 1, Total: 10}, "a/x/1 a/x/2", "a/x/1", "a/x/2"},
		{"in the total", Limits{PerCloud: 1, Total: 1}, "a/x/1 b/x/1", "a/x/1", "b/x/1"},
		{"beside the zero cloud", Limits{PerCloud: 1, Total: 1}, "a/x/1 /x/1 a/x/2", "a/x/1 /x/1", "a/x/2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys := strings.Fields(test.add)
				done := map[string]chan struct{}{}
				for _, key := range keys {
					done[key] = make(chan struct{})
				}
				p := newPool(t, test.limits, 5, func(key string) { <-done[key] })
				for _, key := range keys {
					p.add(key)
					synctest.Wait()
				}
				equal(t, strings.Fields(test.before), p.journal)
				close(done[keys[0]])
				synctest.Wait()
				equal(t, append(strings.Fields(test.before), test.next), p.journal)
				for _, key := range keys[1:] {
					close(done[key])
				}
				p.stop()
				expectEmpty(t, p.order)
			})
		})
	}
}

// whenDone calls a function at the end of Done.
type whenDone struct {
	workqueue.TypedRateLimitingInterface[string]
	call func()
}

func (q whenDone) Done(key string) {
	q.TypedRateLimitingInterface.Done(key)
	q.call()
}

// Another worker may be faster than the one that calls Done: it can have the key before that
// call returns.
func TestAKeyThatIsHandedOutAgainDuringDoneCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(t, Limits{PerCloud: 2, Total: 10}, 0, nil)
		inner := p.queue.(*queue[string, string]).TypedRateLimitingInterface
		hooked := &queue[string, string]{TypedRateLimitingInterface: whenDone{inner, func() {
			key, _ := inner.Get()
			equal(t, "a/x/1", key)
		}}, order: p.order}
		hooked.Add("a/x/1")
		key, _ := hooked.Get()
		hooked.Add(key) // while it is being processed
		hooked.Done(key)
		equal(t, map[string]int{"a": 1}, p.order.busy)
		equal(t, map[string]Group[string]{"a/x/1": {Cloud: "a", Namespace: "x"}}, p.order.processing)
		p.queue.Done(key)
		expectEmpty(t, p.order)
		p.stop()
	})
}

// Whatever happens at the same time: no key is handed out twice, the limits are kept, no
// worker is idle while a key could be handed out, and no request is lost.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { tumult(t, seed) })
		})
	}
}

func tumult(t *testing.T, seed uint64) {
	const workers = 8
	limits := Limits{PerCloud: 2, Total: 5, Own: 3}
	var keys []string
	for _, cloud := range []string{"", "a", "b", "c", "d"} {
		for i := range 12 {
			keys = append(keys, fmt.Sprintf("%s/%d/%d", cloud, i%3, i))
		}
	}
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	below := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	var p *pool
	request := func(key string) {
		switch below(4) {
		case 0:
			p.ask(key, p.queue.AddRateLimited)
		case 1:
			p.ask(key, func(key string) { p.queue.AddAfter(key, time.Duration(below(5))*time.Millisecond) })
		default:
			p.ask(key, p.queue.Add)
		}
	}
	started := make(chan struct{})
	p = newPool(t, limits, workers, func(key string) {
		<-started
		time.Sleep(time.Duration(below(4)) * time.Millisecond) // 0: at once
		if below(3) == 0 {
			request(key)
		}
		if below(3) == 0 {
			p.queue.Forget(key)
		}
	})
	close(started)
	for range 4 {
		p.running.Go(func() {
			for range 200 {
				request(keys[below(len(keys))])
				time.Sleep(time.Duration(below(3)) * time.Millisecond)
			}
		})
	}
	for range 400 {
		time.Sleep(time.Millisecond)
		synctest.Wait()
		p.mu.Lock()
		if len(p.busy) < workers && p.queue.Len() > 0 {
			t.Errorf("%d workers are idle while %d keys could be handed out", workers-len(p.busy), p.queue.Len())
		}
		p.mu.Unlock()
	}
	time.Sleep(time.Minute) // of the bubble
	synctest.Wait()
	equal(t, 0, len(p.busy))
	equal(t, p.asked, p.served)
	// The limits were reached, and not exceeded.
	for _, cloud := range []string{"a", "b", "c", "d"} {
		equal(t, limits.PerCloud, p.most[cloud])
	}
	equal(t, limits.Total, p.most["total"])
	equal(t, limits.Own, p.most[""])
	p.stop()
	expectEmpty(t, p.order)
}
