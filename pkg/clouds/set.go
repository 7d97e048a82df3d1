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

// ErrNotReady is returned while the Secret, or the cloud's networks, are being read for the
// first time. Handlers.SecretChanged is called after that.
var ErrNotReady = errors.New("the cloud of these credentials has not been listed yet")

// set holds the clouds of all credentials that are in use, except the controller's own.
type set struct {
	ctx     context.Context // what is started runs until it is cancelled
	options Options
	changed func(cache.ObjectName)
	drifted func(types.UID)
	running sync.WaitGroup

	mu      sync.Mutex
	secrets map[cache.ObjectName]*secret
	clouds  map[content]*cloud
	inUse   map[Ref]*cloud
}

// Options are the settings of Clouds. Client and NewCloud are required.
type Options struct {
	// Client reads the Secrets. It needs the rights to list and watch them, and to get their
	// namespaces, so that Networks are not stuck in a namespace that is being deleted.
	Client kubernetes.Interface
	// NewCloud returns a new cloud. Clouds runs its Observer.
	NewCloud func(neutron.Config) *neutron.Cloud
	// AllowedAuthURLs are the Keystones that Secrets may name. Without it, a user who may write
	// Secrets and Networks can make the controller connect to anything that it can reach.
	AllowedAuthURLs neutron.URLs
}

// secret is a Secret that Networks name.
type secret struct {
	informer coreinformers.SecretIndexInformer
	stop     context.CancelFunc
	refs     map[Ref]bool
	// err is why it cannot be read.
	err error
}

// cloud is shared by all credentials with the same content.
type cloud struct {
	*neutron.Cloud
	content content
	refs    map[Ref]bool
	stop    context.CancelFunc
}

// newSet returns an empty set. What it starts runs until it is no longer used, or ctx is
// cancelled.
func newSet(ctx context.Context, options Options) *set {
	return &set{ctx: ctx, options: options, secrets: map[cache.ObjectName]*secret{}, clouds: map[content]*cloud{}, inUse: map[Ref]*cloud{}}
}

// onChange sets the handler that is called when get has a new answer for the credentials in a
// Secret. It is called once, before get.
func (s *set) onChange(changed func(cache.ObjectName)) { s.changed = changed }

// onDrift sets the handler of each cloud's Observer. It is called once, before get.
func (s *set) onDrift(drifted func(types.UID)) { s.drifted = drifted }

// get returns the cloud of the credentials, or ErrNotReady until it was listed once. An unusable
// Secret is an *neutron.Error of reason NoCredentials, which says what is wrong and contains
// nothing of the Secret's content. Until it is corrected, or the credentials are released, the
// cloud of the Secret's previous content stays open.
func (s *set) get(ref Ref) (*neutron.Cloud, error) {
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
		return nil, ErrNotReady
	}
}

// last returns the cloud that the credentials led to before their Secret was deleted, if their
// namespace is being deleted: the Secret cannot be created again there. It returns nil
// otherwise, and if this process has not seen the Secret.
func (s *set) last(ctx context.Context, ref Ref) (*neutron.Cloud, error) {
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

// namespaceTimeout bounds the request for the namespace.
const namespaceTimeout = 30 * time.Second

// read returns the Secret from the cache. The first call starts to watch it.
func (s *set) read(ref Ref) (*corev1.Secret, error) {
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
		return nil, ErrNotReady
	}
	object, err := corelisters.NewSecretLister(watched.informer.GetIndexer()).Secrets(ref.Secret.Namespace).Get(ref.Secret.Name)
	if apierrors.IsNotFound(err) {
		return nil, unusable(ref.Secret.Name, "it does not exist; its key "+keyCloudsYAML+" must contain the credentials")
	}
	return object, err
}

// watch starts to watch one Secret.
func (s *set) watch(name cache.ObjectName) *secret {
	ctx, stop := context.WithCancel(s.ctx)
	informer := coreinformers.NewTypedFilteredSecretInformer(s.options.Client, name.Namespace, 0, nil, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name).String()
	})
	watched := &secret{informer: informer, stop: stop, refs: map[Ref]bool{}}
	changed := func() { s.changed(name) }
	// These fail only for an informer that is already running.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { s.failed(name, watched, err) })
	// A list without changes calls no handler, but the transform.
	_ = informer.SetTransform(func(object any) (any, error) {
		s.succeeded(name, watched)
		return object, nil
	})
	_, _ = informer.AddTypedEventHandler(coreinformers.SecretHandlerFuncs{
		AddFunc:    func(*corev1.Secret) { changed() },
		UpdateFunc: func(_, _ *corev1.Secret) { changed() },
		DeleteFunc: func(coreinformers.DeletedSecret) {
			s.succeeded(name, watched) // the Secret could be read: it is gone
			changed()
		},
	})
	s.running.Go(func() { informer.RunWithContext(klog.NewContext(ctx, withoutBodies(klog.FromContext(ctx)))) })
	s.running.Go(func() {
		// There is no event for a Secret that does not exist.
		if cache.WaitFor(klog.NewContext(ctx, klog.Logger{}), "", informer.HasSyncedChecker()) {
			s.failed(name, watched, nil)
		}
	})
	return watched
}

// failed records why the Secret cannot be read; nil if it can.
func (s *set) failed(name cache.ObjectName, watched *secret, err error) {
	// A watch ends now and then and is started again. The cached Secret stays valid.
	if err != nil && !apierrors.IsForbidden(err) && watched.informer.HasSynced() {
		return
	}
	s.mu.Lock()
	watched.err = err
	s.mu.Unlock()
	s.changed(name)
}

// succeeded records that the Secret was read again, after the right to read it was missing.
func (s *set) succeeded(name cache.ObjectName, watched *secret) {
	s.mu.Lock()
	failed := watched.err != nil
	watched.err = nil
	s.mu.Unlock()
	if failed {
		s.changed(name)
	}
}

// use assigns the cloud of this content to the ref.
func (s *set) use(ref Ref, content content, config neutron.Config) {
	s.detach(ref)
	shared := s.clouds[content]
	if shared == nil {
		shared = s.start(content, config)
		s.clouds[content] = shared
	}
	shared.refs[ref] = true
	s.inUse[ref] = shared
}

func (s *set) start(content content, config neutron.Config) *cloud {
	logger := klog.LoggerWithValues(klog.FromContext(s.ctx), "cloud", config.Name)
	ctx, stop := context.WithCancel(klog.NewContext(s.ctx, logger))
	shared := &cloud{Cloud: s.options.NewCloud(config), content: content, refs: map[Ref]bool{}, stop: stop}
	shared.Observer().AddHandler(s.drifted)
	shared.Observer().OnRecovery(func() { s.notify(shared) })
	s.running.Go(func() { shared.Observer().Run(ctx) })
	s.running.Go(func() {
		select {
		case <-shared.Observer().FirstListDone():
			s.notify(shared)
		case <-ctx.Done():
		}
	})
	return shared
}

// notify calls the handler for each Secret that leads to the cloud.
func (s *set) notify(shared *cloud) {
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

// release closes what only these credentials use. Credentials that are not in use are not an
// error.
func (s *set) release(ref Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detach(ref)
	if watched := s.secrets[ref.Secret]; watched != nil {
		delete(watched.refs, ref)
		if len(watched.refs) == 0 {
			watched.stop()
			delete(s.secrets, ref.Secret)
		}
	}
}

func (s *set) detach(ref Ref) {
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

// list returns the clouds that are in use, in no order.
func (s *set) list() []*neutron.Cloud {
	s.mu.Lock()
	defer s.mu.Unlock()
	clouds := make([]*neutron.Cloud, 0, len(s.clouds))
	for shared := range maps.Values(s.clouds) {
		clouds = append(clouds, shared.Cloud)
	}
	return clouds
}

// String returns a name for logs.
func (r Ref) String() string { return fmt.Sprintf("%s of Secret %s", r.CloudName, r.Secret) }
