// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
)

// expectNothingOnTheHost expects that this computer has none of the bridges and network namespaces that Neutron's agents have made in
// namespaces of their own, for the networks of a test.
func (w *world) expectNothingOnTheHost() {
	w.Helper()
	interfaces, err := net.Interfaces()
	w.must(err)
	entries, err := os.ReadDir("/run/netns")
	if !errors.Is(err, fs.ErrNotExist) {
		w.must(err)
	}
	here := map[string]bool{}
	for _, i := range interfaces {
		here[i.Name] = true
	}
	for _, e := range entries {
		here[e.Name()] = true
	}
	for _, list := range []struct{ kind, prefix string }{{"link", "brq"}, {"netns", "qdhcp-"}} {
		out, err := w.real.Command(w.Context(), "ip", "-json", list.kind, "list").Output()
		w.must(err)
		var items []struct {
			Interface string `json:"ifname"`
			Name      string
		}
		w.must(json.Unmarshal(out, &items))
		count := 0
		for _, item := range items {
			name := item.Interface + item.Name // the kernel itself makes others, such as lo
			if !strings.HasPrefix(name, list.prefix) {
				continue
			}
			count++
			if here[name] {
				w.Errorf("%s of the agents is on this computer", name)
			}
		}
		if count == 0 {
			w.Errorf("ip %s list shows nothing of the agents: %s", list.kind, out)
		}
	}
}
