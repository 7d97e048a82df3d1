// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"net/http"
	"slices"
	"strings"
)

// serveTags serves all tags of an object, or the one that is named.
func (k *kind[T]) serveTags(r *request, id string, tag []string) *answer {
	if r.Method == http.MethodGet {
		return k.showTags(r, id, tag)
	}
	change, status, err := tagChange(r, tag)
	if err != nil {
		return err.answer()
	}
	var tags []string
	err = k.write(r, func(t *tx) *failure {
		old, err := k.findTagged(r, id)
		if err != nil {
			return err
		}
		if tags, err = change(old.std().tags); err != nil {
			return err
		}
		if slices.Equal(slices.Sorted(slices.Values(tags)), slices.Sorted(slices.Values(old.std().tags))) {
			return nil
		}
		// Stored objects never change, not even their tags.
		o := k.copy(old)
		o.std().tags = tags
		t.bump(o.std())
		store(t, k.items, o)
		return nil
	})
	if err != nil {
		return err.answer()
	}
	switch status {
	case http.StatusOK:
		return tagsAnswer(tags)
	case http.StatusCreated:
		return jsonAnswer(status, nil)
	}
	return &answer{status: status}
}

// showTags answers 204 for a single tag that exists.
func (k *kind[T]) showTags(r *request, id string, tag []string) *answer {
	k.mu.RLock()
	defer k.mu.RUnlock()
	o, err := k.findTagged(r, id)
	if err != nil {
		return err.answer()
	}
	if len(tag) == 0 {
		return tagsAnswer(o.std().tags)
	}
	if !slices.Contains(o.std().tags, tag[0]) {
		return tagNotFound(tag[0]).answer()
	}
	return &answer{status: http.StatusNoContent}
}

// findTagged returns an object that the caller can see; that is enough for tagging it, even
// if another project owns it. Its failure differs from find's: the tag plug-in names the
// collection.
func (k *kind[T]) findTagged(r *request, id string) (T, *failure) {
	o, err := k.find(r.caller, id)
	if err != nil {
		err = notFound("TagResourceNotFound", "Resource %s %s could not be found.", k.plural, id)
	}
	return o, err
}

// tagChange returns the change that a request makes to a list of tags, and the status of
// success.
func tagChange(r *request, tag []string) (func([]string) ([]string, *failure), int, *failure) {
	one := len(tag) == 1
	if one {
		if reason := textFault(tag[0], maxText); reason != "" {
			return nil, 0, invalidInput("%s", reason)
		}
	}
	switch {
	case r.Method == http.MethodPut && !one:
		tags, err := decodeTags(r.body)
		return func([]string) ([]string, *failure) { return tags, nil }, http.StatusOK, err
	case r.Method == http.MethodPut:
		return func(old []string) ([]string, *failure) {
			// Adding an existing tag is not an error. The database compares without regard to case.
			if slices.ContainsFunc(old, func(t string) bool { return strings.EqualFold(t, tag[0]) }) {
				return old, nil
			}
			return append(slices.Clone(old), tag[0]), nil
		}, http.StatusCreated, nil
	case r.Method == http.MethodDelete && !one:
		return func([]string) ([]string, *failure) { return []string{}, nil }, http.StatusNoContent, nil
	case r.Method == http.MethodDelete:
		return func(old []string) ([]string, *failure) {
			left := slices.DeleteFunc(slices.Clone(old), func(t string) bool { return strings.EqualFold(t, tag[0]) })
			if len(left) == len(old) {
				return nil, tagNotFound(tag[0])
			}
			return left, nil
		}, http.StatusNoContent, nil
	}
	return nil, 0, methodNotAllowed(r.Method)
}

// decodeTags reads the list of tags in a body. It refuses with the plug-in's InvalidInput,
// not with the API layer's message.
func decodeTags(body []byte) ([]string, *failure) {
	root, err := decodeObject(body)
	if err != nil {
		return nil, err
	}
	list, ok := root["tags"]
	if !ok {
		return nil, invalidInput("Invalid tags body")
	}
	tags, reason := textsFault(list)
	if reason != "" {
		return nil, invalidInput("%s", reason)
	}
	seen := map[string]bool{}
	for _, t := range tags {
		// For MariaDB two tags that differ only in case are duplicates, and the real
		// Neutron then hangs for more than a minute. This one answers at once.
		if seen[fold(t)] || outsideBMP(t) {
			return nil, internalError()
		}
		seen[fold(t)] = true
	}
	return tags, nil
}

func tagsAnswer(tags []string) *answer {
	return jsonAnswer(http.StatusOK, map[string]any{"tags": tags})
}

func tagNotFound(tag string) *failure {
	return missing("Tag", tag)
}

// matchTags makes a filter by comma-separated tags. has combines them; not inverts the
// filter.
func matchTags[T object](has func(have map[string]bool, wanted []string) bool, not bool) func([]string) (func(T) bool, *failure) {
	return func(values []string) (func(T) bool, *failure) {
		var wanted []string
		for _, v := range values {
			for _, tag := range strings.Split(v, ",") {
				wanted = append(wanted, fold(tag))
			}
		}
		return func(o T) bool {
			have := map[string]bool{}
			for _, tag := range o.std().tags {
				have[fold(tag)] = true
			}
			return has(have, wanted) != not
		}, nil
	}
}

// hasAll is for tags= and, inverted, not-tags=.
func hasAll(have map[string]bool, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(w string) bool { return !have[w] })
}

// hasAny is for tags-any= and, inverted, not-tags-any=.
func hasAny(have map[string]bool, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool { return have[w] })
}
