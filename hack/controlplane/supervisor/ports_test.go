// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestPortsAreKeptWhileTheyAreFree(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports.json")
	if err := os.WriteFile(file, []byte(`{"apiserver":`), 0o600); err != nil { // damaged
		t.Fatal(err)
	}
	first := mustChoose(t, file)
	if first.APIServer == first.EtcdClient || first.EtcdClient == first.EtcdPeer || first.APIServer == first.EtcdPeer {
		t.Fatalf("ports are not distinct: %+v", first)
	}
	for _, port := range []int{first.APIServer, first.EtcdClient, first.EtcdPeer} {
		if port < firstPort || port >= lastPort {
			t.Errorf("an outgoing connection may take port %d", port)
		}
	}
	if again := mustChoose(t, file); again != first {
		t.Errorf("want %+v again, got %+v", first, again)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", loopback, first.APIServer))
	must(t, err)
	defer l.Close()
	if second := mustChoose(t, file); second.APIServer == first.APIServer || second.EtcdClient != first.EtcdClient {
		t.Errorf("port %d is in use, and the others are not: %+v became %+v", first.APIServer, first, second)
	}
}

func mustChoose(t *testing.T, file string) ports {
	t.Helper()
	p, err := choosePorts(file)
	must(t, err)
	return p
}
