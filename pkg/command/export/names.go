// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxLabel and maxObjectName leave room for what unique appends, in the 63 and 253 characters
	// that Kubernetes allows.
	maxLabel      = 48
	maxObjectName = 200
	// shortID is how many characters of an ID are appended to a name.
	shortID = 8
)

// objectName returns the text if it is a valid name of an object in lower case, and otherwise the
// nearest label. It returns "" if nothing of the text can be in a name.
func objectName(text string) string {
	if lower := strings.ToLower(text); len(lower) <= maxObjectName && len(validation.IsDNS1123Subdomain(lower)) == 0 {
		return lower
	}
	return label(text)
}

// label returns the text as a DNS label: letters lose their accents, and a dash replaces everything
// that no label can have. It returns "" if nothing is left.
func label(text string) string {
	var b strings.Builder
	for _, r := range norm.NFKD.String(strings.ToLower(text)) {
		switch {
		case unicode.Is(unicode.Mn, r): // an accent
		case 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-")
	return strings.Trim(name[:min(len(name), maxLabel)], "-")
}

// unique returns the names, each of them once: those that are empty or occur twice get the
// beginning of the ID that belongs to them. fallback is for the empty ones.
func unique(names, ids []string, fallback string) []string {
	count := map[string]int{}
	for _, name := range names {
		count[name]++
	}
	taken := sets.New[string]()
	for name, n := range count {
		if n == 1 {
			taken.Insert(name)
		}
	}
	result := make([]string, len(names))
	for i, name := range names {
		if name != "" && count[name] == 1 {
			result[i] = name
			continue
		}
		id := label(ids[i])
		base := strings.Trim(cmp.Or(name, fallback)+"-"+id[:min(len(id), shortID)], "-")
		result[i] = base
		for n := 2; taken.Has(result[i]); n++ {
			result[i] = fmt.Sprintf("%s-%d", base, n)
		}
		taken.Insert(result[i])
	}
	return result
}
