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

package clouds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Ref names credentials: an entry of the clouds.yaml in a Secret.
type Ref struct {
	Secret    cache.ObjectName
	CloudName string
}

// ErrNotYet is returned by Set.For while the Secret, or what Neutron has, is being read for
// the first time. What OnChange was given is called when that is done.
var ErrNotYet = errors.New("the cloud of these credentials has not been looked at yet")

// Set holds the clouds of all credentials that are in use. Its methods may be called
// concurrently, and do not wait for Kubernetes or Neutron, but for Last.
type Set struct {
	ctx     context.Context // until which what is started goes on
	options Options
	// changed and drifted are what OnChange and OnDrift were given.
	changed func(cache.ObjectName)
	drifted func(types.UID)
	running sync.WaitGroup

	mu      sync.Mutex
	secrets map[cache.ObjectName]*secret
	clouds  map[content]*cloud
	inUse   map[Ref]*cloud
}

// Options are what a Set is told from outside. Client and NewCloud are required.
type Options struct {
	// Client reads the Secrets. It needs no more than to list and watch them, and to get the
	// namespaces that they are in, lest Networks be stuck in one that is being deleted.
	Client kubernetes.Interface
	// NewCloud makes a cloud. The Set runs its Observer.
	NewCloud func(neutron.Config) *neutron.Cloud
	// AllowedAuthURLs are the Keystones that Secrets may name. Whoever may write a Secret and a
	// Network could have the controller connect to anything in its network otherwise.
	AllowedAuthURLs neutron.URLs
}

// secret is a Secret that is referred to.
type secret struct {
	informer coreinformers.SecretIndexInformer
	stop     context.CancelFunc
	refs     map[Ref]bool
	// err is why it cannot be read.
	err error
}

// cloud is shared by all credentials of the same content.
type cloud struct {
	*neutron.Cloud
	content content
	refs    map[Ref]bool
	stop    context.CancelFunc
}

// NewSet makes a Set that holds nothing yet. What it will start, goes on until it is no
// longer needed, or ctx is cancelled.
func NewSet(ctx context.Context, options Options) *Set {
	return &Set{ctx: ctx, options: options, secrets: map[cache.ObjectName]*secret{}, clouds: map[content]*cloud{}, inUse: map[Ref]*cloud{}}
}

// OnChange has changed called when For has something new to say of the credentials in a
// Secret: everybody who refers to it has to ask again. It must not block. It is called
// once, before For.
func (s *Set) OnChange(changed func(cache.ObjectName)) { s.changed = changed }

// OnDrift has drifted added to the handlers of each cloud's Observer. It is called once,
// before For.
func (s *Set) OnDrift(drifted func(types.UID)) { s.drifted = drifted }

// For returns the cloud of the credentials, once that has been looked at; ErrNotYet before.
// Whatever is wrong with the Secret is a *neutron.Error of kind NoCredentials, which says
// what, and contains nothing of the Secret's content. Until it is put right, or the
// credentials are released, the cloud of the Secret as it was before is kept.
func (s *Set) For(ref Ref) (*neutron.Cloud, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	object, err := s.read(ref)
	if err != nil {
		return nil, err
	}
	if used := s.inUse[ref]; used == nil || used.content != contentOf(object, ref.CloudName) {
		config, err := s.options.parse(object, ref.CloudName)
		if err != nil {
			return nil, err
		}
		s.use(ref, contentOf(object, ref.CloudName), config)
	}
	used := s.inUse[ref]
	select {
	case <-used.Observer().FirstListDone():
		return used.Cloud, nil
	default:
		return nil, ErrNotYet
	}
}

// Last returns the cloud that the credentials led to before their Secret went, if their
// namespace is being deleted; nil otherwise, and if the process has not seen the Secret. It
// is for what has to be taken away: in such a namespace the Secret cannot be made again.
func (s *Set) Last(ctx context.Context, ref Ref) (*neutron.Cloud, error) {
	s.mu.Lock()
	last := s.inUse[ref]
	s.mu.Unlock()
	if last == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, namespaceTimeout)
	defer cancel()
	namespace, err := s.options.Client.CoreV1().Namespaces().Get(ctx, ref.Secret.Namespace, metav1.GetOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || err == nil && namespace.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the namespace: %w", err)
	}
	return last.Cloud, nil
}

// namespaceTimeout bounds the one request whose answer is waited for.
const namespaceTimeout = 30 * time.Second

// read returns the Secret from memory. It watches it from the first time on.
func (s *Set) read(ref Ref) (*corev1.Secret, error) {
	watched := s.secrets[ref.Secret]
	if watched == nil {
		watched = s.watch(ref.Secret)
		s.secrets[ref.Secret] = watched
	}
	watched.refs[ref] = true
	if watched.err != nil {
		return nil, unusable(ref.Secret.Name, "it cannot be read: "+watched.err.Error())
	}
	if !watched.informer.HasSynced() {
		return nil, ErrNotYet
	}
	object, err := corelisters.NewSecretLister(watched.informer.GetIndexer()).Secrets(ref.Secret.Namespace).Get(ref.Secret.Name)
	if apierrors.IsNotFound(err) {
		return nil, unusable(ref.Secret.Name, "it is not there; its key "+keyCloudsYAML+" is to say how to reach the cloud")
	}
	return object, err
}

// watch starts to watch one Secret.
func (s *Set) watch(name cache.ObjectName) *secret {
	ctx, stop := context.WithCancel(s.ctx)
	informer := coreinformers.NewTypedFilteredSecretInformer(s.options.Client, name.Namespace, 0, nil, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name).String()
	})
	watched := &secret{informer: informer, stop: stop, refs: map[Ref]bool{}}
	changed := func() { s.changed(name) }
	// The errors of all of these are about an informer that runs already.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { s.failed(name, watched, err) })
	// The handlers are not told of a list that brings nothing new.
	_ = informer.SetTransform(func(object any) (any, error) {
		s.succeeded(name, watched)
		return object, nil
	})
	_, _ = informer.AddTypedEventHandler(coreinformers.SecretHandlerFuncs{
		AddFunc:    func(*corev1.Secret) { changed() },
		UpdateFunc: func(_, _ *corev1.Secret) { changed() },
		DeleteFunc: func(coreinformers.DeletedSecret) {
			s.succeeded(name, watched) // somebody could see that it is gone
			changed()
		},
	})
	s.running.Go(func() { informer.RunWithContext(klog.NewContext(ctx, withoutBodies(klog.FromContext(ctx)))) })
	s.running.Go(func() {
		// No event tells of a Secret that is not there.
		if cache.WaitFor(klog.NewContext(ctx, klog.Logger{}), "", informer.HasSyncedChecker()) {
			s.failed(name, watched, nil)
		}
	})
	return watched
}

// failed remembers why the Secret cannot be read; nil: it can.
func (s *Set) failed(name cache.ObjectName, watched *secret, err error) {
	// A watch ends now and then, and is begun anew: that is no reason not to know it.
	if err != nil && !apierrors.IsForbidden(err) && watched.informer.HasSynced() {
		return
	}
	s.mu.Lock()
	watched.err = err
	s.mu.Unlock()
	s.changed(name)
}

// succeeded is for a Secret that was read again after the right to it was taken away.
func (s *Set) succeeded(name cache.ObjectName, watched *secret) {
	s.mu.Lock()
	failed := watched.err != nil
	watched.err = nil
	s.mu.Unlock()
	if failed {
		s.changed(name)
	}
}

// use has the ref use the cloud of that content, and no other any more.
func (s *Set) use(ref Ref, content content, config neutron.Config) {
	s.release(ref)
	shared := s.clouds[content]
	if shared == nil {
		shared = s.start(content, config)
		s.clouds[content] = shared
	}
	shared.refs[ref] = true
	s.inUse[ref] = shared
}

func (s *Set) start(content content, config neutron.Config) *cloud {
	logger := klog.LoggerWithValues(klog.FromContext(s.ctx), "cloud", config.Name)
	ctx, stop := context.WithCancel(klog.NewContext(s.ctx, logger))
	shared := &cloud{Cloud: s.options.NewCloud(config), content: content, refs: map[Ref]bool{}, stop: stop}
	shared.Observer().AddHandler(s.drifted)
	shared.Observer().OnRecovery(func() { s.tell(shared) })
	s.running.Go(func() { shared.Observer().Run(ctx) })
	s.running.Go(func() {
		select {
		case <-shared.Observer().FirstListDone():
			s.tell(shared)
		case <-ctx.Done():
		}
	})
	return shared
}

// tell tells all that use the cloud to ask again.
func (s *Set) tell(shared *cloud) {
	s.mu.Lock()
	secrets := map[cache.ObjectName]bool{}
	for ref := range shared.refs {
		secrets[ref.Secret] = true
	}
	s.mu.Unlock()
	for name := range secrets {
		s.changed(name)
	}
}

// Release is for credentials that nobody refers to any more. It closes what nobody else
// uses either. That they are not in use is not an error.
func (s *Set) Release(ref Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(ref)
	if watched := s.secrets[ref.Secret]; watched != nil {
		delete(watched.refs, ref)
		if len(watched.refs) == 0 {
			watched.stop()
			delete(s.secrets, ref.Secret)
		}
	}
}

func (s *Set) release(ref Ref) {
	shared := s.inUse[ref]
	if shared == nil {
		return
	}
	delete(s.inUse, ref)
	delete(shared.refs, ref)
	if len(shared.refs) == 0 {
		shared.stop()
		shared.Client().Close()
		delete(s.clouds, shared.content)
	}
}

// Clouds returns the clouds that are in use, in no order.
func (s *Set) Clouds() []*neutron.Cloud {
	s.mu.Lock()
	defer s.mu.Unlock()
	clouds := make([]*neutron.Cloud, 0, len(s.clouds))
	for shared := range maps.Values(s.clouds) {
		clouds = append(clouds, shared.Cloud)
	}
	return clouds
}

// Wait waits for all that was started to end, once the Set's context was cancelled.
func (s *Set) Wait() { s.running.Wait() }

// String names the credentials.
func (r Ref) String() string { return fmt.Sprintf("%s of Secret %s", r.CloudName, r.Secret) }
