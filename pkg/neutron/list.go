// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gophercloud/gophercloud/v2"
)

// pageSize is how many items a page may have. Neutron sends fewer if its operator limits
// pages, and the whole list at once if the request has no limit.
const pageSize = 1000

// Limits of a list. A server that only pretends to be Neutron may send pages without end.
const (
	// maxPages is enough for 1,000,000 items if Neutron's operator limits pages to 50. After
	// maxSmallPages, there must have been as many items in each page on average.
	maxPages      = 20_000
	maxSmallPages = 1000
	smallPage     = 50
	// maxRestarts is how often a list starts again because its marker was deleted meanwhile.
	maxRestarts = 5
	// maxLookup limits the lists that a worker waits for. They are short: Neutron filters them.
	maxLookup = maxSync
	// maxFilterIDs is the number of IDs in the filter of one list. The request line then has about
	// 3,200 bytes; some servers accept no more than 4,096.
	maxFilterIDs = 64
	// maxItems is how many items of a list are kept.
	maxItems = 50_000
	// maxText is the length of a name or a description in bytes: 255 characters.
	maxText = 4 * 255
	// maxListText is the length of all texts that are kept in bytes: 250 for each of 50,000
	// items. A network of the controller has about 170, its subnet about 210.
	maxListText = 12 << 20
	// untrustedShare is the part of maxItems and maxListText that a list of a Secret's cloud may keep: many of these clouds share
	// the memory, and their servers may be anything.
	untrustedShare = 10
	// maxValue is how many bytes of one JSON value a decoder may hold. The longest item is a network
	// with 50 tags of 255 characters, all of them escaped: 150 KiB. Without this limit the links of
	// one page could take 300 MiB.
	maxValue = 256 << 10
)

var (
	errNoEnd     = fmt.Errorf("the list has no end, or more than %d pages, or %d of fewer than %d items", maxPages, maxSmallPages, smallPage)
	errTooMany   = errors.New("the list has too much to keep")
	errSamePage  = errors.New("every page is the same")
	errLongValue = errors.New("the answer has a value that is longer than any of Neutron's")
)

// item is an element of a list.
type item interface {
	// listed returns the item's ID, its other texts, and its lists of texts. Only maxValue limits
	// the length of a list.
	listed() (id string, texts, lists []string)
}

func (n Network) listed() (string, []string, []string) {
	return n.ID, []string{n.Name, n.Description, n.DNSDomain, n.NetworkType, n.PhysicalNetwork, n.ProjectID}, []string{string(n.Tags), string(n.ZoneHints)}
}

func (s Subnet) listed() (string, []string, []string) {
	// The zone of an address may be any text.
	return s.ID, []string{s.Name, s.Description, s.NetworkID, s.Gateway.Zone(), s.AddressMode, s.RAMode, s.PoolID},
		[]string{string(s.DNSNameservers), string(s.Pools), string(s.Routes)}
}

// list returns the items of a collection that match the filter. It is for short lists.
func list[T item](ctx context.Context, c *Client, collection string, fields []string, filter url.Values) ([]T, error) {
	items, err := remembered(ctx, collection+"?"+filter.Encode(), func() ([]T, error) {
		ctx, cancel := context.WithTimeout(ctx, maxLookup)
		defer cancel()
		return listOnly(ctx, c, collection, fields, filter, func(*T) bool { return true })
	})
	return slices.Clone(items), err // callers may change it
}

// listByID returns the items with these IDs that the client can see.
func listByID[T item](ctx context.Context, c *Client, collection string, fields, ids []string) ([]T, error) {
	var items []T
	for chunk := range slices.Chunk(ids, maxFilterIDs) {
		some, err := list[T](ctx, c, collection, fields, url.Values{"id": chunk})
		if err != nil {
			return nil, err
		}
		items = append(items, some...)
	}
	return items, nil
}

// memo is the key in a context of what was read. See withMemory.
type memo struct{}

// withMemory returns a context in which each short list, each router and the quotas are read once. It is for
// one goroutine.
func withMemory(ctx context.Context) context.Context {
	return context.WithValue(ctx, memo{}, map[string]any{})
}

// remembered returns what read returned before for the key, if the context has a memory, or calls it. It does not
// remember errors.
func remembered[T any](ctx context.Context, key string, read func() (T, error)) (T, error) {
	known, _ := ctx.Value(memo{}).(map[string]any)
	if value, ok := known[key].(T); ok {
		return value, nil
	}
	value, err := read()
	if err == nil && known != nil {
		known[key] = value
	}
	return value, err
}

// listOnly is list for lists of any length. It returns only the items for which keep returns true.
func listOnly[T item](ctx context.Context, c *Client, collection string, fields []string, filter url.Values, keep func(*T) bool) ([]T, error) {
	l := newListing(c, keep)
	if err := l.list(ctx, c, collection, fields, filter); err != nil {
		return nil, err
	}
	return l.items, nil
}

// listing is what was read so far. Items that are not kept take no memory, however many there are.
type listing[T item] struct {
	keep func(*T) bool
	// maxItems and maxText bound items and text.
	maxItems, maxText int

	items []T    // that were kept
	text  int    // the length of all texts in items in bytes
	read  int    // the number of items that were read
	last  string // the ID of the last of them
}

func newListing[T item](c *Client, keep func(*T) bool) listing[T] {
	if c.config.Untrusted {
		return listing[T]{keep: keep, maxItems: maxItems / untrustedShare, maxText: maxListText / untrustedShare}
	}
	return listing[T]{keep: keep, maxItems: maxItems, maxText: maxListText}
}

// list reads all pages of a collection, and adds their items. If a page fails, list fails: a list
// that is cut short must not be taken for a short list.
//
// It continues from the last item that it has read, and not at the URL in the answer: behind a
// proxy, perhaps only the cloud itself can reach that URL, and the token could be sent anywhere.
func (l *listing[T]) list(ctx context.Context, c *Client, collection string, fields []string, filter url.Values) error {
	op := "list " + inWords(collection)
	query := url.Values{"fields": fields, "limit": {strconv.Itoa(pageSize)}}
	maps.Copy(query, filter)
	start, restarts := *l, 0
	for pages := range maxPages {
		before := l.read
		if pages >= maxSmallPages && before < pages*smallPage {
			break
		}
		more, err := l.page(ctx, c, collection, query)
		if query.Has("marker") && restarts < maxRestarts && ReasonOf(wrap(op, err)) == NotFound {
			// The marker's item was deleted after its page was read.
			*l = start
			restarts++
			query.Del("marker")
			continue
		}
		if err != nil {
			return listError(op, err)
		}
		if l.read == before {
			return nil
		}
		// A server that ignores the marker sends the same page again and again.
		if l.last == query.Get("marker") {
			return listError(op, errSamePage)
		}
		if !more {
			return nil
		}
		query.Set("marker", l.last)
	}
	return listError(op, errNoEnd)
}

// add appends the item if keep returns true for it. It fails if the item cannot be Neutron's, or if
// a limit is exceeded.
func (l *listing[T]) add(item *T) error {
	id, texts, lists := (*item).listed()
	if !validID(id) {
		return errors.New("an item without an ID")
	}
	length := len(id)
	for _, text := range texts {
		if len(text) > maxText {
			return errors.New("a text that is longer than any of Neutron's")
		}
		length += len(text)
	}
	for _, list := range lists {
		length += len(list)
	}
	l.read++
	l.last = id
	if !l.keep(item) {
		return nil
	}
	l.text += length
	if len(l.items) == l.maxItems || l.text > l.maxText {
		return fmt.Errorf("%w: more than %d items or %d KiB of text", errTooMany, l.maxItems, l.maxText>>10)
	}
	l.items = append(l.items, *item)
	return nil
}

// idForm matches all IDs of OpenStack, and only texts that are one segment of a path.
var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// validID reports whether id can be an ID of OpenStack. gophercloud does not escape IDs in
// paths, so another text could turn one request into a different one.
func validID(id string) bool { return idForm.MatchString(id) }

// Printable returns text in a form that is safe to show: on one line, without control
// characters and marks of direction, which could mislead a terminal or a reader, and of at most
// 1,024 bytes.
func Printable(text string) string {
	text = Visible(text)
	if len(text) > maxMessage {
		// The cut may have split a character.
		text = strings.ToValidUTF8(text[:maxMessage], "")
	}
	return text
}

// Visible is Printable without the limit.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// listError is wrap for a list. A list that Neutron refuses does not make the spec invalid, and a
// list that Neutron does not find does not prove that something is gone.
func listError(op string, err error) error {
	return withReason(wrap(op, err), Unavailable, Invalid, NotFound)
}

// page reads one page of the collection and reports whether there is another one. It decodes
// one item at a time, so that add can stop it: a page of 8 MiB that is not Neutron's has room
// for three million items.
func (l *listing[T]) page(ctx context.Context, c *Client, collection string, query url.Values) (more bool, err error) {
	response, err := c.request(ctx, http.MethodGet, collection+"?"+query.Encode(), &gophercloud.RequestOpts{KeepResponseBody: true})
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	body := &pageBody{body: response.Body}
	body.decoder = json.NewDecoder(body)
	more, err = l.decode(body.decoder, collection)
	switch {
	case body.err != nil:
		return false, body.err
	case errors.Is(err, errTooMany):
		return false, err
	case err != nil:
		// Only the text of err: the error itself may hold a whole value of the answer.
		return false, fmt.Errorf("invalid list of %s: %s", collection, Printable(c.unquoted(err).Error()))
	}
	return more, nil
}

func (l *listing[T]) decode(d *json.Decoder, collection string) (more bool, err error) {
	var links []gophercloud.Link
	name, listed := nameIn(collection), false
	if err := expect(d, '{'); err != nil {
		return false, err
	}
	for d.More() {
		key, err := d.Token()
		switch {
		case err != nil:
		case key == name && listed:
			err = errors.New("there are two lists")
		case key == name:
			listed, err = true, l.decodeItems(d)
		case key == name+"_links":
			err = d.Decode(&links)
		default:
			err = d.Decode(new(json.RawMessage))
		}
		if err != nil {
			return false, err
		}
	}
	if err := expect(d, '}'); err != nil {
		return false, err
	}
	if _, err := d.Token(); err != io.EOF || !listed {
		return false, errors.New("there is no list, or something after it")
	}
	next, err := gophercloud.ExtractNextURL(links)
	return next != "", err
}

func (l *listing[T]) decodeItems(d *json.Decoder) error {
	if err := expect(d, '['); err != nil {
		return err
	}
	var item, zero T
	for d.More() {
		item = zero
		if err := d.Decode(&item); err != nil {
			return err
		}
		if err := l.add(&item); err != nil {
			return err
		}
	}
	return expect(d, ']')
}

// expect reads the next token, and fails if it is another one.
func expect(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%v instead of %v", got, want)
	}
	return err
}

// pageBody is what a decoder reads a page from. It fails when the decoder, which holds a value
// until it has all of it, holds too much. It keeps the error that ended the reading, to tell it
// from what the decoder finds wrong.
type pageBody struct {
	body    io.Reader
	decoder *json.Decoder
	read    int64
	err     error // except io.EOF
}

func (b *pageBody) Read(p []byte) (int, error) {
	if b.read-b.decoder.InputOffset() > maxValue {
		b.err = errLongValue
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.body.Read(p)
	b.read += int64(n)
	if err != io.EOF {
		b.err = err
	}
	return n, err
}
