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
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/tlsserver"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/world"
)

// The files of the Secret clouds, which change under the process.

// mounted is a world whose controller reads its configuration from files, and speaks TLS.
type mounted struct {
	*fixture
	server    *tlsserver.Server
	directory string
}

func prepareMounted(t *testing.T, s world.Scenario) *mounted {
	t.Helper()
	m := &mounted{fixture: prepare(t, s), directory: t.TempDir()}
	authority := tlsserver.NewAuthority(t)
	m.server = tlsserver.New(t, authority, m.Neutron)
	m.server.Config.SetKeepAlivesEnabled(false) // each request has a handshake
	m.write("ca.pem", authority.PEM)
	m.writeEntry()
	t.Setenv("OS_CLIENT_CONFIG_FILE", filepath.Join(m.directory, "clouds.yaml"))
	config, err := neutron.LoadConfig("test")
	if err != nil {
		t.Fatal(err)
	}
	m.ConfigureFrom(config)
	m.start()
	return m
}

// write replaces a file at once, as the kubelet does.
func (m *mounted) write(name string, content []byte) {
	m.t.Helper()
	temporary := filepath.Join(m.directory, "..new")
	if err := os.WriteFile(temporary, content, 0o600); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(m.directory, name)); err != nil {
		m.t.Fatal(err)
	}
}

// writeEntry writes a clouds.yaml with the present password.
func (m *mounted) writeEntry() {
	m.t.Helper()
	content := bytes.ReplaceAll(m.Neutron.CloudsYAML("test"), []byte(m.Neutron.URL()), []byte(m.server.URL))
	m.write("clouds.yaml", bytes.Replace(content, []byte("    region_name:"),
		fmt.Appendf(nil, "    cacert: %s\n    region_name:", filepath.Join(m.directory, "ca.pem")), 1))
}

// rotations are what changes in OpenStack. Each returns a function that changes the files.
var rotations = []struct {
	name   string
	change func(*mounted) (follow func())
}{
	{"password", (*mounted).changePassword},
	{"authority", (*mounted).changeAuthority},
	{"both", func(m *mounted) func() {
		password, authority := m.changePassword(), m.changeAuthority()
		return func() { password(); authority() }
	}},
}

// changePassword also revokes all tokens, as Keystone does.
func (m *mounted) changePassword() (follow func()) {
	m.t.Helper()
	if err := m.Neutron.SetPassword("samplecrd", "another"); err != nil {
		m.t.Error(err)
	}
	m.Client = m.UserClient("test")
	return m.writeEntry
}

func (m *mounted) changeAuthority() (follow func()) {
	m.t.Helper()
	authority := tlsserver.NewAuthority(m.t)
	m.server.Use(m.t, authority, nil)
	return func() { m.write("ca.pem", authority.PEM) }
}

// TestFilesThatRotateAtEveryRequest changes the password and the authority right before every
// request of a scenario. The files follow at once, or after the next syncs have failed. The same
// process goes on.
func TestFilesThatRotateAtEveryRequest(t *testing.T) {
	runs := 0
	for number, s := range world.Scenarios {
		for i := range rotations {
			for late := range 2 {
				n := number + i + late
				if s.IsRouted() && !*allCases || leftOut(n, 8) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, files late: %v", s.Name, rotations[i].name, late > 0), func(t *testing.T) {
					for request := 1; !t.Failed() && rotate(t, s, request, i, late > 0); request++ {
						runs++
					}
				})
			}
		}
	}
	t.Logf("%d rotations", runs)
}

// rotate runs the scenario with the rotation at this request. It reports whether there were that
// many requests.
func rotate(t *testing.T, s world.Scenario, request, rotation int, isLate bool) (happened bool) {
	t.Helper()
	m := prepareMounted(t, s)
	var follow func()
	m.BeforeRequest(request, func(*http.Request) {
		happened = true
		follow = rotations[rotation].change(m)
		if !isLate {
			follow()
		}
	})
	if isLate {
		for round := 0; round < 6 && !happened; round++ {
			s.Act(m.World)
			_ = m.round()
		}
		if !happened {
			return false
		}
		if err := m.round(); err == nil {
			t.Errorf("request %d: no error without the new files", request)
		}
		follow()
	}
	if err := m.settle(s.Act); err != nil {
		t.Errorf("request %d: %v", request, err)
	}
	for _, violation := range m.Check(s.Want, append(s.Left(), m.Retained...)...) {
		t.Errorf("request %d: %s", request, violation)
	}
	return happened
}
