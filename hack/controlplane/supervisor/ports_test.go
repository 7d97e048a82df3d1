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
