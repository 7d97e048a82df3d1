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
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
		if err != nil {
			t.Fatal(err)
		}
		successor := "successor"
		lease.Spec.HolderIdentity = &successor
		if _, err := k.LeasesGetter.Leases(options.Namespace).Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		c.end(t)
		if holder := k.holder(t); holder != successor {
			t.Errorf("%q holds the Lease", holder)
		}
	})
}
