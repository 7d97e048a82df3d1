// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package logging

import (
	"bytes"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printable makes each entry of a log printable, so that text of others cannot look like an entry of ours, or control a
// terminal. Each Write is one entry, which begins a line. A line break inside it, which only the text format has, is followed by
// white space; klog itself indents a value of several lines by a tab. Other characters that cannot be seen are written as JSON
// does: \u001b.
type printable struct{ to io.Writer }

// Write writes the entry. The number of bytes that it returns is the one of the original.
func (p printable) Write(entry []byte) (int, error) {
	text := entry
	if i := bytes.IndexFunc(entry, isUnusual); i >= 0 && i < len(entry)-1 || !utf8.Valid(entry) {
		text = escape(entry)
	}
	if _, err := p.to.Write(text); err != nil {
		return 0, err
	}
	return len(entry), nil
}

// isUnusual reports whether escape may change the character.
func isUnusual(r rune) bool { return r < ' ' || r > '~' && !unicode.IsPrint(r) }

// escape returns the entry with all characters printable.
func escape(entry []byte) []byte {
	out := make([]byte, 0, len(entry)+len(entry)/8)
	for i, size := 0, 0; i < len(entry); i += size {
		var r rune
		r, size = utf8.DecodeRune(entry[i:])
		switch rest := entry[i+size:]; {
		case r == '\n':
			out = append(out, '\n')
			if len(rest) > 0 && rest[0] != '\t' && rest[0] != ' ' {
				out = append(out, '\t')
			}
		case r == '\t' || !isUnusual(r) && r != utf8.RuneError:
			out = append(out, entry[i:i+size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default: // also a byte that is no UTF-8, as U+FFFD
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}
