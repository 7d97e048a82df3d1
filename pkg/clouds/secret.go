// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// The keys of a Secret.
const (
	keyCloudsYAML = "clouds.yaml"
	keyCACert     = "cacert"
)

// secret is a Secret that Networks name.
type secret struct {
	informer coreinformers.SecretIndexInformer
	stop     context.CancelFunc
	users    int // credentials
	// err is why it cannot be read.
	err error
}

// secret counts a user of the Secret, and starts to watch it for the first.
func (c *Clouds) secret(name cache.ObjectName) *secret {
	if c.secrets[name] == nil {
		c.secrets[name] = c.watch(name)
	}
	c.secrets[name].users++
	return c.secrets[name]
}

// watch starts to watch one Secret.
func (c *Clouds) watch(name cache.ObjectName) *secret {
	ctx, stop := context.WithCancel(c.ctx)
	informer := coreinformers.NewTypedFilteredSecretInformer(c.options.Client, name.Namespace, 0, nil, func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name).String()
	})
	watched := &secret{informer: informer, stop: stop}
	changed := func() { c.changed(name) }
	// These fail only for an informer that is already running.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { c.failed(name, watched, err) })
	// A list without changes calls no handler, but the transform.
	// It comes before the cache has the Secret, so GroupOf is never behind the cache. The content
	// stays when the Secret is deleted.
	_ = informer.SetTransform(func(object any) (any, error) {
		if s, ok := object.(*corev1.Secret); ok && cache.MetaObjectToName(s) == name && ctx.Err() == nil {
			c.groups.setSecret(name, s)
		}
		c.succeeded(name, watched)
		return object, nil
	})
	_, _ = informer.AddTypedEventHandler(coreinformers.SecretHandlerFuncs{
		AddFunc:    func(*corev1.Secret) { changed() },
		UpdateFunc: func(_, _ *corev1.Secret) { changed() },
		DeleteFunc: func(coreinformers.DeletedSecret) {
			c.succeeded(name, watched) // the Secret could be read: it is gone
			changed()
		},
	})
	c.running.Go(func() { informer.RunWithContext(klog.NewContext(ctx, withoutBodies(klog.FromContext(ctx)))) })
	c.running.Go(func() {
		// There is no event for a Secret that does not exist.
		if cache.WaitFor(klog.NewContext(ctx, klog.Logger{}), "", informer.HasSyncedChecker()) {
			c.failed(name, watched, nil)
		}
	})
	return watched
}

// failed records why the Secret cannot be read; nil if it can.
func (c *Clouds) failed(name cache.ObjectName, watched *secret, err error) {
	// A watch ends now and then and is started again. The cached Secret stays valid.
	if err != nil && !apierrors.IsForbidden(err) && watched.informer.HasSynced() {
		return
	}
	c.mu.Lock()
	watched.err = err
	c.mu.Unlock()
	c.changed(name)
}

// succeeded records that the Secret was read again, after the right to read it was missing.
func (c *Clouds) succeeded(name cache.ObjectName, watched *secret) {
	c.mu.Lock()
	failed := watched.err != nil
	watched.err = nil
	c.mu.Unlock()
	if failed {
		c.changed(name)
	}
}

// createIt is the advice for a Secret that does not exist.
const createIt = "; its key " + keyCloudsYAML + " must contain the credentials"

// read returns the Secret from the cache.
func (s *secret) read(name cache.ObjectName) (*corev1.Secret, error) {
	if s.err != nil {
		return nil, unusable(name.Name, "it cannot be read: "+s.err.Error())
	}
	if !s.informer.HasSynced() {
		return nil, ErrNotReady
	}
	object, err := corelisters.NewSecretLister(s.informer.GetIndexer()).Secrets(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return nil, unusable(name.Name, "it does not exist"+createIt)
	}
	return object, err
}

// content identifies credentials: a hash of everything that matters for a connection.
type content [sha256.Size]byte

func contentOf(secret *corev1.Secret, cloudName string) content {
	hash := sha256.New()
	for _, part := range [][]byte{[]byte(cloudName), secret.Data[keyCloudsYAML], secret.Data[keyCACert]} {
		sum := sha256.Sum256(part)
		hash.Write(sum[:])
	}
	return content(hash.Sum(nil))
}

// ConfigOf returns the configuration of a cloud that a Secret has, if its Keystone is allowed. Its error
// says which key is wrong, and contains nothing of the Secret's content.
func ConfigOf(secret *corev1.Secret, cloudName string, allowed URLs) (neutron.Config, error) {
	return Options{AllowedAuthURLs: allowed}.parse(secret, cloudName)
}

// parse reads an entry of the clouds.yaml in a Secret. The errors name the invalid key, and
// contain nothing of its content.
func (o Options) parse(secret *corev1.Secret, cloudName string) (neutron.Config, error) {
	cloudsYAML, ok := secret.Data[keyCloudsYAML]
	if !ok {
		return neutron.Config{}, invalid(secret, keyCloudsYAML, "it does not exist")
	}
	config, err := neutron.ParseConfig(cloudName, cloudsYAML)
	if err != nil {
		return neutron.Config{}, invalid(secret, keyCloudsYAML, err.Error())
	}
	if !o.AllowedAuthURLs.Allows(config.Auth.IdentityEndpoint) {
		// The message does not list the allowed ones: they may be confidential.
		return neutron.Config{}, invalid(secret, keyCloudsYAML, fmt.Sprintf(
			"the controller is not allowed to connect to the auth_url of cloud %s; its administrator can allow it with -allowed-auth-urls", cloudName))
	}
	if pem, ok := secret.Data[keyCACert]; ok {
		config.TLS.RootCAs = x509.NewCertPool()
		if !config.TLS.RootCAs.AppendCertsFromPEM(pem) {
			return neutron.Config{}, invalid(secret, keyCACert, "it contains no certificate in PEM format")
		}
	}
	return config, nil
}

// invalid returns the error for a key of a Secret.
func invalid(secret *corev1.Secret, key, what string) error {
	return unusable(secret.Name, fmt.Sprintf("key %s: %s", key, what))
}

// unusable returns the error for a Secret.
func unusable(name, what string) error {
	// The names of entries, and of Secrets that cannot exist, can have any characters.
	return &neutron.Error{Op: "Secret " + neutron.Printable(name), Reason: neutron.NoCredentials, Message: neutron.Printable(what)}
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
