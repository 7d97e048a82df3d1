// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// The keys of a Secret.
const (
	keyCloudsYAML = "clouds.yaml"
	keyCACert     = "cacert"
)

// maxCACert is how many bytes the authorities can have. Those of a Linux distribution have about 220 KB.
const maxCACert = 256 << 10

// secret is a Secret that Networks or a ClusterCloud name.
type secret struct {
	name cache.ObjectName
	// cloudName is the entry that a ClusterCloud names; "" for a Secret that Networks name.
	cloudName string
	isOffered bool
	synced    cache.DoneChecker // done when the first list was handled
	stop      context.CancelFunc
	users     int // credentials
	// err is why it cannot be read.
	err error
	// file is what it has; nil if it does not exist.
	file *file
}

// watch counts a user of the Source, and starts to watch its Secret for the first.
func (c *Clouds) watch(source cache.ObjectName) {
	watched := c.secrets[source]
	if watched == nil {
		watched = &secret{name: source}
		if isClusterCloud(source) {
			watched = c.watchOffered(source)
		} else {
			c.watchSecret(source, watched)
		}
		c.secrets[source] = watched
	}
	watched.users++
}

// watchSecret starts to watch one Secret.
func (c *Clouds) watchSecret(source cache.ObjectName, watched *secret) {
	ctx, stop := context.WithCancel(c.ctx)
	name := watched.name
	informer := coreinformers.NewTypedFilteredSecretInformer(c.options.Client, name.Namespace, 0, nil, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name).String()
	})
	watched.stop = stop
	// These fail only for an informer that is already running.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { c.failed(source, watched, err) })
	// A list without changes calls no handler, but the transform.
	_ = informer.SetTransform(func(object any) (any, error) {
		c.succeeded(source, watched)
		return trim(object), nil
	})
	set := func(of cache.ObjectName, s *corev1.Secret) {
		if of == name {
			c.setFile(source, watched, s)
		}
	}
	registration, _ := informer.AddTypedEventHandler(coreinformers.SecretHandlerFuncs{
		AddFunc:    func(s *corev1.Secret) { set(cache.MetaObjectToName(s), s) },
		UpdateFunc: func(_, now *corev1.Secret) { set(cache.MetaObjectToName(now), now) },
		DeleteFunc: func(gone coreinformers.DeletedSecret) {
			c.succeeded(source, watched) // the Secret could be read: it is gone
			set(gone.GetObjectName(), nil)
		},
	})
	watched.synced = registration.HasSyncedChecker()
	c.running.Go(func() { informer.RunWithContext(klog.NewContext(ctx, withoutBodies(klog.FromContext(ctx)))) })
	c.running.Go(func() {
		// There is no event for a Secret that does not exist.
		if cache.WaitFor(klog.NewContext(ctx, klog.Logger{}), "", watched.synced) {
			c.failed(source, watched, nil)
		}
	})
}

// trim returns a Secret with only what load needs, and any other object as it is.
func trim(object any) any {
	s, ok := object.(*corev1.Secret)
	if !ok {
		return object
	}
	kept := &corev1.Secret{Data: map[string][]byte{}}
	kept.Namespace, kept.Name, kept.UID, kept.ResourceVersion = s.Namespace, s.Name, s.UID, s.ResourceVersion
	for key, limit := range map[string]int{keyCloudsYAML: neutron.MaxCloudsYAML, keyCACert: maxCACert} {
		if value, ok := s.Data[key]; ok {
			kept.Data[key] = bytes.Clone(value[:min(len(value), limit+1)]) // one byte too many is too many
		}
	}
	return kept
}

// setFile records what the Secret has; nil if it is gone. The group stays then.
func (c *Clouds) setFile(source cache.ObjectName, watched *secret, s *corev1.Secret) {
	var now *file
	if s != nil {
		now = load(s, titleOf(source), watched.file) // without the lock, as it takes long; nothing else sets the file
	}
	c.mu.Lock()
	if c.secrets[source] == watched && now != nil {
		c.groups.set(source, watched.groupOf(now)) // first, so that GroupOf is never behind For
	}
	watched.file = now
	c.mu.Unlock()
	c.changed(source)
}

// groupOf returns the Group of all credentials that lead to the file.
func (s *secret) groupOf(f *file) Group {
	return Group{content: f.content, cloudName: s.cloudName, isOffered: s.isOffered}
}

// failed records why the Secret cannot be read; nil if it can.
func (c *Clouds) failed(source cache.ObjectName, watched *secret, err error) {
	// A watch ends now and then and is started again. The cached Secret stays valid.
	if err != nil && !apierrors.IsForbidden(err) && isDone(watched.synced) {
		return
	}
	c.mu.Lock()
	watched.err = err
	c.mu.Unlock()
	c.changed(source)
}

// succeeded records that the Secret was read again, after the right to read it was missing.
func (c *Clouds) succeeded(source cache.ObjectName, watched *secret) {
	c.mu.Lock()
	failed := watched.err != nil
	watched.err = nil
	c.mu.Unlock()
	if failed {
		c.changed(source)
	}
}

// createIt is the advice for a Secret that does not exist.
const createIt = "; its key " + keyCloudsYAML + " must contain the credentials"

// read returns what the Secret has to which the Source leads.
func (c *Clouds) read(source cache.ObjectName) (*file, error) {
	s, title := c.secrets[source], titleOf(source)
	if isClusterCloud(source) {
		if err := c.offers.check(source.Name, c.options.ClusterResourceNamespace); err != nil {
			return nil, err
		}
		title += ", Secret " + s.name.String()
	}
	switch {
	case s.err != nil:
		return nil, unusable(title, "it cannot be read: "+s.err.Error())
	case !isDone(s.synced):
		return nil, ErrNotReady
	case s.file == nil:
		return nil, unusable(title, "it does not exist"+createIt)
	}
	return s.file, nil
}

// titleOf returns what messages call the Source.
func titleOf(source cache.ObjectName) string {
	if isClusterCloud(source) {
		return "ClusterCloud " + source.Name
	}
	return "Secret " + source.Name
}

// content identifies what a Secret has: a hash of everything that matters for a connection.
type content [sha256.Size]byte

func contentOf(secret *corev1.Secret) content {
	hash := sha256.New()
	for _, key := range []string{keyCloudsYAML, keyCACert} {
		value, exists := secret.Data[key]
		sum := sha256.Sum256(value)
		fmt.Fprintf(hash, "%v %x", exists, sum)
	}
	return content(hash.Sum(nil))
}

// file is what a Secret has. Its errors name the invalid key, and contain nothing of its content.
type file struct {
	title   string // that messages begin with
	content content
	clouds  neutron.CloudsYAML
	// authorities are those of cacert; nil without it.
	authorities *x509.CertPool
	// err is why no cloud of it can be used, and refusals are why single ones cannot: each sync asks again.
	err      error
	refusals map[string]error
}

// load returns what the Secret has: before, if that has the same content.
func load(secret *corev1.Secret, title string, before *file) *file {
	f := &file{title: title, content: contentOf(secret), refusals: map[string]error{}}
	if before != nil && before.content == f.content {
		return before
	}
	cloudsYAML, ok := secret.Data[keyCloudsYAML]
	if !ok {
		f.err = f.invalid(keyCloudsYAML, "it does not exist")
		return f
	}
	var err error
	if f.clouds, err = neutron.ParseCloudsYAML(cloudsYAML); err != nil {
		f.err = f.invalid(keyCloudsYAML, err.Error())
		return f
	}
	pem, ok := secret.Data[keyCACert]
	if len(pem) > maxCACert {
		f.err = f.invalid(keyCACert, fmt.Sprintf("it has more than %d KiB", maxCACert>>10))
	} else if ok {
		f.authorities = x509.NewCertPool()
		if !f.authorities.AppendCertsFromPEM(pem) {
			f.err = f.invalid(keyCACert, "it contains no certificate in PEM format")
		}
	}
	return f
}

// config returns the configuration of a cloud, if its Keystone is allowed. nil allows all: an administrator has written the file.
func (f *file) config(cloudName string, servers *Servers) (neutron.Config, error) {
	if err := cmp.Or(f.err, f.refusals[cloudName]); err != nil {
		return neutron.Config{}, err
	}
	config, err := f.read(cloudName, servers)
	if err != nil && f.clouds.Has(cloudName) { // there are any number of other names
		f.refusals[cloudName] = err
	}
	return config, err
}

// read is config without its memory.
func (f *file) read(cloudName string, servers *Servers) (neutron.Config, error) {
	config, err := f.clouds.Config(cloudName)
	if err != nil {
		return neutron.Config{}, f.invalid(keyCloudsYAML, err.Error())
	}
	if servers != nil && !servers.Allowed.Allows(config.Auth.IdentityEndpoint) {
		// The message does not list the allowed ones: they may be confidential.
		return neutron.Config{}, f.invalid(keyCloudsYAML, fmt.Sprintf(
			"the controller is not allowed to connect to the auth_url of cloud %s; its administrator can allow it with -allowed-auth-urls", cloudName))
	}
	config.TLS.RootCAs = f.authorities
	if servers != nil && servers.Allowed.allowed == nil { // an allowed Keystone says where its Neutron is, and is what it says
		config.Untrusted, config.Denied = true, servers.Denied
	}
	return config, nil
}

// invalid returns the error for a key of the Secret.
func (f *file) invalid(key, what string) error {
	return unusable(f.title, fmt.Sprintf("key %s: %s", key, what))
}

// unusable returns the error for credentials of that title.
func unusable(title, what string) error {
	// The names of entries, and of Secrets that cannot exist, can have any characters.
	return &neutron.Error{Op: neutron.Printable(title), Reason: neutron.NoCredentials, Message: neutron.Printable(what)}
}

// bodies is the verbosity from which client-go logs response bodies.
const bodies = 8

// withoutBodies returns the logger without what is logged at that verbosity: a Secret must not
// be in a log.
func withoutBodies(logger klog.Logger) klog.Logger {
	if logger.GetSink() == nil {
		return logger // it discards everything
	}
	return logger.WithSink(discreet{logger.GetSink()})
}

// discreet is a klog.LogSink that does not log bodies.
type discreet struct{ klog.LogSink }

func (d discreet) Enabled(level int) bool { return level < bodies && d.LogSink.Enabled(level) }

func (d discreet) WithValues(keysAndValues ...any) klog.LogSink {
	return discreet{d.LogSink.WithValues(keysAndValues...)}
}

func (d discreet) WithName(name string) klog.LogSink { return discreet{d.LogSink.WithName(name)} }
