// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/samplecrd/samplecrd-controller/pkg/testing/tlsserver"
)

// files are the files of a certificate.
type files struct {
	*testing.T
	cert, key string
	// content is the certificate.
	content string
}

func newFiles(t *testing.T) files {
	t.Helper()
	cert, key := tlsserver.NewAuthority(t).Issue(t)
	f := files{T: t, cert: filepath.Join(t.TempDir(), "tls.crt"), key: filepath.Join(t.TempDir(), "tls.key"), content: string(cert)}
	f.write(f.cert, cert)
	f.write(f.key, key)
	return f
}

func (f files) write(path string, content []byte) {
	f.Helper()
	must(f, os.WriteFile(path, content, 0o600))
}

// hello is a handler that answers hello.
var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })

// listen returns a server on a free port.
func listen(t *testing.T, options Options) *Server {
	t.Helper()
	options.Address = "127.0.0.1:0"
	server, err := Listen(options)
	must(t, err)
	return server
}

// serve serves hello until the test ends. It returns the log.
func serve(t *testing.T, server *Server) *safeBuffer {
	t.Helper()
	logged := &safeBuffer{}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(logged)))))
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(ctx, hello); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); serving.Wait() })
	return logged
}

// safeBuffer is a buffer for concurrent use.
type safeBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func get(t *testing.T, url string) string {
	t.Helper()
	response, err := http.Get(url)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return string(body)
}

// at is a listener that does not listen at its address.
type at string

func (at) Accept() (net.Conn, error) { return nil, net.ErrClosed }

func (at) Close() error { return nil }

func (a at) Addr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(string(a))) }

func TestConfidential(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:1": true, "127.0.0.77:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:1": false, "[::]:1": false, "10.0.0.1:1": false, "[fe80::1]:1": false,
	} {
		if got := (&Server{listener: at(address)}).Confidential(); got != want {
			t.Errorf("%s: got %t", address, got)
		}
		equal(t, true, (&Server{listener: at(address), tls: &tls.Config{}}).Confidential())
	}
}

func TestStart(t *testing.T) {
	for _, tt := range []struct {
		authorized string
		want       int
	}{
		{"true", http.StatusUnauthorized},
		{"auto", http.StatusUnauthorized}, // on a loopback address
		{"false", http.StatusNotFound},
	} {
		server := listen(t, Options{Authorized: tt.authorized})
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
		stop := server.Start(ctx, newLab(t).routes)
		cancel() // it does not stop with ctx
		response, err := http.Post("http://"+server.Address()+"/reconcile/default/net", "", nil)
		must(t, err)
		_ = response.Body.Close()
		if response.StatusCode != tt.want {
			t.Errorf("-serve-authorized=%s: got %s", tt.authorized, response.Status)
		}
		stop()
		if _, err := server.listener.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("it serves after stop: %v", err)
		}
	}
}

func TestNothingIsServedWithoutAnAddress(t *testing.T) {
	server, err := Listen(Options{})
	if err != nil || server != nil {
		t.Fatalf("got %v, %v", server, err)
	}
	server.Start(t.Context(), Routes{})()
}

func TestListenReturnsTheError(t *testing.T) {
	taken := listen(t, Options{})
	defer taken.listener.Close()
	f, other := newFiles(t), newFiles(t)
	for _, test := range []struct {
		options Options
		want    string
	}{
		{Options{Address: taken.Address()}, "address already in use"},
		{Options{Address: "nonsense"}, "missing port"},
		{Options{Address: "127.0.0.1:0", CertFile: "/does/not/exist", KeyFile: f.key}, "/does/not/exist"},
		{Options{Address: "127.0.0.1:0", CertFile: f.cert, KeyFile: "/does/not/exist"}, "/does/not/exist"},
		{Options{Address: "127.0.0.1:0", CertFile: f.cert, KeyFile: other.key}, "does not match"},
		{Options{Address: "127.0.0.1:0", CertFile: f.key, KeyFile: f.cert}, "TLS certificate"},
	} {
		if _, err := Listen(test.options); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
}

// certificateOf returns the server's certificate, in PEM, on a new connection with that version of TLS.
func certificateOf(server *Server, version uint16) (string, error) {
	connection, err := tls.Dial("tcp", server.Address(), &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
	if err != nil {
		return "", err
	}
	defer connection.Close()
	certificate := &pem.Block{Type: "CERTIFICATE", Bytes: connection.ConnectionState().PeerCertificates[0].Raw}
	return string(pem.EncodeToMemory(certificate)), nil
}

func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	f := newFiles(t)
	server := listen(t, Options{CertFile: f.cert, KeyFile: f.key})
	serve(t, server)
	for version, want := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		certificate, err := certificateOf(server, version)
		equal(t, want, err == nil && certificate == f.content)
	}
}

func TestAChangedCertificateIsReloaded(t *testing.T) {
	f := newFiles(t)
	server := listen(t, Options{CertFile: f.cert, KeyFile: f.key})
	reader, err := loadCertificate(f.cert, f.key)
	must(t, err)
	reader.recheck = 0
	server.tls.GetCertificate = reader.forConnection
	logged := serve(t, server)
	shows := func(want string, lines int) {
		t.Helper()
		for range 2 {
			certificate, err := certificateOf(server, tls.VersionTLS13)
			equal(t, true, err == nil && certificate == want)
		}
		equal(t, lines, strings.Count(logged.String(), "\n"))
	}
	shows(f.content, 0)
	cert, key := tlsserver.NewAuthority(t).Issue(t)
	f.write(f.cert, cert) // before the key
	shows(f.content, 1)
	f.write(f.key, key)
	shows(string(cert), 2)
	must(t, os.Remove(f.cert))
	shows(string(cert), 3)
	f.write(f.cert, cert)
	shows(string(cert), 4)
	if strings.Contains(logged.String(), "PRIVATE KEY") {
		t.Error("the log contains the key")
	}
	response, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}).Get("https://" + server.Address())
	must(t, err)
	response.Body.Close()
	equal(t, 2, response.ProtoMajor)
}

func TestFilesAreNotReadForEachConnection(t *testing.T) {
	f := newFiles(t)
	c, err := loadCertificate(f.cert, f.key)
	must(t, err)
	c.recheck = time.Hour
	first := c.current
	cert, key := tlsserver.NewAuthority(t).Issue(t)
	f.write(f.cert, cert)
	f.write(f.key, key)
	for _, test := range []struct {
		checked time.Time
		same    bool
	}{{time.Now(), true}, {time.Now().Add(-2 * time.Hour), false}} {
		c.checked = test.checked
		equal(t, test.same, c.get(klog.NewContext(t.Context(), klog.Logger{})) == first)
	}
}

func TestServeWaitsForRequestsAtTheEnd(t *testing.T) {
	server := listen(t, Options{})
	came, finish := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{}))
	served := make(chan error)
	go func() {
		served <- server.Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(came)
			<-finish
			if r.Context().Err() != nil {
				t.Error("the request is cut off")
			}
			hello(w, r)
		}))
	}()
	answers := make(chan string)
	go func() { answers <- get(t, "http://"+server.Address()) }()
	<-came
	cancel()
	// It refuses new connections soon after. Another server may get its port then.
	if _, err := server.listener.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it goes on: %v", err)
	}
	close(finish)
	equal(t, "hello", <-answers)
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestServeReturnsTheErrorOfItsListener(t *testing.T) {
	server := listen(t, Options{})
	server.listener.Close()
	if err := server.Serve(klog.NewContext(t.Context(), klog.Logger{}), hello); err == nil {
		t.Error("no error")
	}
}

func TestMessagesOfNetHTTPAreLoggedAtVerbosity2(t *testing.T) {
	for verbosity, want := range map[int]int{0: 0, 2: 1} {
		var logged bytes.Buffer
		logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&logged), textlogger.Verbosity(verbosity)))
		log.New(errorLog{logger}, "", 0).Print("TLS handshake error")
		equal(t, want, strings.Count(logged.String(), `message="TLS handshake error"`+"\n"))
	}
}

// Connections whose requests never end must not take the memory of the controller, or the place of other callers.
func TestConnectionsAreBounded(t *testing.T) {
	server := listen(t, Options{Address: "127.0.0.1:0"})
	serve(t, server)
	dial := func(from string) net.Conn {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		connection, err := dialer.DialContext(t.Context(), "tcp", server.Address())
		must(t, err)
		t.Cleanup(func() { _ = connection.Close() })
		return connection
	}
	// isOpen reports whether the server reads from the connection: it answers a request.
	isOpen := func(connection net.Conn) bool {
		_, _ = connection.Write([]byte("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"))
		answer := make([]byte, 12)
		_, err := io.ReadFull(connection, answer)
		return err == nil && string(answer) == "HTTP/1.1 200"
	}
	var held []net.Conn
	for range connectionsPerAddress {
		held = append(held, dial("127.0.0.1"))
	}
	equal(t, true, isOpen(held[connectionsPerAddress-1]))
	equal(t, false, isOpen(dial("127.0.0.1")))
	equal(t, true, isOpen(dial("127.0.0.2")))
	must(t, held[0].Close())
	for deadline := time.Now().Add(time.Minute); !isOpen(dial("127.0.0.1")); {
		if time.Now().After(deadline) {
			t.Fatal("a connection that was closed still counts")
		}
	}
}

func TestAnAddressWithoutAConnectionIsAdmitted(t *testing.T) {
	l := newBoundedListener(nil)
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i % 256)}) }
	for i := range connectionsAtOnce {
		equal(t, true, l.admit(address(i/connectionsPerAddress)))
	}
	equal(t, false, l.admit(address(0)))
	equal(t, true, l.admit(address(100))) // the kubelet
	equal(t, false, l.admit(address(100)))
	for i := range connectionsAtOnce - 1 {
		equal(t, true, l.admit(address(1000+i)))
	}
	equal(t, false, l.admit(address(10_000)))
	l.release(address(100))
	equal(t, true, l.admit(address(100)))
}

func TestAHeaderThatIsTooLargeIsRefused(t *testing.T) {
	server := listen(t, Options{Address: "127.0.0.1:0"})
	serve(t, server)
	for length, want := range map[int]int{maxHeader - 1000: http.StatusOK, maxHeader + 10_000: http.StatusRequestHeaderFieldsTooLarge} {
		request, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+server.Address()+"/healthz", nil)
		must(t, err)
		request.Header.Set("Authorization", "Bearer "+strings.Repeat("x", length))
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		_ = response.Body.Close()
		equal(t, want, response.StatusCode)
	}
}
