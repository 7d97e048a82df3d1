// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxText is the length of names, descriptions and tags, in characters.
const maxText = 255

// standardAttributes returns the attributes that every kind has, around the special ones.
// The order is that of Neutron's checks where it matters: the first failure is reported.
func standardAttributes[T object](special []*attribute[T]) []*attribute[T] {
	head := []*attribute[T]{
		{name: "id", flags: filter | sortable, get: func(o T) any { return o.std().id }},
		{name: "name", flags: onPost | onPut | filter | sortable | folded, check: text(maxText), get: func(o T) any { return o.std().name }},
	}
	project := func(o T) any { return o.std().project }
	tail := []*attribute[T]{
		{name: "tenant_id", flags: onPost | filter | sortable, check: text(maxText), get: project},
		{name: "project_id", flags: onPost | filter | sortable, check: text(maxText), get: project},
		{name: "description", flags: onPost | onPut | filter | folded, check: text(maxText), get: func(o T) any { return o.std().description }},
		{name: "tags", flags: filter, get: func(o T) any { return o.std().tags }, match: matchTags[T](hasAll, false)},
		{name: "tags-any", flags: filter, match: matchTags[T](hasAny, false)},
		{name: "not-tags", flags: filter, match: matchTags[T](hasAll, true)},
		{name: "not-tags-any", flags: filter, match: matchTags[T](hasAny, true)},
		{name: "created_at", get: func(o T) any { return timestamp(o.std().created) }},
		{name: "updated_at", get: func(o T) any { return timestamp(o.std().updated) }},
		{name: "revision_number", flags: filter, get: func(o T) any { return o.std().revision }},
	}
	return slices.Concat(head, special, tail)
}

// timestamp formats t with whole seconds, the precision of Neutron's database column.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// text returns a check for a string of at most limit characters.
func text(limit int) func(string, any) (any, *failure) {
	return func(name string, v any) (any, *failure) {
		if reason := textFault(v, limit); reason != "" {
			return nil, badValue(name, reason)
		}
		return v, nil
	}
}

// textFault returns why v is not a string of at most limit characters; "" means that it is.
// It counts characters, not bytes, as Python does.
func textFault(v any, limit int) string {
	s, ok := v.(string)
	if !ok {
		return fmt.Sprintf("'%s' is not a valid string", python(v))
	}
	if utf8.RuneCountInString(s) > limit {
		return fmt.Sprintf("'%s' exceeds maximum length of %d", s, limit)
	}
	return ""
}

// truth converts everything that oslo's bool_from_string accepts, which is more than JSON's
// booleans.
func truth(_ string, v any) (any, *failure) {
	switch strings.ToLower(strings.TrimSpace(python(v))) {
	case "1", "t", "true", "on", "y", "yes":
		return true, nil
	case "0", "f", "false", "off", "n", "no":
		return false, nil
	}
	return nil, invalidInput("'%s' cannot be converted to boolean", python(v))
}

// integer converts a number, or a string that holds one.
func integer(_ string, v any) (any, *failure) {
	if b, ok := v.(bool); ok { // Python's booleans are numbers
		if b {
			return 1, nil
		}
		return 0, nil
	}
	s := strings.TrimSpace(python(v))
	if n, ok := v.(json.Number); ok {
		s, _, _ = strings.Cut(string(n), ".")
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		return nil, invalidInput("'%s' is not an integer", python(v))
	}
	return n, nil
}

// atLeastZero converts an integer and refuses a negative one.
func atLeastZero(name string, v any) (any, *failure) {
	n, err := integer(name, v)
	if err == nil && n.(int) < 0 {
		return nil, badValue(name, fmt.Sprintf("'%d' should be non-negative", n))
	}
	return n, err
}

// checkUUID checks an ID in a body. An ID in a path is only looked up, not checked.
func checkUUID(name string, v any) (any, *failure) {
	s, ok := v.(string)
	if !ok || !isUUID(s) {
		return nil, badValue(name, fmt.Sprintf("'%s' is not a valid UUID", python(v)))
	}
	return s, nil
}

// isUUID reports whether s is a UUID. Like oslo's is_uuid_like it ignores hyphens and case.
func isUUID(s string) bool {
	s = strings.NewReplacer("urn:", "", "uuid:", "", "-", "").Replace(strings.ToLower(s))
	s = strings.Trim(s, "{}")
	return len(s) == 32 && strings.Trim(s, "0123456789abcdef") == ""
}

// oneOf returns a check for one of the allowed strings. The message is Neutron's own, which
// names the variable instead of the values.
func oneOf(allowed ...string) func(string, any) (any, *failure) {
	return func(name string, v any) (any, *failure) {
		if s, ok := v.(string); ok && slices.Contains(allowed, s) {
			return v, nil
		}
		return nil, badValue(name, python(v)+" is not in valid_values")
	}
}

// texts checks for a list of different strings.
func texts(name string, v any) (any, *failure) {
	list, reason := textsFault(v)
	if reason != "" {
		return nil, badValue(name, reason)
	}
	return list, nil
}

// textsFault reads a list of different strings. reason is "" if v is such a list.
func textsFault(v any) (list []string, reason string) {
	all, ok := v.([]any)
	if !ok {
		return nil, fmt.Sprintf("'%s' is not a list", python(v))
	}
	list = []string{}
	seen := map[string]bool{}
	for _, e := range all {
		if reason := textFault(e, maxText); reason != "" {
			return nil, reason
		}
		s := e.(string)
		if seen[s] {
			return nil, fmt.Sprintf("Duplicate items in the list: '%s'", s)
		}
		seen[s] = true
		list = append(list, s)
	}
	return list, ""
}

// orNull returns a check that accepts null, and otherwise calls check.
func orNull(check func(string, any) (any, *failure)) func(string, any) (any, *failure) {
	return func(name string, v any) (any, *failure) {
		if v == nil {
			return nil, nil
		}
		return check(name, v)
	}
}

// python formats a value as Neutron's messages do. A list or an object is formatted as
// JSON, not as Python; no test compares those.
func python(v any) string {
	switch x := v.(type) {
	case nil:
		return "None"
	case bool:
		if x {
			return "True"
		}
		return "False"
	case string:
		return x
	case json.Number:
		return x.String()
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// nullable returns nil for the zero value, which JSON shows as null.
func nullable[V comparable](v V) any {
	var zero V
	if v == zero {
		return nil
	}
	return v
}

// checkDomain checks a DNS domain: "", or a name that ends with a dot. It is kept in lower case.
func checkDomain(name string, v any) (any, *failure) {
	domain, ok := v.(string)
	if !ok {
		return nil, invalidInput("Input value %s must be string type", python(v))
	}
	domain = strings.ToLower(domain)
	if reason := domainFault(domain); reason != "" {
		return nil, badValue(name, reason)
	}
	return domain, nil
}

var (
	label  = regexp.MustCompile(`^([a-z0-9-]{1,63}|<(project|user)_(id|name)>)$`)
	digits = regexp.MustCompile(`^[0-9]+$`)
)

// domainFault returns why a text in lower case is not a DNS domain; "" means that it is one.
func domainFault(domain string) string {
	if domain == "" {
		return ""
	}
	if !strings.HasSuffix(domain, ".") {
		return fmt.Sprintf("'%s' is not a FQDN", domain)
	}
	if reason := labelsFault(strings.TrimSuffix(domain, ".")); reason != "" {
		return fmt.Sprintf("'%s' not a valid PQDN or FQDN. Reason: %s", domain, reason)
	}
	if n := utf8.RuneCountInString(domain); n > maxText-2 {
		return fmt.Sprintf("'%s' contains %d characters. Adding a sub-domain will cause it to exceed the maximum length of a FQDN of '%d'", domain, n, maxText)
	}
	return ""
}

func labelsFault(name string) string {
	if utf8.RuneCountInString(name) > maxText {
		return fmt.Sprintf("'%s' exceeds the %d character FQDN limit", name, maxText)
	}
	labels := strings.Split(name, ".")
	for _, l := range labels {
		switch {
		case l == "":
			return "Encountered an empty component"
		case strings.HasPrefix(l, "-"), strings.HasSuffix(l, "-"):
			return fmt.Sprintf("Name '%s' must not start or end with a hyphen", l)
		case !label.MatchString(l):
			return fmt.Sprintf("Name '%s' must be 1-63 characters long, each of which can only be alphanumeric or a hyphen", l)
		}
	}
	if last := labels[len(labels)-1]; len(labels) > 1 && digits.MatchString(last) {
		return fmt.Sprintf("TLD '%s' must not be all numeric", last)
	}
	return ""
}
