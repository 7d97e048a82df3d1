// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"fmt"
	"strings"
)

// Summary returns the last line of a subcommand, such as 2 Networks: 1 moved, 1 with an error. The results are in that order.
func Summary[R ~string](total int, counts map[R]int, order ...R) string {
	var parts []string
	for _, result := range order {
		if counts[result] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[result], result))
		}
	}
	return strings.TrimSuffix(Count(total, "Network")+": "+strings.Join(parts, ", "), ": ")
}

// Count returns the number with the noun, such as 2 changes.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
