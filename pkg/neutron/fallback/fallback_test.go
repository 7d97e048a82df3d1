// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package fallback

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// withoutCloud takes away everything that says which cloud to use.
func withoutCloud(t *testing.T) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "OS_") {
			t.Setenv(name, "") // restores it when the test ends
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
}

func TestTheEmbeddedNeutronIsUsedIfNoCloudIsConfigured(t *testing.T) {
	withoutCloud(t)
	cloud, err := LoadConfig("", true)
	if err != nil {
		t.Fatal(err)
	}
	defer cloud.Close()
	client := neutron.NewClient(cloud.Config, neutron.ClientOptions{Timeout: time.Minute, Connections: 1})
	if err := client.DeleteNetwork(t.Context(), "unknown", nil); err != nil { // it does not exist, which is not an error
		t.Error(err)
	}
	var warned strings.Builder
	cloud.Warn(&warned)
	for _, want := range []string{"EMBEDDED Neutron, in memory", "OS_CLOUD", "\n    clouds:\n"} {
		if !strings.Contains(warned.String(), want) {
			t.Errorf("%q is not in the warning: %s", want, warned.String())
		}
	}
}

func TestTheEmbeddedNeutronIsUsedInNoOtherCase(t *testing.T) {
	withoutCloud(t)
	if _, err := LoadConfig("", false); !errors.Is(err, neutron.ErrNoCloud) {
		t.Errorf("not allowed: %v", err)
	}
	if _, err := LoadConfig("mine", true); err == nil || errors.Is(err, neutron.ErrNoCloud) {
		t.Errorf("a wrong configuration: %v", err)
	}
}

func TestAConfiguredCloudIsUsedWithoutAWarning(t *testing.T) {
	withoutCloud(t)
	for name, value := range map[string]string{"OS_AUTH_URL": "http://127.0.0.1:1/v3", "OS_USERNAME": "me", "OS_PASSWORD": "secret", "OS_PROJECT_NAME": "mine",
		"OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default"} {
		t.Setenv(name, value)
	}
	cloud, err := LoadConfig("", true)
	if err != nil {
		t.Fatal(err)
	}
	defer cloud.Close()
	var warned strings.Builder
	if cloud.Warn(&warned); warned.Len() > 0 || cloud.server != nil {
		t.Errorf("got %+v; %s", cloud, warned.String())
	}
}
