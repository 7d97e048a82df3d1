// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
)

const loopback = "127.0.0.1"

// ports are the ports that the control plane listens on, all on loopback.
type ports struct {
	APIServer  int `json:"apiserver"`
	EtcdClient int `json:"etcdClient"`
	EtcdPeer   int `json:"etcdPeer"`
}

// choosePorts returns the ports that an earlier run stored in file, so that kubeconfigs
// stay valid. It replaces those that are in use.
func choosePorts(file string) (ports, error) {
	var p ports
	data, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("read the ports of the last run: %w", err)
	}
	// If this fails the ports stay zero, and the next step chooses them.
	_ = json.Unmarshal(data, &p)
	if err := fillPorts(&p.APIServer, &p.EtcdClient, &p.EtcdPeer); err != nil {
		return p, fmt.Errorf("find free ports: %w", err)
	}
	if data, err = json.Marshal(p); err != nil {
		return p, err
	}
	return p, os.WriteFile(file, data, 0o600)
}

// fillPorts replaces each port that is zero or in use by a free one. It keeps all of them
// open until the last is chosen, so that no two are the same.
func fillPorts(wanted ...*int) error {
	for _, port := range wanted {
		l, err := listen(*port)
		if err != nil {
			return err
		}
		defer l.Close()
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}

// The ports to choose from. They are below those that Linux gives to outgoing connections: such a
// connection could take the port of a component while that is started again.
const (
	firstPort = 20_000
	lastPort  = 32_000
)

// listen listens on the port, or on a free one if the port is zero or in use.
func listen(port int) (l net.Listener, err error) {
	for range 100 {
		if port != 0 {
			if l, err = net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port))); err == nil {
				return l, nil
			}
		}
		port = firstPort + rand.IntN(lastPort-firstPort)
	}
	return nil, err
}
