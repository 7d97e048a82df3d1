// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// bare removes all clouds from the test's environment: no variables are set, and there are no
// files in the directories that are searched.
func bare(t *testing.T) {
	t.Helper()
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "OS_") {
			t.Setenv(name, "") // restores it at the end
			_ = os.Unsetenv(name)
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Chdir(t.TempDir())
}

func setenv(t *testing.T, variables map[string]string) {
	t.Helper()
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	noError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	noError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const twoClouds = `
clouds:
  one:
    region_name: RegionOne
    interface: internal
    auth:
      auth_url: https://one.example.com/v3
      username: user-1
      password: ` + password + `
      project_name: project-1
      user_domain_name: Default
      project_domain_name: Default
  two:
    auth:
      auth_url: https://two.example.com/v3
      application_credential_id: app-2
      application_credential_secret: ` + password + `
`

var cloudOne = Config{
	Name: "one",
	Auth: gophercloud.AuthOptions{
		IdentityEndpoint: "https://one.example.com/v3",
		Username:         "user-1",
		Password:         password,
		DomainName:       "Default",
		TenantName:       "project-1",
		Scope:            &gophercloud.AuthScope{ProjectName: "project-1", DomainName: "Default"},
	},
	Endpoint: gophercloud.EndpointOpts{Region: "RegionOne", Availability: gophercloud.AvailabilityInternal},
}

// wantConfig compares everything except the TLS settings.
func wantConfig(t *testing.T, want Config, got Config, err error) {
	t.Helper()
	noError(t, err)
	got.TLS = nil
	equal(t, want, got)
}

func TestTheCloudIsFoundAsOpenStacksClientsDo(t *testing.T) {
	for _, test := range []struct {
		name  string
		file  string // in the working directory, if it is relative
		env   map[string]string
		cloud string // of -cloud
	}{
		{"OS_CLOUD names the entry", "clouds.yaml", map[string]string{"OS_CLOUD": "one"}, ""},
		{"-cloud wins over OS_CLOUD", "clouds.yaml", map[string]string{"OS_CLOUD": "two"}, "one"},
		{"OS_CLIENT_CONFIG_FILE names the file", "elsewhere/my.yaml", map[string]string{"OS_CLOUD": "one", "OS_CLIENT_CONFIG_FILE": "elsewhere/my.yaml"}, ""},
		{"the file is in ~/.config", "config/openstack/clouds.yaml", map[string]string{"OS_CLOUD": "one", "XDG_CONFIG_HOME": "config"}, ""},
		{"an entry wins over OS_AUTH_URL", "clouds.yaml", map[string]string{"OS_CLOUD": "one", "OS_AUTH_URL": "https://env.example.com/v3", "OS_USERNAME": "env", "OS_PASSWORD": "env"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			bare(t)
			setenv(t, test.env)
			write(t, test.file, twoClouds)
			got, err := LoadConfig(test.cloud)
			wantConfig(t, cloudOne, got, err)
		})
	}
}

func TestThePasswordMayBeInSecureYAML(t *testing.T) {
	bare(t)
	write(t, "clouds.yaml", strings.ReplaceAll(twoClouds, "password: "+password, ""))
	write(t, "secure.yaml", "clouds: {one: {auth: {password: "+password+"}}}")
	got, err := LoadConfig("one")
	wantConfig(t, cloudOne, got, err)
}

func TestTheVariablesAloneAreEnough(t *testing.T) {
	const url = "https://me:secret@env.example.com/v3"
	for _, test := range []struct {
		name     string
		env      map[string]string
		auth     gophercloud.AuthOptions
		endpoint gophercloud.EndpointOpts
	}{
		{
			"a user and a project by name, as openrc files have them",
			map[string]string{"OS_USERNAME": "u", "OS_PROJECT_NAME": "p", "OS_USER_DOMAIN_NAME": "ud", "OS_PROJECT_DOMAIN_NAME": "pd",
				"OS_REGION_NAME": "r", "OS_INTERFACE": "admin", "OS_IDENTITY_API_VERSION": "3"},
			gophercloud.AuthOptions{Username: "u", DomainName: "ud", TenantName: "p", Scope: &gophercloud.AuthScope{ProjectName: "p", DomainName: "pd"}},
			gophercloud.EndpointOpts{Region: "r", Availability: gophercloud.AvailabilityAdmin},
		},
		{
			"an application credential",
			map[string]string{"OS_APPLICATION_CREDENTIAL_ID": "a", "OS_APPLICATION_CREDENTIAL_SECRET": "s"},
			gophercloud.AuthOptions{ApplicationCredentialID: "a", ApplicationCredentialSecret: "s"},
			gophercloud.EndpointOpts{Availability: gophercloud.AvailabilityPublic},
		},
		{
			"what YAML would not read as a string",
			map[string]string{"OS_USERNAME": "yes", "OS_USER_DOMAIN_NAME": "0123"},
			gophercloud.AuthOptions{Username: "yes", DomainName: "0123"},
			gophercloud.EndpointOpts{Availability: gophercloud.AvailabilityPublic},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			bare(t)
			setenv(t, test.env)
			setenv(t, map[string]string{"OS_AUTH_URL": url, "OS_PASSWORD": "*a: {b} # \"c'\n%"})
			// A file that is not requested is ignored.
			write(t, "clouds.yaml", twoClouds)
			test.auth.IdentityEndpoint, test.auth.Password = url, "*a: {b} # \"c'\n%"
			got, err := LoadConfig("")
			wantConfig(t, Config{Name: "https://env.example.com/v3", Auth: test.auth, Endpoint: test.endpoint}, got, err)
		})
	}
}

func TestEachVariableIsRead(t *testing.T) {
	bare(t)
	for indent, variables := range map[string]string{
		"\n    ": "REGION_NAME INTERFACE=ENDPOINT_TYPE INTERFACE CACERT CERT KEY",
		"\n      ": `AUTH_URL USERNAME USER_ID PASSWORD TOKEN PROJECT_NAME=TENANT_NAME PROJECT_NAME PROJECT_ID=TENANT_ID PROJECT_ID
			USER_DOMAIN_NAME USER_DOMAIN_ID PROJECT_DOMAIN_NAME PROJECT_DOMAIN_ID DOMAIN_NAME DOMAIN_ID
			APPLICATION_CREDENTIAL_ID APPLICATION_CREDENTIAL_NAME APPLICATION_CREDENTIAL_SECRET`,
	} {
		for _, name := range strings.Fields(variables) {
			key, former, _ := strings.Cut(name, "=") // which counts until the other one is set
			t.Setenv("OS_"+cmp.Or(former, key), "of "+name)
			got, err := environmentAsCloud()
			noError(t, err)
			if want := indent + strings.ToLower(key) + ": of " + name + "\n"; !strings.Contains(string(got), want) {
				t.Errorf("%q is not in %s", want, got)
			}
		}
	}
}

func TestWhatDisablesTheCheckOfCertificates(t *testing.T) {
	for value, want := range map[string]bool{"": false, "false": false, "true": true, "1": true} {
		t.Run("OS_INSECURE="+value, func(t *testing.T) {
			bare(t)
			setenv(t, map[string]string{"OS_AUTH_URL": "https://env.example.com/v3", "OS_INSECURE": value})
			got, err := LoadConfig("")
			noError(t, err)
			equal(t, want, got.TLS != nil && got.TLS.InsecureSkipVerify)
		})
	}
	for entry, want := range map[string]bool{"": false, "verify: true, ": false, "verify: no, ": true} {
		got, err := ParseConfig("mine", []byte("clouds: {mine: {"+entry+"auth: {auth_url: 'https://x'}}}"))
		noError(t, err)
		equal(t, want, got.TLS.InsecureSkipVerify)
	}
}

func TestNoCloudIsConfigured(t *testing.T) {
	bare(t)
	// Neither an unused file nor a single variable names a cloud.
	write(t, "clouds.yaml", twoClouds)
	t.Setenv("OS_REGION_NAME", "RegionOne")
	if _, err := LoadConfig(""); !errors.Is(err, ErrNoCloud) {
		t.Errorf("got %v", err)
	}
}

func TestAConfigurationThatIsWrong(t *testing.T) {
	const secret = "s3cr3t" // short, since errors of the YAML parser quote the beginning
	check := func(t *testing.T, err error, want ...string) {
		t.Helper()
		if err == nil {
			t.Fatal("no error")
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not contain %q", err, part)
			}
		}
		if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), password) {
			t.Errorf("%q has more than one line, or a secret", err)
		}
	}
	for _, test := range []struct {
		name, content string
		loaded        string // in the error of LoadConfig
		parsed        string // in that of ParseConfig
	}{
		{"there is no such entry", twoClouds, "not found", "mine: "},
		{"the entry is empty", "clouds: {mine: }", "no auth section", "mine: the entry in clouds.yaml has no auth section"},
		{"there is no auth_url", "clouds: {mine: {auth: {username: u, password: " + secret + "}}}", "auth_url", "mine: no auth_url"},
		{"the file is not YAML", "clouds:\n  mine:\n  auth: x: y\n", "line 3", "not YAML of the form that clouds.yaml has (line 3)"},
		{"the file is empty", "", "EOF", "not YAML"},
		{"the auth section is a string", "clouds:\n  mine:\n    auth: " + secret + "\n", "line 3", "line 3"},
		{"the text has backquotes", "clouds:\n  mine: \"a`" + secret + "`b\"\n", "line 2", "line 2"},
		{"the password is read as an alias", "clouds:\n  mine:\n    auth:\n      password: *" + secret + "\n", "unknown anchor", "not YAML"},
		{"the password is read as a tag", "clouds:\n  mine:\n    auth:\n      password: !!int " + secret + "\n", "yaml", "not YAML"},
		{"the certificate does not exist", "clouds: {mine: {cacert: /nowhere/ca.pem, auth: {auth_url: 'https://x', password: " + secret + "}}}", "/nowhere/ca.pem", "names a file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bare(t)
			file := write(t, filepath.Join(t.TempDir(), "my.yaml"), test.content)
			t.Setenv("OS_CLIENT_CONFIG_FILE", file)
			_, err := LoadConfig("mine")
			check(t, err, test.loaded, "mine", file)
			_, err = ParseConfig("mine", []byte(test.content))
			check(t, err, test.parsed)
		})
	}
	t.Run("the variables", func(t *testing.T) {
		bare(t)
		setenv(t, map[string]string{"OS_AUTH_URL": "https://env.example.com/v3", "OS_PASSWORD": password, "OS_CACERT": "/nowhere/ca.pem"})
		_, err := LoadConfig("")
		check(t, err, "the OS_* variables", "/nowhere/ca.pem")
		setenv(t, map[string]string{"OS_AUTH_URL": "https://me:" + password + "@[::1/v3", "OS_CACERT": ""})
		config, err := LoadConfig("")
		noError(t, err)
		equal(t, "OS_AUTH_URL", config.Name)
		_, err = newTestClient(t, config, ClientOptions{Timeout: time.Second}).ListNetworks(t.Context())
		check(t, err, "authenticate: ")
	})
}

func TestTheContentOfACloudsYAMLNamesNoFiles(t *testing.T) {
	bare(t)
	file := write(t, "ca.pem", "no certificate")
	write(t, "clouds-public.yaml", "public-clouds: {it: {auth: {auth_url: 'https://public.example.com'}}}")
	const auth = "auth: {auth_url: 'https://x', password: p}"
	for _, test := range []struct{ name, cloud, content, key string }{
		{"the file of authorities", "mine", "clouds: {mine: {cacert: " + file + ", " + auth + "}}", "cacert"},
		{"the certificate of a client", "mine", "clouds: {mine: {cert: " + file + ", " + auth + "}}", "cert"},
		{"the key of a client", "mine", "clouds: {mine: {key: " + file + ", " + auth + "}}", "key"},
		{"clouds-public.yaml", "mine", "clouds: {mine: {profile: it, " + auth + "}}", "profile"},
		{"clouds-public.yaml, by the old key", "mine", "clouds: {mine: {cloud: it, " + auth + "}}", "cloud"},
		{"hidden by a second list of clouds", "mine", "clouds: {mine: {cacert: " + file + ", " + auth + "}}\nclouds: {other: {}}", "cacert"},
		{"in an entry whose name YAML reads as a boolean", "yes", "clouds: {yes: {cacert: " + file + ", " + auth + "}}", "cacert"},
		{"merged from somewhere else", "mine", "x: &x {cacert: " + file + "}\nclouds: {mine: {<<: *x, " + auth + "}}", "cacert"},
		{"by a key in base64", "mine", "clouds: {mine: {!!binary Y2FjZXJ0: " + file + ", " + auth + "}}", "cacert"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseConfig(test.cloud, []byte(test.content))
			if err == nil || !strings.Contains(err.Error(), test.key+" in cloud "+test.cloud+" names a file") || strings.Contains(err.Error(), file) {
				t.Errorf("got %v", err)
			}
		})
	}
	// Settings that only other clients know have no effect.
	got, err := ParseConfig("mine", []byte("clouds: {mine: {network_endpoint_override: 'http://elsewhere', regions: [{name: r, values: {cacert: "+file+"}}], "+auth+"}}"))
	noError(t, err)
	equal(t, "https://x", got.Auth.IdentityEndpoint)
	equal(t, gophercloud.EndpointOpts{Availability: gophercloud.AvailabilityPublic}, got.Endpoint)
}
