// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/tlsserver"
)

// patience is how long a test waits before it fails.
const patience = 2 * time.Minute

var ref = Ref{Source: cache.NewObjectName("team", "creds"), CloudName: "mycloud"}

// lab is a Clouds with a fake clientset and an embedded OpenStack.
type lab struct {
	*testing.T
	*Clouds
	kube    *fake.Clientset
	neutron *embedded.Server
	// told receives the name of each Secret for which the handler was called.
	told    chan cache.ObjectName
	drifted chan types.UID

	mu     sync.Mutex
	logins int
	lists  int
	// released are the credentials that no Network uses any more.
	released []Ref
	// deleted are the Secrets that were deleted.
	deleted []*corev1.Secret
}

func newLab(t *testing.T, objects ...runtime.Object) *lab {
	t.Helper()
	l := &lab{T: t, kube: fake.NewClientset(objects...), told: make(chan cache.ObjectName, 1000), drifted: make(chan types.UID, 100)}
	l.replay()
	var err error
	l.neutron, err = embedded.Start("127.0.0.1:0", embedded.Options{Projects: []embedded.Project{
		{Name: "one", ID: "id-of-one", Password: "password-of-one"}, {Name: "two", ID: "id-of-two", Password: "password-of-two"},
	}})
	must(t, err)
	l.neutron.Observe(l.count)
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	newCloud := func(config neutron.Config) *neutron.Cloud {
		return neutron.NewCloud(config.Name, neutron.NewClient(config, neutron.ClientOptions{Timeout: patience}), "cluster", time.Hour)
	}
	own, err := neutron.ParseConfig("own", l.neutron.CloudsYAML("own"))
	must(t, err)
	l.Clouds = New(ctx, newCloud(own), Options{Client: l.kube, NewCloud: func(config neutron.Config, _ bool) *neutron.Cloud { return newCloud(config) }})
	l.AddHandlers(Handlers{
		Drift:              func(owner types.UID) { l.drifted <- owner },
		CredentialsChanged: func(name cache.ObjectName) { l.told <- name },
		LabelsChanged:      func(string) {},
		Released:           l.release,
	})
	t.Cleanup(func() {
		cancel()
		l.Wait()
		_ = l.neutron.Close()
	})
	return l
}

func (l *lab) release(ref Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = append(l.released, ref)
}

func (l *lab) count(r embedded.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.Path, "auth/tokens"):
		l.logins++
	case r.Method == http.MethodGet && strings.HasSuffix(r.Path, "networks"):
		l.lists++
	}
}

// calls returns the numbers of log-ins and of lists of networks.
func (l *lab) calls() (logins, lists int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logins, l.lists
}

// secret returns a Secret whose cloud mycloud is that project.
func (l *lab) secret(name, project string, change ...func(*corev1.Secret)) *corev1.Secret {
	cloudsYAML := string(l.neutron.CloudsYAML("mycloud")) // mycloud is the first project, mycloud-two the second
	if project == "two" {
		cloudsYAML = strings.NewReplacer(`"mycloud"`, `"mycloud-one"`, `"mycloud-two"`, `"mycloud"`).Replace(cloudsYAML)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Data: map[string][]byte{keyCloudsYAML: []byte(cloudsYAML)}}
	for _, c := range change {
		c(secret)
	}
	return secret
}

// put creates or updates a Secret.
func (l *lab) put(secret *corev1.Secret) {
	l.Helper()
	gvr := corev1.SchemeGroupVersion.WithResource("secrets")
	err := l.kube.Tracker().Update(gvr, secret, secret.Namespace)
	if apierrors.IsNotFound(err) {
		err = l.kube.Tracker().Create(gvr, secret, secret.Namespace)
	}
	must(l, err)
}

func (l *lab) remove(secret *corev1.Secret) {
	l.Helper()
	l.mu.Lock()
	l.deleted = append(l.deleted, secret)
	l.mu.Unlock()
	must(l, l.kube.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), secret.Namespace, secret.Name))
}

// replay makes each watch of Secrets and namespaces begin with their present state. Otherwise the fake clientset loses what
// changes between a list and its watch.
func (l *lab) replay() {
	for resource, kind := range map[string]string{"secrets": "Secret", "namespaces": "Namespace"} {
		l.kube.PrependWatchReactor(resource, func(a clienttesting.Action) (bool, watch.Interface, error) {
			live, err := l.kube.Tracker().Watch(a.GetResource(), a.GetNamespace())
			if err != nil {
				return true, nil, err
			}
			list, err := l.kube.Tracker().List(a.GetResource(), corev1.SchemeGroupVersion.WithKind(kind), a.GetNamespace())
			if err != nil {
				return true, nil, err
			}
			var events []watch.Event
			l.mu.Lock()
			for _, gone := range l.deleted {
				if resource == "secrets" {
					events = append(events, watch.Event{Type: watch.Deleted, Object: gone.DeepCopy()})
				}
			}
			l.mu.Unlock()
			err = meta.EachListItem(list, func(o runtime.Object) error {
				events = append(events, watch.Event{Type: watch.Added, Object: o})
				return nil
			})
			return true, after(events, live), err
		})
	}
}

// after returns a watch that delivers the events before those of the live watch.
func after(events []watch.Event, live watch.Interface) watch.Interface {
	all := make(chan watch.Event)
	proxy := watch.NewProxyWatcher(all)
	go func() {
		defer live.Stop()
		for {
			if len(events) == 0 {
				select {
				case event := <-live.ResultChan():
					events = append(events, event)
				case <-proxy.StopChan():
					return
				}
			}
			select {
			case all <- events[0]:
				events = events[1:]
			case <-proxy.StopChan():
				return
			}
		}
	}()
	return proxy
}

// networkWith returns a Network that references the credentials, and its key.
func networkWith(ref Ref) (cache.ObjectName, *samplecrdv1.Network) {
	network := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Source.Namespace, Name: ref.Source.Name + "-" + ref.CloudName}}
	network.Spec.CloudCredentialsRef = &samplecrdv1.CloudCredentialsReference{SecretName: ref.Source.Name, CloudName: ref.CloudName}
	return cache.MetaObjectToName(network), network
}

// get calls For with a Network that references the credentials.
func (l *lab) get(ref Ref) (*neutron.Cloud, error) {
	key, network := networkWith(ref)
	return l.For(l.Context(), key, network)
}

// list returns the clouds without the controller's own.
func (l *lab) list() []*neutron.Cloud { return l.List()[1:] }

// until calls For with the Network that references the credentials; see untilFor.
func (l *lab) until(ref Ref, wanted func(*neutron.Cloud, error) bool) *neutron.Cloud {
	l.Helper()
	key, network := networkWith(ref)
	return l.untilFor(key, network, wanted)
}

// untilFor calls For each time that the handler was called, until wanted returns true.
func (l *lab) untilFor(key cache.ObjectName, network *samplecrdv1.Network, wanted func(*neutron.Cloud, error) bool) *neutron.Cloud {
	l.Helper()
	timeout := time.After(patience)
	for {
		cloud, err := l.For(l.Context(), key, network)
		if wanted(cloud, err) {
			return cloud
		}
		select {
		case <-l.told:
		case <-timeout:
			l.Fatalf("no handler was called; the last result is %v, %v", cloud, err)
		}
	}
}

func ready(cloud *neutron.Cloud, err error) bool {
	if err != nil {
		return false
	}
	_, _, err = cloud.Observer().Get("any")
	return err == nil
}

// says returns a function that reports whether the error is NoCredentials and contains the text.
func says(text string) func(*neutron.Cloud, error) bool {
	return func(_ *neutron.Cloud, err error) bool {
		return neutron.ReasonOf(err) == neutron.NoCredentials && strings.Contains(err.Error(), text)
	}
}

func TestACloudIsReadyAfterTheFirstList(t *testing.T) {
	l := newLab(t)
	l.put(l.secret("creds", "one"))
	if _, err := l.get(ref); !errors.Is(err, ErrNotReady) {
		t.Fatalf("got %v, want ErrNotReady", err)
	}
	cloud := l.until(ref, ready)
	if cloud.Name() != "mycloud" {
		t.Errorf("got %s", cloud.Name())
	}
	if again, err := l.get(ref); again != cloud || err != nil {
		t.Errorf("got %v, %v, want the same cloud", again, err)
	}
	if logins, lists := l.calls(); logins != 1 || lists != 1 {
		t.Errorf("%d log-ins and %d lists, want one each", logins, lists)
	}
}

func TestASecretIsCreatedLateThenCorrectedThenDeleted(t *testing.T) {
	l := newLab(t)
	l.until(ref, says("Secret creds: it does not exist"))
	l.put(l.secret("creds", "one", func(s *corev1.Secret) { s.Data = map[string][]byte{"cloud.yaml": nil} }))
	l.until(ref, says("Secret creds: key clouds.yaml: it does not exist"))
	l.put(l.secret("creds", "one", func(s *corev1.Secret) {
		s.Data[keyCloudsYAML] = []byte(strings.ReplaceAll(string(s.Data[keyCloudsYAML]), "password-of-one", "wrong"))
	}))
	l.until(ref, func(cloud *neutron.Cloud, err error) bool {
		if err != nil {
			return false
		}
		_, _, err = cloud.Observer().Get("any")
		return neutron.ReasonOf(err) == neutron.Unauthenticated
	})
	l.put(l.secret("creds", "one"))
	before := l.until(ref, ready)

	l.remove(l.secret("creds", "one"))
	l.until(ref, says("it does not exist"))
	l.put(l.secret("creds", "one"))
	if after := l.until(ref, ready); after != before {
		t.Error("the same credentials have another cloud after the Secret was deleted and created again")
	}
}

func TestSecretsWithTheSameContentShareACloud(t *testing.T) {
	l := newLab(t)
	other := func(name string) Ref { return Ref{cache.NewObjectName("team", name), "mycloud"} }
	l.put(l.secret("a", "one"))
	l.put(l.secret("b", "one"))
	l.put(l.secret("c", "two"))
	l.put(l.secret("d", "one", func(s *corev1.Secret) { s.Data[keyCACert] = certificate(t) }))
	a, b, c, d := l.until(other("a"), ready), l.until(other("b"), ready), l.until(other("c"), ready), l.until(other("d"), ready)
	if a != b || a == c || a == d || c == d {
		t.Errorf("got a %p, b %p, c %p, d %p; want that only a and b are the same cloud", a, b, c, d)
	}
	if n := len(l.list()); n != 3 {
		t.Errorf("%d clouds, want 3", n)
	}
	if logins, _ := l.calls(); logins != 3 {
		t.Errorf("%d log-ins, want 3", logins)
	}
}

func TestRotationCostsOneLogInAndClosesTheUnusedCloud(t *testing.T) {
	l := newLab(t)
	l.put(l.secret("creds", "one"))
	before := l.until(ref, ready)
	l.put(l.secret("creds", "one", func(s *corev1.Secret) {
		s.Data[keyCloudsYAML] = append(s.Data[keyCloudsYAML], "# rotated\n"...)
	}))
	l.until(ref, func(cloud *neutron.Cloud, err error) bool { return cloud != before && ready(cloud, err) })
	if logins, lists := l.calls(); logins != 2 || lists != 2 {
		t.Errorf("%d log-ins and %d lists, want two each", logins, lists)
	}
	if n := len(l.list()); n != 1 {
		t.Errorf("%d clouds are open, want 1", n)
	}
}

// Another content is another cloud, whose connections are new.
func TestTheAuthorityOfASecretIsRotated(t *testing.T) {
	l := newLab(t)
	before, after := tlsserver.NewAuthority(t), tlsserver.NewAuthority(t)
	server := tlsserver.New(t, before, l.neutron)
	with := func(authorities ...[]byte) func(*corev1.Secret) {
		return func(s *corev1.Secret) {
			s.Data[keyCloudsYAML] = bytes.ReplaceAll(s.Data[keyCloudsYAML], []byte(l.neutron.URL()), []byte(server.URL))
			s.Data[keyCACert] = bytes.Join(authorities, nil)
		}
	}
	l.put(l.secret("creds", "one", with(before.PEM)))
	first := l.until(ref, ready)
	l.put(l.secret("creds", "one", with(before.PEM, after.PEM)))
	second := l.until(ref, func(cloud *neutron.Cloud, err error) bool { return cloud != first && ready(cloud, err) })
	server.Use(t, after, nil)
	second.Client().Close() // the idle connections end
	if err := second.Observer().Relist(t.Context()); err != nil {
		t.Error(err)
	}
	equal(t, 1, len(l.list()))
}

func TestOnlyReferencedSecretsAreRead(t *testing.T) {
	l := newLab(t)
	l.put(l.secret("creds", "one"))
	l.until(ref, ready)
	for _, action := range l.kube.Actions() {
		var restrictions clienttesting.ListRestrictions
		switch action := action.(type) {
		case clienttesting.ListAction:
			restrictions = action.GetListRestrictions()
		case clienttesting.WatchAction:
			if fields := action.GetWatchRestrictions().Fields.String(); fields != "metadata.name=creds" {
				t.Errorf("watched with the field selector %q", fields)
			}
			continue
		case clienttesting.CreateAction:
			continue
		}
		if fields := restrictions.Fields.String(); fields != "metadata.name=creds" || action.GetNamespace() != "team" {
			t.Errorf("listed with the field selector %q in namespace %q", fields, action.GetNamespace())
		}
	}
}

// right is the permission to read Secrets, which a test can grant and revoke.
type right struct {
	mu     sync.Mutex
	denied bool
	// watches are the open watches.
	watches []watch.Interface
}

// guard makes the fake clientset check the permission.
func (r *right) guard(kube *fake.Clientset) {
	kube.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) { return r.refuse(), nil, noRight })
	kube.PrependWatchReactor("secrets", func(a clienttesting.Action) (bool, watch.Interface, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.denied {
			return true, nil, noRight
		}
		w, err := kube.Tracker().Watch(a.GetResource(), a.GetNamespace())
		r.watches = append(r.watches, w)
		return true, w, err
	})
}

var noRight = apierrors.NewForbidden(corev1.Resource("secrets"), "creds", errors.New("no permission"))

func (r *right) refuse() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.denied
}

// set grants or revokes the permission. A real API server, too, checks it only when a watch
// starts, so set ends all open watches.
func (r *right) set(given bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.denied = !given
	for _, w := range r.watches {
		w.Stop()
	}
	r.watches = nil
}

func TestASecretIsForbiddenAtFirst(t *testing.T) {
	t.Parallel() // it waits for an informer that tries again
	l := newLab(t)
	right := &right{denied: true}
	right.guard(l.kube)
	l.put(l.secret("creds", "one"))
	l.until(ref, says("it cannot be read: "))
	right.set(true)
	l.until(ref, ready)
}

func TestThePermissionToReadASecretIsRestored(t *testing.T) {
	t.Parallel() // it waits for an informer that tries again
	l := newLab(t)
	right := &right{}
	right.guard(l.kube)
	l.put(l.secret("creds", "one"))
	before := l.until(ref, ready)
	l.failed(ref.Source, l.secrets[ref.Source], errAway) // as when a watch ends
	if _, err := l.get(ref); err != nil {
		t.Errorf("the API server does not answer, and the Secret that was read is forgotten: %v", err)
	}
	right.set(false)
	l.until(ref, says("it cannot be read: "))
	right.set(true)
	if after := l.until(ref, ready); after != before {
		t.Error("the same credentials have another cloud")
	}
}

// manyClouds returns that many entries of a clouds.yaml.
func manyClouds(n int) (entries string) {
	for i := range n {
		entries += fmt.Sprintf("cloud-%d: {auth: {password: hunter2}},", i)
	}
	return entries
}

func TestErrorsDoNotContainTheSecretsContent(t *testing.T) {
	const good = "clouds: {mycloud: {auth: {auth_url: 'http://127.0.0.1/v3', username: u, password: hunter2hunter2, project_name: p, user_domain_name: d, project_domain_name: d}"
	for _, test := range []struct {
		name, cloudsYAML, cacert string
		want                     string
	}{
		{"too large", good + "}}\n#" + strings.Repeat("x", neutron.MaxCloudsYAML), "", "key clouds.yaml: it has more than 64 KiB"},
		{"too many clouds", "clouds: {" + manyClouds(257) + "}", "", "key clouds.yaml: it has more than 256 clouds"},
		{"an entry that aliases make large", "x: &x " + strings.Repeat("hunter2", 1000) + "\nclouds: {mycloud: {auth: {auth_url: *x, username: *x, password: *x}}}", "", "key clouds.yaml: cloud mycloud has more than 16 KiB"},
		{"too many authorities", good + "}}", strings.Repeat("hunter2", 40_000), "key cacert: it has more than 256 KiB"},
		{"not YAML", "password: *hunter2hunter2", "", "key clouds.yaml: it is not YAML of the form that clouds.yaml has"},
		{"a key that differs only in a Unicode letter does not hide the key clouds", good + ", cacert: /hunter2hunter2}}\n\"cloud\u017f\": {mycloud: {}}", "", "cacert in cloud mycloud names a file"},
		{"a list instead of a map", "clouds: [hunter2hunter2]", "", "key clouds.yaml: it is not YAML"},
		{"no such cloud", "clouds: {other: {auth: {password: hunter2hunter2}}}", "", `"mycloud" not found`},
		{"no auth section", "clouds: {mycloud: {region_name: hunter2hunter2}}", "", "no auth section"},
		{"cacert is a file of the controller", good + ", cacert: /hunter2hunter2}}", "", "cacert in cloud mycloud names a file"},
		{"a file, and the key clouds occurs twice", good + ", cacert: /hunter2hunter2}}\nclouds: {other: {}}", "", "cacert in cloud mycloud names a file"},
		{"a file in an entry that YAML merges", "base: &base {cacert: /hunter2hunter2}\n" + good + ", <<: *base}}", "", "cacert in cloud mycloud names a file"},
		{"a profile is in a file too", good + ", profile: hunter2hunter2}}", "", "profile in cloud mycloud names a file"},
		{"cacert contains no certificate", good + "}}", "hunter2hunter2", "key cacert: it contains no certificate in PEM format"},
	} {
		t.Run(test.name, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "creds"}, Data: map[string][]byte{keyCloudsYAML: []byte(test.cloudsYAML)}}
			if test.cacert != "" {
				secret.Data[keyCACert] = []byte(test.cacert)
			}
			_, err := load(secret, "Secret creds", nil).config("mycloud", &Servers{})
			if neutron.ReasonOf(err) != neutron.NoCredentials || !strings.HasPrefix(err.Error(), "Secret creds: ") || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error that contains %q", err, test.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error contains the password: %v", err)
			}
		})
	}
}

func TestEnvironmentVariablesDoNotChangeTheCredentialsOfASecret(t *testing.T) {
	for variable, value := range map[string]string{"OS_PASSWORD": "another", "OS_REGION_NAME": "elsewhere", "OS_AUTH_URL": "http://elsewhere"} {
		t.Setenv(variable, value)
	}
	l := newLab(t)
	l.put(l.secret("creds", "one"))
	l.until(ref, ready)
}

// certificate returns a certificate in PEM format.
func certificate(t *testing.T) []byte {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

func TestErrorsHaveNoControlCharacters(t *testing.T) {
	secret := &corev1.Secret{Data: map[string][]byte{keyCloudsYAML: []byte("clouds: {}")}}
	_, err := load(secret, "Secret a\x1b[2J\nb", nil).config("c\x1b[2J\nd", &Servers{})
	if err == nil || strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("got %q", err)
	}
}

func TestOnlyAllowedAuthURLsAreUsed(t *testing.T) {
	allowed, err := ParseURLs("https://keystone.example.com/identity, http://127.0.0.1:5000")
	must(t, err)
	for address, want := range map[string]bool{
		"https://keystone.example.com/identity/v3":         true,
		"http://127.0.0.1:5000/v3":                         true,
		"http://keystone.example.com/identity/v3":          false,
		"https://keystone.example.com/identity/../hunter2": false,
		"http://169.254.169.254/hunter2":                   false,
	} {
		t.Run(address, func(t *testing.T) {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "creds"}, Data: map[string][]byte{
				keyCloudsYAML: []byte("clouds: {mycloud: {auth: {auth_url: '" + address + "', username: u, password: hunter2}}}")}}
			if _, err := load(secret, "Secret creds", nil).config("mycloud", &Servers{}); err != nil {
				t.Errorf("refused without a list of allowed URLs: %v", err)
			}
			_, err := load(secret, "Secret creds", nil).config("mycloud", &Servers{Allowed: allowed})
			if want {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if neutron.ReasonOf(err) != neutron.NoCredentials || !strings.Contains(err.Error(), "-allowed-auth-urls") {
				t.Errorf("got %v", err)
			}
			for _, hidden := range []string{"hunter2", "keystone.example.com", "5000"} {
				if strings.Contains(err.Error(), hidden) {
					t.Errorf("the error contains %q: %v", hidden, err)
				}
			}
		})
	}
}
