// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"fmt"
	"testing"
)

func TestParseLeaseV6(t *testing.T) {
	for text, want := range map[string]string{
		"address fd00::5\ndns fd00::53\ndns fd00::54\n": "{fd00::5 [fd00::53 fd00::54]} <nil>",
		"dns fd00::53\n": "{invalid IP [fd00::53]} <nil>",
		"":               "{invalid IP []} <nil>",
		"no answer\n":    `{invalid IP []} DHCPv6: "no answer\n": ParseAddr("answer"): unable to parse IP`,
	} {
		l, err := parseLeaseV6(text)
		if got := fmt.Sprint(l, " ", err); got != want {
			t.Errorf("%q: want %s, got %s", text, want, got)
		}
	}
}
