// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/tlsserver"
)

// secureLab is a lab that speaks TLS, and the directory that the Secret clouds is mounted in.
type secureLab struct {
	*lab
	server    *tlsserver.Server
	directory string
}

func newSecureLab(t *testing.T, a *tlsserver.Authority) *secureLab {
	t.Helper()
	l := &secureLab{lab: newLab(t, embedded.Options{}), directory: t.TempDir()}
	l.server = tlsserver.New(t, a, l.lab)
	l.write(t, "ca.pem", a.PEM)
	return l
}

// write replaces a file in the directory at once, as the kubelet does.
func (l *secureLab) write(t *testing.T, name string, content []byte) {
	t.Helper()
	temporary := filepath.Join(l.directory, "..new")
	noError(t, os.WriteFile(temporary, content, 0o600))
	noError(t, os.Rename(temporary, filepath.Join(l.directory, name)))
}

// client returns a client of the file clouds.yaml, which names the other files with these keys.
func (l *secureLab) client(t *testing.T, keys ...string) *Client {
	t.Helper()
	content := strings.ReplaceAll(string(l.cloudsYAML("samplecrd", password)), l.http.URL, l.server.URL)
	for _, line := range append(keys, "cacert: ca.pem") {
		key, name, _ := strings.Cut(line, ": ")
		content += "    " + key + ": " + filepath.Join(l.directory, name) + "\n"
	}
	l.write(t, "clouds.yaml", []byte(content))
	t.Setenv("OS_CLIENT_CONFIG_FILE", filepath.Join(l.directory, "clouds.yaml"))
	config, err := LoadConfig("lab")
	noError(t, err)
	return newTestClient(t, config, ClientOptions{Timeout: time.Hour})
}

// works fails the test unless the client can list networks.
func works(t *testing.T, c *Client) {
	t.Helper()
	_, err := c.ListNetworks(t.Context())
	noError(t, err)
}

// fails fails the test unless a handshake fails.
func fails(t *testing.T, c *Client) {
	t.Helper()
	_, err := c.ListNetworks(t.Context())
	if ReasonOf(err) != Unavailable || !strings.Contains(err.Error(), "tls: ") {
		t.Fatalf("got %v", err)
	}
}

func TestTheServerHasANewAuthorityBeforeTheFile(t *testing.T) {
	before, after := tlsserver.NewAuthority(t), tlsserver.NewAuthority(t)
	l := newSecureLab(t, before)
	c := l.client(t)
	works(t, c)
	l.server.Use(t, after, nil)
	works(t, c) // with the idle connection
	c.Close()
	l.write(t, "ca.pem", []byte("not a certificate")) // which changes nothing
	for range 3 {
		fails(t, c)
	}
	l.server.Use(t, before, nil)
	works(t, c)
	l.server.Use(t, after, nil)
	c.Close()
	l.write(t, "ca.pem", after.PEM)
	fails(t, c) // the request that reads the file again
	works(t, c)
	equal(t, 1, l.count("POST "+tokensPath)) // the token is good
}

// The old authority is not trusted any more, however long the old connections would last.
func TestANewSessionUsesTheNewAuthority(t *testing.T) {
	before, after := tlsserver.NewAuthority(t), tlsserver.NewAuthority(t)
	l := newSecureLab(t, before)
	c := l.client(t)
	works(t, c)
	l.write(t, "ca.pem", after.PEM)
	l.RevokeTokens()
	for range 3 {
		fails(t, c)
	}
	l.server.Use(t, after, nil)
	works(t, c)
}

func TestTheAuthorityOfTheVariablesIsReadAgain(t *testing.T) {
	before, after := tlsserver.NewAuthority(t), tlsserver.NewAuthority(t)
	l := newSecureLab(t, before)
	bare(t)
	setenv(t, map[string]string{
		"OS_AUTH_URL": l.server.URL + "/identity/v3", "OS_USERNAME": "samplecrd", "OS_PASSWORD": password, "OS_PROJECT_NAME": "samplecrd",
		"OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default", "OS_CACERT": filepath.Join(l.directory, "ca.pem"),
	})
	config, err := LoadConfig("")
	noError(t, err)
	c := newTestClient(t, config, ClientOptions{Timeout: 10 * time.Second})
	works(t, c)
	l.server.Use(t, after, nil)
	l.write(t, "ca.pem", after.PEM)
	c.Close()
	fails(t, c)
	works(t, c)
}

// The certificate and its key are two files: for a moment they do not match.
func TestTheCertificateOfTheClientIsReadAgain(t *testing.T) {
	server, before, after := tlsserver.NewAuthority(t), tlsserver.NewAuthority(t), tlsserver.NewAuthority(t)
	l := newSecureLab(t, server)
	l.server.Use(t, server, before)
	certificate, key := before.Issue(t)
	l.write(t, "client.pem", certificate)
	l.write(t, "client.key", key)
	c := l.client(t, "cert: client.pem", "key: client.key")
	works(t, c)
	l.server.Use(t, server, after)
	c.Close()
	certificate, key = after.Issue(t)
	for _, change := range []func(){
		func() {},
		func() { l.write(t, "client.pem", certificate) },
		func() { l.write(t, "client.key", key) }, // the next request fails, and reads the files again
	} {
		change()
		_, err := c.ListNetworks(t.Context())
		equal(t, Unavailable, ReasonOf(err))
	}
	works(t, c)
}

// A request that is under way keeps its connection, and all others go on.
func TestRequestsAreUnderWayWhileTheAuthorityIsRotated(t *testing.T) {
	l := newSecureLab(t, tlsserver.NewAuthority(t))
	c := l.client(t)
	network, err := c.CreateNetwork(t.Context(), creating(testName).fields())
	noError(t, err)
	held, release := make(chan struct{}), make(chan struct{})
	l.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		close(held)
		<-release
		return reply(w, http.StatusOK, `{"network": {"id": "`+network.ID+`"}}`)
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if _, err := c.UpdateNetwork(t.Context(), &network, update(renaming("renamed").Changes)); err != nil {
			t.Error(err)
		}
	})
	<-held
	for range 8 {
		running.Go(func() {
			for ctx.Err() == nil {
				_, _ = c.ListNetworks(t.Context()) // it may fail
				time.Sleep(time.Millisecond)       // while the circuit is open, it takes no time
			}
		})
	}
	for range 5 {
		authority := tlsserver.NewAuthority(t)
		l.write(t, "ca.pem", authority.PEM)
		l.RevokeTokens() // the next request makes a new session
		l.server.Use(t, authority, nil)
	}
	close(release)
	cancel()
	running.Wait()
	for _, err = c.ListNetworks(t.Context()); err != nil; _, err = c.ListNetworks(t.Context()) { // the circuit may be open
		time.Sleep(probing / 10)
	}
}
