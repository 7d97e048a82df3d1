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
