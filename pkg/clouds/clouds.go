// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clouds finds the cloud that a Network works in: the controller's own, or the one of
// the credentials that the Network names, if an administrator permits it.
//
// It watches the Secrets that Networks and ClusterClouds name, each by itself; reads each into a
// neutron.Config; and keeps one neutron.Cloud, which is one session and one Observer, for each
// distinct content, however many Networks use it. It reads no other Secrets.
//
// clouds.go counts which Networks use which credentials, and secret.go reads them.
// clustercloud.go watches the ClusterClouds, and permission.go says who may use them. spare.go
// finds the one that finishes a Network which has lost its own Secret.
package clouds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Ref names credentials: an entry of the clouds.yaml in a Secret, or a ClusterCloud. The zero Ref
// is for the controller's own.
type Ref struct {
	// Source is the Secret; without a namespace, it is the ClusterCloud.
	Source cache.ObjectName
	// CloudName is the entry; "" for a ClusterCloud, which names it.
	CloudName string
}

// RefOf returns the credentials that the Network names; the zero Ref for the controller's own.
func RefOf(network *samplecrdv1.Network) Ref {
	named := network.Spec.CloudCredentialsRef
	switch {
	case named == nil:
		return Ref{}
	case named.ClusterCloudName != "":
		return refOfClusterCloud(named.ClusterCloudName)
	}
	return Ref{Source: cache.NewObjectName(network.Namespace, named.SecretName), CloudName: named.CloudName}
}

// SourcesOf returns the Source of the Network's credentials. It is for an index.
func SourcesOf(network *samplecrdv1.Network) []string {
	return []string{RefOf(network).Source.String()}
}

// String returns a name for logs.
func (r Ref) String() string {
	if isClusterCloud(r.Source) {
		return titleOf(r.Source)
	}
	return fmt.Sprintf("%s of Secret %s", r.CloudName, r.Source)
}

// ErrNotReady is returned while the credentials, who may use them, or the cloud's networks are being
// read for the first time. Without the list of networks, each Network would need a request of its own.
// One of the Handlers is called after that.
var ErrNotReady = errors.New("the cloud of these credentials has not been listed yet")

// Options are the settings of Clouds. Client and NewCloud are required, and Networks with a
// ClusterResourceNamespace.
type Options struct {
	// Client reads the Secrets, and the labels of namespaces. It needs the rights to list and watch
	// the Secrets, and to get their namespaces, so that Networks are not stuck in a namespace that is
	// being deleted.
	Client kubernetes.Interface
	// Networks reads the ClusterClouds. It needs the rights to list and watch them.
	Networks clientset.Interface
	// NewCloud returns a new cloud, of a ClusterCloud if isOffered is true. Clouds runs it.
	NewCloud func(config neutron.Config, isOffered bool) *neutron.Cloud
	// Servers are those that Secrets may lead to.
	Servers Servers
	// Limits bound how many credentials are in use.
	Limits Limits
	// ClusterResourceNamespace is the namespace of the Secrets of ClusterClouds. Without it, there are
	// no ClusterClouds. With it, Client needs the rights to list and watch these Secrets, and namespaces.
	ClusterResourceNamespace string
	// OwnCloudNamespaces says which namespaces may use the controller's own cloud. The zero value selects
	// all; Client needs no right for it then.
	OwnCloudNamespaces Selector
}

// Handlers are called back by Clouds. They must not block. Each is required.
type Handlers struct {
	// Drift is called when the networks of an owner changed in Neutron, and when a cloud answers again that
	// the owner waits for.
	Drift func(owner types.UID)
	// CredentialsChanged is called when For has a new answer for the Networks whose credentials have that
	// Source; the zero name stands for the controller's own.
	CredentialsChanged func(source cache.ObjectName)
	// LabelsChanged is called when For may have a new answer for the Networks of the namespace.
	LabelsChanged func(namespace string)
	// Released is called when no Network uses the credentials any more.
	Released func(Ref)
}

// Clouds counts which Networks use which credentials, and closes what no Network uses any
// more. Its methods may be called concurrently; they do not wait for Kubernetes or Neutron,
// except For, for a Network that is being deleted.
type Clouds struct {
	ctx      context.Context // what is started runs until it is cancelled
	own      *neutron.Cloud
	options  Options
	handlers Handlers
	running  sync.WaitGroup

	groups groups

	mu      sync.Mutex
	inUse   map[Ref]*credentials
	secrets map[cache.ObjectName]*secret // by the Source that leads to each
	clouds  map[Group]*cloud
	offers  offers
	// namespaces are nil if all may use all.
	namespaces *namespaces
	// lost has the Secrets of the Networks that need the credentials of a ClusterCloud in place of their own.
	lost map[cache.ObjectName]bool
	// crowded are the Networks for whose credentials there was no room.
	crowded map[cache.ObjectName]crowded
}

// credentials are in use by at least one Network, or by a ClusterCloud.
type credentials struct {
	users int    // Networks; a ClusterCloud counts as one
	cloud *cloud // nil until the Secret could be used
}

// cloud is shared by all credentials with the same content.
type cloud struct {
	*neutron.Cloud
	group Group
	users int // credentials
	stop  context.CancelFunc
	// place is where the cloud's networks are; nil before the first session.
	place *neutron.Place
}

// New returns Clouds with the controller's own cloud. What it starts for others runs until it
// is no longer used, or ctx is cancelled.
func New(ctx context.Context, own *neutron.Cloud, options Options) *Clouds {
	return &Clouds{
		ctx:     ctx,
		own:     own,
		options: options,
		groups:  groups{refs: map[cache.ObjectName]Ref{}, spares: map[cache.ObjectName]Ref{}, known: map[cache.ObjectName]Group{}},
		inUse:   map[Ref]*credentials{},
		secrets: map[cache.ObjectName]*secret{},
		clouds:  map[Group]*cloud{},
		offers:  offers{all: map[string]*offer{}, asked: map[cache.ObjectName]bool{}},
		lost:    map[cache.ObjectName]bool{},
		crowded: map[cache.ObjectName]crowded{},
	}
}

// AddHandlers registers the handlers, and starts to watch the ClusterClouds and the labels of namespaces.
// It is called once, before For.
func (c *Clouds) AddHandlers(handlers Handlers) {
	c.handlers = handlers
	c.own.Observer().AddHandler(handlers.Drift)
	if c.options.ClusterResourceNamespace != "" || !c.options.OwnCloudNamespaces.all() {
		c.watchNamespaces()
	}
	if c.options.ClusterResourceNamespace != "" {
		c.watchClusterClouds()
	}
}

// Own returns the controller's own cloud.
func (c *Clouds) Own() *neutron.Cloud { return c.own }

// RunOwn runs the controller's own cloud until ctx is cancelled.
func (c *Clouds) RunOwn(ctx context.Context) {
	run(ctx, c.own, func() {
		klog.FromContext(ctx).Info("The first list of Neutron has ended")
		c.handlers.CredentialsChanged(cache.ObjectName{})
	})
}

// List returns all clouds that are in use, the controller's own first.
func (c *Clouds) List() []*neutron.Cloud {
	c.mu.Lock()
	defer c.mu.Unlock()
	clouds := []*neutron.Cloud{c.own}
	for _, shared := range c.clouds {
		clouds = append(clouds, shared.Cloud)
	}
	return clouds
}

// Offered returns the clouds of ClusterClouds.
func (c *Clouds) Offered() map[*neutron.Cloud]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	offered := map[*neutron.Cloud]bool{}
	for group, shared := range c.clouds {
		if group.isOffered {
			offered[shared.Cloud] = true
		}
	}
	return offered
}

// Wait waits for all that was started to end, after the context of New was cancelled.
func (c *Clouds) Wait() { c.running.Wait() }

// For returns the Network's cloud, and keeps its credentials in use for the key until the key
// names others or Forget is called. It returns ErrNotReady until the Secret and the cloud were
// read once; a handler is called then. An unusable Secret is an *neutron.Error of reason
// NoCredentials, which says what is wrong and contains nothing of the Secret's content. If the
// Network may not use the credentials, the reason is NotPermitted; see checkPermission.
//
// Until the Secret is corrected, or the credentials are released, the cloud of its previous
// content stays open. Nobody can create the Secret again in a namespace that is being deleted: a
// Network that is being deleted there gets the cloud of the ClusterCloud that leads to its
// network, or else the cloud of the Secret's previous content.
func (c *Clouds) For(ctx context.Context, key cache.ObjectName, network *samplecrdv1.Network) (*neutron.Cloud, error) {
	ref := RefOf(network)
	if err := c.checkPermission(key, network); err != nil {
		c.Forget(key)
		return nil, err
	}
	if ref == (Ref{}) && c.groups.ref(key) == ref {
		return listed(c.own) // without the lock that those of Secrets take
	}
	cloud, last, err := c.acquire(key, ref, c.limitsFor(ref, network))
	isLost := neutron.ReasonOf(err) == neutron.NoCredentials && !errors.As(err, new(noRoomError)) && !network.DeletionTimestamp.IsZero() && !isClusterCloud(ref.Source)
	if isLost {
		var readErr error
		if isLost, readErr = c.isBeingDeleted(ctx, network.Namespace); readErr != nil {
			return nil, fmt.Errorf("read the namespace: %w", readErr)
		}
		if !isLost {
			err = askingAgain(err)
		}
	}
	if !isLost {
		c.groups.setSpare(key, Ref{})
		return cloud, err
	}
	spare, spareErr := c.spareFor(key, network)
	switch {
	case spare != nil:
		return spare, nil
	case last != nil:
		return last.Cloud, nil
	case spareErr != nil:
		return nil, spareErr
	}
	return nil, c.deadEnd(network, err)
}

// listed returns the cloud if its first list has ended, and otherwise ErrNotReady. A list that
// failed counts too: then the status reports why.
func listed(cloud *neutron.Cloud) (*neutron.Cloud, error) {
	select {
	case <-cloud.Observer().FirstListDone():
		return cloud, nil
	default:
		return nil, ErrNotReady
	}
}

// Forget releases the credentials that the key uses.
func (c *Clouds) Forget(key cache.ObjectName) { _, _, _ = c.acquire(key, Ref{}, Limits{}) }

// ForgetOwner forgets the Network with that UID, which no longer exists, in all clouds.
func (c *Clouds) ForgetOwner(uid types.UID) {
	for _, cloud := range c.List() {
		cloud.ForgetOwner(uid)
	}
}

// acquire counts that the key uses the credentials from now on, and no others, and returns their
// cloud. The zero Ref is not counted. last is the cloud that the credentials led to before, if
// this process has seen their Secret. It fails if there is no room for them.
func (c *Clouds) acquire(key cache.ObjectName, ref Ref, limits Limits) (_ *neutron.Cloud, last *cloud, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.crowded, key)
	if c.inUse[ref] == nil && ref != (Ref{}) {
		if err := c.checkRoom(ref.Source, limits); err != nil {
			c.crowded[key] = crowded{ref.Source, limits}
			_, _, _ = c.acquireLocked(key, Ref{}) // what it has used may make room for itself
			return nil, nil, err
		}
	}
	return c.acquireLocked(key, ref)
}

// acquireLocked is acquire with the lock held.
func (c *Clouds) acquireLocked(key cache.ObjectName, ref Ref) (_ *neutron.Cloud, last *cloud, err error) {
	if before := c.groups.ref(key); before != ref {
		c.groups.setRef(key, ref)
		if ref != (Ref{}) {
			if c.inUse[ref] == nil {
				c.inUse[ref] = &credentials{}
				c.watch(ref.Source)
			}
			c.inUse[ref].users++
		}
		c.release(before)
	}
	if ref == (Ref{}) {
		own, err := listed(c.own)
		return own, nil, err
	}
	used := c.inUse[ref]
	last = used.cloud
	if err := c.open(ref, used); err != nil {
		return nil, last, err
	}
	cloud, err := listed(used.cloud.Cloud)
	return cloud, last, err
}

// release is called with the lock held, so that nobody acquires the credentials meanwhile.
func (c *Clouds) release(ref Ref) {
	used := c.inUse[ref]
	if used == nil {
		return
	}
	if used.users--; used.users > 0 {
		return
	}
	delete(c.inUse, ref)
	c.detach(used)
	watched := c.secrets[ref.Source]
	if watched.users--; watched.users == 0 {
		watched.stop()
		delete(c.secrets, ref.Source)
		delete(c.lost, ref.Source)
		c.groups.forget(ref.Source)
	}
	c.handlers.Released(ref)
	c.wakeCrowded()
}

// open assigns the cloud of the Secret's content to the credentials.
func (c *Clouds) open(ref Ref, used *credentials) error {
	file, err := c.read(ref.Source)
	if err != nil {
		return err
	}
	group := c.secrets[ref.Source].groupOf(file).of(ref)
	if used.cloud != nil && used.cloud.group == group {
		return nil
	}
	servers := &c.options.Servers
	if group.isOffered {
		servers = nil
	}
	config, err := file.config(group.cloudName, servers)
	if err != nil {
		return err
	}
	c.detach(used)
	shared := c.clouds[group]
	if shared == nil {
		shared = c.start(group, config)
		c.clouds[group] = shared
	}
	shared.users++
	used.cloud = shared
	return nil
}

// detach closes the cloud of the credentials if no others use it.
func (c *Clouds) detach(used *credentials) {
	shared := used.cloud
	if shared == nil {
		return
	}
	used.cloud = nil
	if shared.users--; shared.users == 0 {
		shared.stop()
		shared.Client().Close()
		delete(c.clouds, shared.group)
	}
}

func (c *Clouds) start(group Group, config neutron.Config) *cloud {
	logger := klog.LoggerWithValues(klog.FromContext(c.ctx), "cloud", config.Name)
	ctx, stop := context.WithCancel(klog.NewContext(c.ctx, logger))
	shared := &cloud{Cloud: c.options.NewCloud(config, group.isOffered), group: group, stop: stop}
	observer := shared.Observer()
	observer.Join(c.own.Observer())
	observer.AddHandler(c.handlers.Drift)
	observer.OnRecovery(func() { c.eachSource(shared, c.offerChanged) }) // the Networks were called by Drift
	c.running.Go(func() { run(ctx, shared.Cloud, func() { c.eachSource(shared, c.changed) }) })
	return shared
}

// run runs a cloud until ctx is cancelled, and calls onList when its first list has ended.
func run(ctx context.Context, cloud *neutron.Cloud, onList func()) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { cloud.Run(ctx) })
	select {
	case <-cloud.Observer().FirstListDone():
		onList()
	case <-ctx.Done():
	}
}

// eachSource calls do for the Source of all credentials that lead to the cloud.
func (c *Clouds) eachSource(shared *cloud, do func(cache.ObjectName)) {
	c.mu.Lock()
	sources := map[cache.ObjectName]bool{}
	for ref, used := range c.inUse {
		if used.cloud == shared {
			sources[ref.Source] = true
		}
	}
	c.mu.Unlock()
	for source := range sources {
		do(source)
	}
}

// changed is called when the Source of credentials, or a cloud that it leads to, has changed.
func (c *Clouds) changed(source cache.ObjectName) {
	c.handlers.CredentialsChanged(source)
	c.offerChanged(source)
}

// namespaceTimeout bounds the request for the namespace.
const namespaceTimeout = 30 * time.Second

// isBeingDeleted reports whether the namespace is being deleted: a Secret cannot be created
// there any more. It returns false if the namespace is gone or must not be read.
func (c *Clouds) isBeingDeleted(ctx context.Context, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, namespaceTimeout)
	defer cancel()
	namespace, err := c.options.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && !namespace.DeletionTimestamp.IsZero(), err
}

// askingAgain returns the error of a Network that is being deleted, whose namespace is not. Nothing says when somebody deletes the
// namespace.
func askingAgain(err error) error {
	if e := (*neutron.Error)(nil); errors.As(err, &e) {
		again := *e
		again.RetryAfter = wait.Jitter(time.Minute, 0.2)
		return &again
	}
	return err
}

// Explain adds to an error of refused credentials where they are from.
func (c *Clouds) Explain(network *samplecrdv1.Network, err error) error {
	if neutron.ReasonOf(err) != neutron.Unauthenticated {
		return err
	}
	switch ref := c.groups.usedBy(cache.MetaObjectToName(network), network); {
	case ref == (Ref{}):
		return err
	case isClusterCloud(ref.Source):
		return fmt.Errorf("%s: %w", ref, err)
	default:
		return fmt.Errorf("%s, key %s, cloud %s: %w", titleOf(ref.Source), keyCloudsYAML, ref.CloudName, err)
	}
}
