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

package neutron

import (
	"cmp"
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

// Limits of a list. A project in Neutron has far less, but a server that only pretends to be
// Neutron may send pages without end.
const (
	maxPages = 1000
	maxItems = 50_000
	// maxText is the length of a name or a description in bytes: 255 characters.
	maxText = 4 * 255
	// maxListText is the length of all texts of a list in bytes: 250 for each of 50,000 items.
	// A network of the controller has about 170, its subnet about 210.
	maxListText = 12 << 20
	// maxValue is how many bytes of one JSON value a decoder may hold. An item with the longest
	// texts, all of their characters escaped, takes a tenth of it. Without this limit the links
	// of one page could take 300 MiB.
	maxValue = 64 << 10
)

var (
	errNoEnd = fmt.Errorf("the list has no end, or is larger than any that Neutron gives: more than %d items, %d pages or %d MiB of text",
		maxItems, maxPages, maxListText>>20)
	errLongValue = errors.New("the answer has a value that is longer than any of Neutron's")
)

// item is an element of a list.
type item interface {
	// listed returns the item's ID and its other texts.
	listed() (id string, texts []string)
}

func (n Network) listed() (string, []string) { return n.ID, []string{n.Name, n.Description} }
func (p Port) listed() (string, []string)    { return p.ID, []string{p.Name, p.DeviceOwner} }
func (s Subnet) listed() (string, []string) {
	// The zone of an address may be any text.
	return s.ID, []string{s.Name, s.Description, s.NetworkID, s.Gateway.Zone()}
}

// list reads all pages of a collection. If one of them fails, list fails: a list that is cut
// short must not be taken for a short list.
//
// It continues from the last item that it has, and not at the URL in the answer: behind a
// proxy, perhaps only the cloud itself can reach that URL, and the token could be sent anywhere.
func list[T item](ctx context.Context, c *Client, collection, fields string, filter url.Values) ([]T, error) {
	op := "list " + collection
	query := url.Values{"fields": strings.Split(fields, ","), "limit": {strconv.Itoa(pageSize)}}
	maps.Copy(query, filter)
	var l listing[T]
	for range maxPages {
		before := len(l.items)
		more, err := l.page(ctx, c, collection, query)
		if err != nil {
			return nil, listError(op, err)
		}
		if len(l.items) == before {
			return l.items, nil
		}
		last, _ := l.items[len(l.items)-1].listed()
		// A server that ignores the marker sends the same page again and again.
		if last == query.Get("marker") {
			return nil, listError(op, errors.New("every page is the same"))
		}
		if !more {
			return l.items, nil
		}
		query.Set("marker", last)
	}
	return nil, listError(op, errNoEnd)
}

// listing is the part of a list that was read so far.
type listing[T item] struct {
	items []T
	text  int // the length of all texts in bytes
}

// add appends an item. It refuses an item that cannot be Neutron's, and more than the limits.
func (l *listing[T]) add(item T) error {
	id, texts := item.listed()
	if !validID(id) {
		return errors.New("an item without an ID")
	}
	l.text += len(id)
	for _, text := range texts {
		if len(text) > maxText {
			return errors.New("a text that is longer than any of Neutron's")
		}
		l.text += len(text)
	}
	if len(l.items) == maxItems || l.text > maxListText {
		return errNoEnd
	}
	l.items = append(l.items, item)
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
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	if len(text) > maxMessage {
		// The cut may have split a character.
		text = strings.ToValidUTF8(text[:maxMessage], "")
	}
	return text
}

// listError is wrap for a list. A list that Neutron refuses does not make the spec invalid.
func listError(op string, err error) error {
	err = wrap(op, err)
	if e, ok := err.(*Error); ok && e.Reason == Invalid {
		e.Reason = Unavailable
	}
	return err
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
	case err != nil:
		// Only the text of err: the error itself may hold a whole value of the answer.
		return false, fmt.Errorf("invalid list of %s: %s", collection, Printable(err.Error()))
	}
	return more, nil
}

func (l *listing[T]) decode(d *json.Decoder, collection string) (more bool, err error) {
	var links []gophercloud.Link
	listed := false
	if err := expect(d, '{'); err != nil {
		return false, err
	}
	for d.More() {
		key, err := d.Token()
		switch {
		case err != nil:
		case key == collection && listed:
			err = errors.New("there are two lists")
		case key == collection:
			listed, err = true, l.decodeItems(d)
		case key == collection+"_links":
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
		if err := l.add(item); err != nil {
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

// ListNetworks lists all networks of the client's project, with their subnets.
//
// An admin sees the networks of all projects, and everyone sees shared networks. Networks of
// other projects are left out, since the client cannot have created them.
func (c *Client) ListNetworks(ctx context.Context) ([]*Network, error) {
	filter, err := c.projectFilter(ctx)
	if err != nil {
		return nil, err
	}
	// Networks first: a subnet that is created in between then has its network in the list.
	found, err := c.networks(ctx, filter)
	if err != nil {
		return nil, err
	}
	return found, c.attachSubnets(ctx, found, filter)
}

// FindNetworks lists the networks of the client's project that have exactly this description,
// with their subnets.
func (c *Client) FindNetworks(ctx context.Context, description string) ([]*Network, error) {
	filter, err := c.projectFilter(ctx)
	if err != nil {
		return nil, err
	}
	filter.Set("description", description)
	found, err := c.networks(ctx, filter)
	if err != nil {
		return nil, err
	}
	// Some databases ignore case, accents and trailing blanks when they compare.
	found = slices.DeleteFunc(found, func(n *Network) bool { return n.Description != description })
	return found, c.attachSubnets(ctx, found, nil)
}

// GetNetwork reads one network with its subnets. It fails with NotFound, without a request, if
// id cannot be an ID: it may come from a status, which users can edit.
func (c *Client) GetNetwork(ctx context.Context, id string) (*Network, error) {
	if !validID(id) {
		return nil, &Error{Op: "get network", Reason: NotFound, Message: "not a valid ID"}
	}
	network, err := c.getNetwork(ctx, id)
	if err != nil {
		return nil, err
	}
	return network, c.attachSubnets(ctx, []*Network{network}, nil)
}

// projectFilter returns the filter for the client's project. It is empty if the token is not
// for a project.
func (c *Client) projectFilter(ctx context.Context) (url.Values, error) {
	s, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	if s.place.Project == "" {
		return url.Values{}, nil
	}
	return url.Values{"project_id": {s.place.Project}}, nil
}

func (c *Client) networks(ctx context.Context, filter url.Values) ([]*Network, error) {
	found, err := list[Network](ctx, c, "networks", "id,name,description,mtu,revision_number", filter)
	if err != nil {
		return nil, err
	}
	networks := make([]*Network, len(found))
	for i, n := range found {
		networks[i] = &n // copied, so that keeping one does not retain the whole slice
	}
	return networks, nil
}

// attachSubnets lists the subnets that match the filter, and adds each of them to its network.
// A nil filter matches the subnets of the networks.
func (c *Client) attachSubnets(ctx context.Context, networks []*Network, filter url.Values) error {
	if len(networks) == 0 {
		return nil
	}
	byID := make(map[string]*Network, len(networks))
	for _, n := range networks {
		byID[n.ID] = n
	}
	if filter == nil {
		filter = url.Values{"network_id": slices.Collect(maps.Keys(byID))}
	}
	subnets, err := list[Subnet](ctx, c, "subnets", "id,network_id,name,description,cidr,gateway_ip,revision_number", filter)
	if err != nil {
		return err
	}
	for _, s := range subnets {
		if n, ok := byID[s.NetworkID]; ok {
			s.NetworkID = n.ID // one string for all subnets of the network
			n.Subnets = append(n.Subnets, s)
		}
	}
	for _, n := range networks {
		n.sortSubnets()
	}
	return nil
}

// Port is a port that prevents a deletion.
type Port struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DeviceOwner string `json:"device_owner"`
}

// String returns the port's name, or its ID if it has no name, and the owner of its device.
func (p Port) String() string {
	return cmp.Or(p.Name, p.ID) + " (" + cmp.Or(p.DeviceOwner, "no device") + ")"
}

// PortsOnNetwork lists the ports that prevent the deletion of the network.
func (c *Client) PortsOnNetwork(ctx context.Context, id string) ([]Port, error) {
	return c.blockingPorts(ctx, url.Values{"network_id": {id}})
}

// PortsOnSubnet lists the ports that prevent the deletion of the subnet.
func (c *Client) PortsOnSubnet(ctx context.Context, id string) ([]Port, error) {
	return c.blockingPorts(ctx, url.Values{"fixed_ips": {"subnet_id=" + id}})
}

func (c *Client) blockingPorts(ctx context.Context, filter url.Values) ([]Port, error) {
	ports, err := list[Port](ctx, c, "ports", "id,name,device_owner", filter)
	return slices.DeleteFunc(ports, func(p Port) bool { return slices.Contains(autoDeleted, p.DeviceOwner) }), err
}

// autoDeleted are the device owners of the ports that Neutron creates and deletes by itself
// (AUTO_DELETE_PORT_OWNERS in neutron.common._constants). They belong to its DHCP servers and,
// with OVN, to the metadata service, which has a port on every network.
var autoDeleted = []string{"network:dhcp", "network:distributed", "network:floatingip_agent_gateway"}

// inUse returns an error that names the ports, or nil if there are none.
func inUse(op string, ports []Port) error {
	if len(ports) == 0 {
		return nil
	}
	const most = 5
	names := make([]string, 0, len(ports))
	for _, p := range ports {
		names = append(names, p.String())
	}
	// Sorted, so that the message is the same each time.
	slices.Sort(names)
	message := strings.Join(names[:min(most, len(names))], ", ")
	if len(names) > most {
		message += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return &Error{Op: op, Reason: InUse, Message: Printable("in use by port " + message)}
}
