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

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/election"
	"github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/fake"
	"github.com/samplecrd/samplecrd-controller/pkg/options"
	"github.com/samplecrd/samplecrd-controller/pkg/serving"
)

// asController, set in the environment, makes the test binary be the controller: see
// TestMain.
const asController = "SAMPLECRD_TEST_AS_CONTROLLER"

// runController runs main in a process of its own, and returns what it printed and its
// exit code.
func runController(t *testing.T, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Dir = t.TempDir() // no clouds.yaml here
	cmd.Env = append([]string{asController + "=1", "HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH")}, env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

// write makes a file in a folder of its own.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// kubeconfigTo is a kubeconfig for an address at which nobody answers, or somebody.
func kubeconfigTo(t *testing.T, address string) string {
	return write(t, "kubeconfig", `{"apiVersion":"v1","kind":"Config","current-context":"a","contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],
		"users":[{"name":"a","user":{}}],"clusters":[{"name":"a","cluster":{"server":"`+address+`"}}]}`)
}

// nobody is a loopback address at which no server listens: the port is reserved (RFC 6335).
const nobody = "http://127.0.0.1:1"

func TestWhatIsSetUpWrongIsToldInOneLine(t *testing.T) {
	noCloud := func(*testing.T) []string { return nil }
	tests := []struct {
		name string
		env  func(*testing.T) []string
		args func(*testing.T) []string
		code int
		want []string
	}{
		{"no cluster at all", noCloud, func(*testing.T) []string { return nil }, 1, []string{"-kubeconfig", "-master"}},
		{"kubeconfig does not exist", noCloud, func(*testing.T) []string { return []string{"-kubeconfig=/does/not/exist"} }, 1,
			[]string{"kubeconfig", "/does/not/exist", "no such file"}},
		{"kubeconfig is no kubeconfig", noCloud, func(t *testing.T) []string { return []string{"-kubeconfig=" + write(t, "kubeconfig", "nonsense: [")} }, 1,
			[]string{"kubeconfig: error loading config file"}},
		{"kubeconfig without a context", noCloud, func(t *testing.T) []string {
			return []string{"-kubeconfig=" + write(t, "kubeconfig", "apiVersion: v1\nkind: Config\n")}
		}, 1,
			[]string{"kubeconfig", "no configuration has been provided"}},
		{"nobody answers", noCloud, func(t *testing.T) []string { return []string{"-kubeconfig=" + kubeconfigTo(t, nobody)} }, 1,
			[]string{"Kubernetes at " + nobody, "connection refused"}},
		{"nobody answers, and a cluster ID is given", noCloud, func(*testing.T) []string { return []string{"-master=" + nobody, "-cluster-id=a"} }, 1,
			[]string{"Kubernetes at " + nobody, "connection refused"}},
		{"unknown cloud", func(t *testing.T) []string {
			return []string{"OS_CLIENT_CONFIG_FILE=" + write(t, "clouds.yaml", "clouds: {mine: {auth: {auth_url: http://127.0.0.1:1/v3}}}")}
		}, func(*testing.T) []string { return []string{"-master=" + nobody, "-cloud=yours"} }, 1,
			[]string{`cloud "yours"`, "clouds.yaml"}},
		{"clouds.yaml with an error", func(t *testing.T) []string {
			return []string{"OS_CLOUD=mine", "OS_CLIENT_CONFIG_FILE=" + write(t, "clouds.yaml", "clouds:\n  mine: [not, a, map\n")}
		}, func(*testing.T) []string { return []string{"-master=" + nobody} }, 1,
			[]string{"cloud mine", "yaml: line"}},
		{"no clouds.yaml", func(*testing.T) []string { return []string{"OS_CLOUD=mine"} }, func(*testing.T) []string { return []string{"-master=" + nobody} }, 1,
			[]string{"cloud mine", "clouds.yaml"}},
		{"no workers", noCloud, func(*testing.T) []string { return []string{"-workers=0"} }, 2, []string{"-workers=0", "at least 1"}},
		{"less than no workers", noCloud, func(*testing.T) []string { return []string{"-workers=-3"} }, 2, []string{"-workers=-3", "at least 1"}},
		{"unknown flag", noCloud, func(*testing.T) []string { return []string{"-worker=3"} }, 2, []string{"-worker", "-h"}},
		{"an argument", noCloud, func(*testing.T) []string { return []string{"start"} }, 2, []string{`"start"`, "-h"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stdout, stderr, code := runController(t, tt.env(t), tt.args(t)...)
			if code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			if strings.Count(stderr, "\n") != 1 || stdout != "" {
				t.Errorf("it printed more than a line:\n%s%s", stderr, stdout)
			}
			for _, want := range tt.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%q does not say %q", stderr, want)
				}
			}
		})
	}
}

func TestHelpAndVersionGoToStandardOutput(t *testing.T) {
	for _, arg := range []string{"-h", "-help", "--help"} {
		stdout, stderr, code := runController(t, nil, arg)
		if code != 0 || stderr != "" {
			t.Errorf("%s: exit code %d, and on standard error: %s", arg, code, stderr)
		}
		for _, want := range []string{"Usage:", "-kubeconfig file", "-workers", "(default 32)", "Logging:"} {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s does not show %q", arg, want)
			}
		}
	}
	stdout, _, code := runController(t, nil, "-version")
	if code != 0 || !strings.HasPrefix(stdout, "samplecrd-controller ") || !strings.Contains(stdout, ", commit ") {
		t.Errorf("-version: exit code %d: %s", code, stdout)
	}
}

// missing is the API server's answer while there is no CRD.
var missing = apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{Group: samplecrdv1.GroupName, Resource: "networks"}, "", "404 page not found", 0, true)

func TestTheCRDIsWaitedForWithOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		began := time.Now()
		client.PrependReactor("list", "networks", func(clienttesting.Action) (bool, runtime.Object, error) {
			return time.Since(began) < time.Hour, nil, missing
		})
		var log bytes.Buffer
		if err := waitForNetworks(logTo(t.Context(), &log), client, metav1.NamespaceAll, serving.NewReadiness(networksReady)); err != nil {
			t.Fatal(err)
		}
		if late := time.Since(began) - time.Hour; late > 2*time.Second {
			t.Errorf("it went to work %s after the CRD was there", late)
		}
		if got := strings.Count(log.String(), "\n"); got != 2 {
			t.Errorf("%d lines in the log, want one that it waits and one that it goes on:\n%s", got, log.String())
		}
	})
}

func TestAnAPIServerThatGoesAwayWhileTheCRDIsWaitedForIsWaitedForToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		answers := []error{missing, errors.New("connection refused"), errors.New("connection refused"), missing}
		client.PrependReactor("list", "networks", func(clienttesting.Action) (bool, runtime.Object, error) {
			if len(answers) == 0 {
				return false, nil, nil
			}
			err := answers[0]
			answers = answers[1:]
			return true, nil, err
		})
		if err := waitForNetworks(logTo(t.Context(), io.Discard), client, metav1.NamespaceAll, serving.NewReadiness(networksReady)); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAListOfNetworksThatIsForbiddenIsAnError(t *testing.T) {
	client := fake.NewClientset()
	forbidden := apierrors.NewForbidden(samplecrdv1.Resource("networks"), "", errors.New("no right"))
	client.PrependReactor("list", "networks", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, forbidden })
	if err := waitForNetworks(logTo(t.Context(), io.Discard), client, metav1.NamespaceAll, serving.NewReadiness(networksReady)); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want the API server's error", err)
	}
}

func logTo(ctx context.Context, w io.Writer) context.Context {
	return klog.NewContext(ctx, textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(w))))
}

func TestStripManagedFields(t *testing.T) {
	n := newNetwork("10.0.0.0/24", "", func(n *samplecrdv1.Network) { n.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}} })
	stripped, err := stripManagedFields(n)
	if err != nil || stripped.(*samplecrdv1.Network).ManagedFields != nil || stripped.(*samplecrdv1.Network).Spec.CIDR == "" {
		t.Errorf("got %+v, %v", stripped, err)
	}
	if tombstone, err := stripManagedFields("no object"); err != nil || tombstone != "no object" {
		t.Errorf("got %v, %v", tombstone, err)
	}
}

// loggedAsJSON returns the lines that are logged with those flags.
func loggedAsJSON(t *testing.T, log func(klog.Logger), args ...string) (lines []map[string]any) {
	t.Helper()
	o, flags := options.New()
	if err := flags.Parse(append(args, "-logging-format=json")); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr := os.Stderr
	os.Stderr = file
	defer func() {
		os.Stderr = stderr
		klog.ClearLogger()
		_ = flags.Set("v", "0") // klog's, and so everybody's
	}()
	setLogger(o, flags)
	log(klog.Background())
	content, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("not an object: %q: %v", line, err)
		}
		lines = append(lines, fields)
	}
	return lines
}

func TestALineOfTheLogInJSON(t *testing.T) {
	n := newNetwork("10.0.0.0/24", "")
	name := n.Namespace + "/" + n.Name
	tests := []struct {
		name string
		log  func(klog.Logger)
		want map[string]any // nil: no line
	}{
		{"a message", func(l klog.Logger) { l.Info("Stopped") }, map[string]any{"level": "INFO", "msg": "Stopped"}},
		{"what -v brings is for debugging, however far it goes", func(l klog.Logger) { l.V(4).Info("Synced") }, map[string]any{"level": "DEBUG", "msg": "Synced"}},
		{"more than -v asks for", func(l klog.Logger) { l.V(5).Info("Synced") }, nil},
		{"an error", func(l klog.Logger) { l.Error(errors.New("no luck"), "Failed") }, map[string]any{"level": "ERROR", "msg": "Failed", "err": "no luck"}},
		{"a name as the queue has it", func(l klog.Logger) { l.Info("", "network", cache.MetaObjectToName(n)) }, map[string]any{"network": name}},
		{"a duration", func(l klog.Logger) { l.Info("", "after", 1500*time.Millisecond) }, map[string]any{"after": "1.5s"}},
		{"a moment", func(l klog.Logger) { l.Info("", "at", time.Unix(0, 0).UTC()) }, map[string]any{"at": "1970-01-01T00:00:00Z"}},
		{"nothing where there could be something", func(l klog.Logger) { l.Info("", "url", (*url.URL)(nil)) }, map[string]any{"url": "<nil>"}},
		{"a number", func(l klog.Logger) { l.Info("", "count", 8) }, map[string]any{"count": 8.0}},
		{"several lines are one", func(l klog.Logger) { l.Info("", "err", errors.New("one\ntwo")) }, map[string]any{"err": "one\ntwo"}},
		{"what a logger has of its own", func(l klog.Logger) { klog.LoggerWithValues(l, "network", cache.MetaObjectToName(n)).Info("") }, map[string]any{"network": name}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines := loggedAsJSON(t, tt.log, "-v=4")
			if tt.want == nil {
				if len(lines) > 0 {
					t.Errorf("got %v", lines)
				}
				return
			}
			if len(lines) != 1 {
				t.Fatalf("want one line, got %v", lines)
			}
			said, _ := lines[0]["time"].(string)
			if at, err := time.Parse(time.RFC3339Nano, said); err != nil || time.Since(at) > time.Minute {
				t.Errorf("the time is %v: %v", at, err)
			}
			for key, want := range tt.want {
				if got := lines[0][key]; got != want {
					t.Errorf("%s: got %v, want %v", key, got, want)
				}
			}
			if source, _ := lines[0]["source"].(string); !strings.HasPrefix(source, "main_test.go:") {
				t.Errorf("the source is %v", source)
			}
		})
	}
}

func TestWhatEndsItIsALineInJSONToo(t *testing.T) {
	_, stderr, code := runController(t, nil, "-logging-format=json", "-master="+nobody)
	var line struct{ Level, Msg, Err string }
	if err := json.Unmarshal([]byte(stderr), &line); err != nil {
		t.Fatalf("not an object: %q: %v", stderr, err)
	}
	if code != 1 || line.Level != "ERROR" || line.Msg == "" || !strings.Contains(line.Err, "Kubernetes at "+nobody) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestWhetherReplicasElectALeader(t *testing.T) {
	for _, tt := range []struct {
		flag, pod string
		want      bool
	}{
		{"auto", "", false},
		{"auto", "10.96.0.1", true},
		{"true", "", true},
		{"true", "10.96.0.1", true},
		{"false", "", false},
		{"false", "10.96.0.1", false},
	} {
		t.Setenv("KUBERNETES_SERVICE_HOST", tt.pod)
		if got := electing(&options.Options{LeaderElect: tt.flag}); got != tt.want {
			t.Errorf("-leader-elect=%s, in a pod: %t: got %t", tt.flag, tt.pod != "", got)
		}
	}
}

func TestTheLeaseIsWhereTheFlagSaysOrElseWhereThePodIs(t *testing.T) {
	given := electionOptions(&options.Options{Election: election.Options{Namespace: "here"}})
	if given.Namespace != "here" {
		t.Errorf("got %q", given.Namespace)
	}
	want := metav1.NamespaceSystem
	if namespace, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil {
		want = strings.TrimSpace(string(namespace)) // the tests run in a pod
	}
	if got := electionOptions(&options.Options{}); got.Namespace != want {
		t.Errorf("got %q, want %q", got.Namespace, want)
	}
}

func TestRequestsForTheLeaseWaitForNoOthers(t *testing.T) {
	shared := flowcontrol.NewTokenBucketRateLimiter(1, 1)
	config := &rest.Config{Host: nobody, UserAgent: "me", RateLimiter: shared, Timeout: kubernetesTimeout}
	got := forLeases(config, 10*time.Second)
	if got.Host != nobody || got.UserAgent != "me" {
		t.Errorf("it leads elsewhere: %+v", got)
	}
	if got.Timeout != 5*time.Second {
		t.Errorf("there is no time for a second try: a request may take %s", got.Timeout)
	}
	for range 1000 {
		if !got.RateLimiter.TryAccept() {
			t.Fatal("the rate is limited")
		}
	}
	if config.RateLimiter != shared || config.Timeout != kubernetesTimeout {
		t.Errorf("the others' configuration was changed: %+v", config)
	}
}
