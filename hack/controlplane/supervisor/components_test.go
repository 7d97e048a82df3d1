// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"net"
	"net/url"
	"strings"
	"testing"
)

func TestComponentsListenOnLoopbackOnly(t *testing.T) {
	for name, args := range testArguments() {
		for _, arg := range args {
			flag, value, _ := strings.Cut(arg, "=")
			if strings.HasSuffix(flag, "-urls") {
				u, err := url.Parse(value)
				if err != nil || u.Scheme != "https" {
					t.Errorf("%s: %s is not a secure URL", name, arg)
					continue
				}
				value = u.Hostname()
			}
			isAddress := strings.HasSuffix(flag, "-urls") || strings.HasSuffix(flag, "-address")
			if isAddress && !net.ParseIP(value).IsLoopback() {
				t.Errorf("%s: %s is not on loopback", name, arg)
			}
		}
	}
}

func testArguments() map[string][]string {
	return arguments(layout{dir: "/dir"}, ports{APIServer: 1, EtcdClient: 2, EtcdPeer: 3})
}
