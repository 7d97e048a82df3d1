// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	yamlv2 "go.yaml.in/yaml/v2"
	"sigs.k8s.io/yaml"
)

// ErrNoCloud is the error of LoadConfig if neither an entry of clouds.yaml nor OS_AUTH_URL is named.
var ErrNoCloud = errors.New("no cloud is configured: name an entry of clouds.yaml with -cloud or OS_CLOUD, or set OS_AUTH_URL and the other OS_* variables")

// Config is where Neutron is, and the credentials to use it.
type Config struct {
	// Name is the name of the cloud for users: the entry of clouds.yaml, or the URL of Keystone.
	Name     string
	Auth     gophercloud.AuthOptions
	Endpoint gophercloud.EndpointOpts
	// TLS is nil for the defaults.
	TLS *tls.Config
	// Untrusted means that somebody else has named the servers, who must not learn what they answer unless they are OpenStack's.
	Untrusted bool
	// Denied are the networks of addresses that no connection is made to.
	Denied []netip.Prefix

	// reload reads the configuration again; nil if it cannot change.
	reload func() (Config, error)
}

// current returns the configuration with the credentials and certificates of now.
func (c Config) current() (Config, error) {
	if c.reload == nil {
		return c, nil
	}
	return c.reload()
}

// sameCredentials reports whether both have the same credentials and certificates, and name the
// same endpoint.
func (c Config) sameCredentials(other Config) bool {
	return reflect.DeepEqual(c.Auth, other.Auth) && reflect.DeepEqual(c.Endpoint, other.Endpoint) && sameTLS(c.TLS, other.TLS)
}

// sameTLS compares what a configuration can set.
func sameTLS(a, b *tls.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.InsecureSkipVerify == b.InsecureSkipVerify && a.RootCAs.Equal(b.RootCAs) &&
		slices.EqualFunc(a.Certificates, b.Certificates, func(a, b tls.Certificate) bool {
			return slices.EqualFunc(a.Certificate, b.Certificate, bytes.Equal)
		})
}

// LoadConfig reads the configuration as OpenStack's own clients do: from the entry of
// clouds.yaml that cloud names, or else the entry that OS_CLOUD names, or else from the OS_*
// variables alone. The file is OS_CLIENT_CONFIG_FILE, or clouds.yaml in the working directory,
// in ~/.config/openstack or in /etc/openstack. Errors name the file or the variable. LoadConfig
// makes no request. A Client with the result reads the file, and those that it names, again each
// time it authenticates.
func LoadConfig(cloud string) (Config, error) {
	reload, err := configReader(cloud)
	if err != nil {
		return Config{}, err
	}
	config, err := reload()
	config.reload = reload
	return config, err
}

// configReader returns a function that reads the configuration as LoadConfig does.
func configReader(cloud string) (func() (Config, error), error) {
	if cloud == "" {
		cloud = os.Getenv("OS_CLOUD")
	}
	if cloud != "" {
		where := "cloud " + cloud
		if file := os.Getenv("OS_CLIENT_CONFIG_FILE"); file != "" {
			where += " in " + file
		}
		return func() (Config, error) { return parseCloud(cloud, where, clouds.WithCloudName(cloud)) }, nil
	}
	authURL := os.Getenv("OS_AUTH_URL")
	if authURL == "" {
		return nil, ErrNoCloud
	}
	entry, err := environmentAsCloud()
	return func() (Config, error) { // the variables stay, and the files that they name can change
		return parseCloud(withoutUser(authURL), "the OS_* variables", clouds.WithCloudName(environment), clouds.WithCloudsYAML(bytes.NewReader(entry)))
	}, err
}

// withoutUser returns the URL without the user and the password in it.
func withoutUser(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "OS_AUTH_URL"
	}
	parsed.User = nil
	return parsed.String()
}

// MaxCloudsYAML is how many bytes a CloudsYAML can have. For each, the parser allocates up to 350 bytes, and takes up
// to a microsecond.
const MaxCloudsYAML = 64 << 10

// maxEntries and maxEntry bound what is kept of a CloudsYAML, and what is parsed again for one entry: by an alias, a text can
// stand in it many times.
const (
	maxEntries = 256
	maxEntry   = 16 << 10
)

// CloudsYAML is the content of a clouds.yaml whose author may not be allowed to read the process's files, or to
// take its memory.
type CloudsYAML struct{ entries map[string]clouds.Cloud }

// ParseCloudsYAML reads the content of a clouds.yaml. Its errors quote nothing of it.
func ParseCloudsYAML(content []byte) (CloudsYAML, error) {
	if len(content) > MaxCloudsYAML {
		return CloudsYAML{}, fmt.Errorf("it has more than %d KiB", MaxCloudsYAML>>10)
	}
	var file clouds.Clouds
	if err := yamlv2.NewDecoder(bytes.NewReader(content)).Decode(&file); err != nil {
		// The rest of the parser's message may quote a password.
		return CloudsYAML{}, fmt.Errorf("it is not YAML of the form that clouds.yaml has %s", lineOf(err))
	}
	if len(file.Clouds) > maxEntries {
		return CloudsYAML{}, fmt.Errorf("it has more than %d clouds", maxEntries)
	}
	for name, entry := range file.Clouds {
		entry.Regions = nil // they are not used, and can be large
		file.Clouds[name] = entry
	}
	return CloudsYAML{file.Clouds}, nil
}

// Names returns the names of the entries, in order.
func (c CloudsYAML) Names() []string { return slices.Sorted(maps.Keys(c.entries)) }

// Has reports whether there is an entry of that name.
func (c CloudsYAML) Has(name string) bool {
	_, ok := c.entries[name]
	return ok
}

// Config returns the configuration of an entry. It refuses one that names a file, and ignores the OS_* variables, which are for
// the process's own cloud.
func (c CloudsYAML) Config(cloud string) (Config, error) {
	entry := c.entries[cloud]
	if key := namesFile(entry); key != "" {
		return Config{}, fmt.Errorf("%s in cloud %s names a file, which the controller does not have; put CA certificates into the key cacert of the Secret", key, cloud)
	}
	only := c.only(cloud)
	if len(only) > maxEntry {
		return Config{}, fmt.Errorf("cloud %s has more than %d KiB", cloud, maxEntry>>10)
	}
	config, err := parseCloud(cloud, "cloud "+cloud, clouds.WithCloudName(cloud), clouds.WithCloudsYAML(bytes.NewReader(only)),
		clouds.WithRegion(""), clouds.WithEndpointType(""))
	if err != nil {
		return Config{}, err
	}
	// The TLS settings of gophercloud depend on OS_CACERT and similar variables.
	config.TLS = &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: entry.Verify != nil && !*entry.Verify}
	return config, nil
}

// only returns the content of a clouds.yaml with only that entry, or without any. It has no more than namesFile was asked
// about, whatever gophercloud's parser would have read in the original.
func (c CloudsYAML) only(cloud string) []byte {
	file := clouds.Clouds{Clouds: map[string]clouds.Cloud{}}
	if entry, ok := c.entries[cloud]; ok {
		file.Clouds[cloud] = entry
	}
	content, err := yamlv2.Marshal(file)
	if err != nil {
		panic(err) // it was read from YAML
	}
	return content
}

// namesFile returns the key of the entry that names a file; "" if none does.
func namesFile(entry clouds.Cloud) string {
	for _, named := range []struct{ key, file string }{
		{"cacert", entry.CACertFile}, {"cert", entry.ClientCertFile}, {"key", entry.ClientKeyFile},
		{"profile", entry.Profile}, {"cloud", entry.Cloud},
	} {
		if named.file != "" {
			return named.key
		}
	}
	return ""
}

// ParseConfig returns the configuration of one entry of a CloudsYAML.
func ParseConfig(cloud string, cloudsYAML []byte) (Config, error) {
	file, err := ParseCloudsYAML(cloudsYAML)
	if err != nil {
		return Config{}, err
	}
	return file.Config(cloud)
}

// lineNumber matches the position in a message of the YAML parser.
var lineNumber = regexp.MustCompile(`line \d+`)

func lineOf(err error) string {
	if line := lineNumber.FindString(err.Error()); line != "" {
		return "(" + line + ")"
	}
	return ""
}

// parseCloud is clouds.Parse with additional checks. Errors begin with where.
func parseCloud(name, where string, opts ...clouds.ParseOption) (_ Config, err error) {
	// gophercloud v2.15 dereferences a missing auth section.
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("%s: the entry in clouds.yaml has no auth section", where)
		}
	}()
	auth, endpoint, tlsConfig, err := clouds.Parse(opts...)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %s", where, oneLine(err))
	}
	if auth.IdentityEndpoint == "" {
		return Config{}, fmt.Errorf("%s: no auth_url is given", where)
	}
	return Config{Name: name, Auth: auth, Endpoint: endpoint, TLS: tlsConfig}, nil
}

// quoted matches what the YAML parser quotes from the file. It may be a password: one that
// begins with an asterisk, for example, is read as an alias.
var quoted = regexp.MustCompile("(?s)`.*`|'[^' ]*'")

// oneLine returns a message of the YAML parser on one line and without quoted text.
func oneLine(err error) string {
	return strings.Join(strings.Fields(quoted.ReplaceAllString(err.Error(), "(...)")), " ")
}

// environment is the name of the entry that environmentAsCloud returns.
const environment = "environment"

// environmentAsCloud returns the OS_* variables as a clouds.yaml with one entry, so that one
// reader does for both. gophercloud's own reader of the variables ignores OS_USER_DOMAIN_NAME,
// OS_PROJECT_DOMAIN_NAME and OS_CACERT.
func environmentAsCloud() ([]byte, error) {
	entry := fromEnvironment("region_name", "interface", "cacert", "cert", "key")
	entry["auth"] = fromEnvironment("auth_url", "username", "user_id", "password", "token", "project_name", "project_id",
		"user_domain_name", "user_domain_id", "project_domain_name", "project_domain_id", "domain_name", "domain_id",
		"application_credential_id", "application_credential_name", "application_credential_secret")
	if insecure := os.Getenv("OS_INSECURE"); insecure == "true" || insecure == "1" {
		entry["verify"] = false
	}
	return yaml.Marshal(map[string]any{"clouds": map[string]any{environment: entry}})
}

// formerVariables are those that are read if the variable of the key is empty.
var formerVariables = map[string]string{"project_name": "OS_TENANT_NAME", "project_id": "OS_TENANT_ID", "interface": "OS_ENDPOINT_TYPE"}

// fromEnvironment returns the keys whose variables are not empty. That of a key has its name: OS_AUTH_URL is for auth_url.
func fromEnvironment(keys ...string) map[string]any {
	values := map[string]any{}
	for _, key := range keys {
		if value := cmp.Or(os.Getenv("OS_"+strings.ToUpper(key)), os.Getenv(formerVariables[key])); value != "" {
			values[key] = value
		}
	}
	return values
}
