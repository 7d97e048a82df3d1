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
	"crypto/sha256"
	"crypto/x509"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// The keys of a Secret.
const (
	keyCloudsYAML = "clouds.yaml"
	keyCACert     = "cacert"
)

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
