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
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gophercloud/gophercloud/v2"
)

// pageSize is how many items a page of a list may have. Neutron cuts a page short if
// its operator says so, and sends the whole list at once to whoever names no size.
const pageSize = 1000

// What a list may have at the most. Neutron has far less in one project; but it may be
// somebody who says that he is Neutron, whose pages never end.
const (
	maxPages = 1000
	maxItems = 50_000
	// maxText is how many bytes a name or a description takes: 255 characters.
	maxText = 4 * 255
	// maxListText is how many bytes all texts of a list take: 250 for each of 50,000 items. A
	// network of ours has some 170 of them, its subnet some 210.
	maxListText = 12 << 20
	// maxValue is how many bytes are read for one item: one with the longest texts, in the
	// longest of spellings, takes a tenth of it.
	maxValue = 64 << 10
)

var (
	errNoEnd = fmt.Errorf("the list has no end, or is larger than any that Neutron gives: more than %d items, %d pages or %d MiB of text",
		maxItems, maxPages, maxListText>>20)
	errLongValue = errors.New("the answer holds something that is longer than any of Neutron's")
)

// item is what a list holds.
type item interface {
	// listed returns the item's ID, and its other texts.
	listed() (id string, texts []string)
}

func (n Network) listed() (string, []string) { return n.ID, []string{n.Name, n.Description} }
func (p Port) listed() (string, []string)    { return p.ID, []string{p.Name, p.DeviceOwner} }
func (s Subnet) listed() (string, []string) {
	// Whatever follows the % of an address is a text, too.
	return s.ID, []string{s.Name, s.Description, s.NetworkID, s.Gateway.Zone()}
}

// list reads all pages of a collection. It fails if any of them does: a list that is
// cut short must not pass for a short list.
//
// It goes on from the last item that it has, and not to the address in the answer, which
// behind a proxy may be one that only the cloud itself can reach, and which could lead the
// token anywhere.
func list[T item](ctx context.Context, c *Client, collection, fields string, filter url.Values) ([]T, error) {
	op := "list " + collection
	service, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	query := url.Values{"fields": strings.Split(fields, ","), "limit": {strconv.Itoa(pageSize)}}
	maps.Copy(query, filter)
	var l listing[T]
	for range maxPages {
		before := len(l.items)
		more, err := l.page(ctx, service, collection, query)
		if err != nil {
			return nil, listError(op, err)
		}
		if len(l.items) == before {
			return l.items, nil
		}
		last, _ := l.items[len(l.items)-1].listed()
		// A server that takes no notice of the marker would have us read for long.
		if last == query.Get("marker") {
			return nil, listError(op, errors.New("the pages do not go on"))
		}
		if !more {
			return l.items, nil
		}
		query.Set("marker", last)
	}
	return nil, listError(op, errNoEnd)
}

// listing is a list as far as it was read.
type listing[T item] struct {
	items []T
	text  int // bytes
}

// add refuses what cannot be Neutron's, and more than there can be.
func (l *listing[T]) add(item T) error {
	id, texts := item.listed()
	if !validID(id) {
		return errors.New("the answer holds an item without an ID")
	}
	l.text += len(id)
	for _, text := range texts {
		if len(text) > maxText {
			return errors.New("the answer holds a text that is longer than any of Neutron's")
		}
		l.text += len(text)
	}
	if len(l.items) == maxItems || l.text > maxListText {
		return errNoEnd
	}
	l.items = append(l.items, item)
	return nil
}

// idForm is that of all IDs in OpenStack, and of some more. What has it is one segment of a
// path, and nothing else.
var idForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// validID says whether that is an ID. A request for another one might not be what it seems:
// gophercloud puts IDs into paths as they are.
func validID(id string) bool { return idForm.MatchString(id) }

// Printable returns a text of somebody else's as it may be shown: on one line, without what
// would make a terminal or a reader take it for something else, and not too long.
func Printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	if len(text) > maxMessage {
		// What is cut in two is no text.
		text = strings.ToValidUTF8(text[:maxMessage], "")
	}
	return text
}

// listError is wrap for a list. Whatever Neutron has against it, the spec is not at fault.
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
func (l *listing[T]) page(ctx context.Context, service *gophercloud.ServiceClient, collection string, query url.Values) (more bool, err error) {
	response, err := service.Get(ctx, service.ServiceURL(collection)+"?"+query.Encode(), nil, &gophercloud.RequestOpts{KeepResponseBody: true})
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
// An admin sees every project's, and everybody sees those that are shared: what is not
// of the project is left out, since nothing that the client makes can be there.
func (c *Client) ListNetworks(ctx context.Context) ([]*Network, error) {
	filter, err := c.projectFilter(ctx)
	if err != nil {
		return nil, err
	}
	// The networks first: a subnet that is made meanwhile finds its network in the list.
	found, err := c.networks(ctx, filter)
	if err != nil {
		return nil, err
	}
	return found, c.attachSubnets(ctx, found, filter)
}

// FindNetworks lists the networks of the client's project whose description is that
// one, to the letter, with their subnets.
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
	// Some databases compare without regard to case, accents and trailing blanks.
	found = slices.DeleteFunc(found, func(n *Network) bool { return n.Description != description })
	return found, c.attachSubnets(ctx, found, nil)
}

// GetNetwork reads one network with its subnets. The ID may come from a status, which people
// can write.
func (c *Client) GetNetwork(ctx context.Context, id string) (*Network, error) {
	if !validID(id) {
		return nil, &Error{Op: "get network", Reason: NotFound, Message: "that is no ID"}
	}
	network, err := c.getNetwork(ctx, id)
	if err != nil {
		return nil, err
	}
	return network, c.attachSubnets(ctx, []*Network{network}, nil)
}

// projectFilter is the filter for what is the project's own; a token that is for no
// project needs none.
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
		networks[i] = &n // a copy: who keeps one, keeps not all of them
	}
	return networks, nil
}

// attachSubnets lists the subnets that match the filter, those of the networks if it
// is nil, and gives each network its own.
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
			s.NetworkID = n.ID // the same text, and not one for each
			n.Subnets = append(n.Subnets, s)
		}
	}
	for _, n := range networks {
		n.sortSubnets()
	}
	return nil
}

// Port is what is told of a port that stands in the way.
type Port struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DeviceOwner string `json:"device_owner"`
}

// String returns the port's name, or its ID if it has none, and whose it is.
func (p Port) String() string {
	return cmp.Or(p.Name, p.ID) + " (" + cmp.Or(p.DeviceOwner, "no device") + ")"
}

// PortsOnNetwork lists the ports that keep the network from being deleted.
func (c *Client) PortsOnNetwork(ctx context.Context, id string) ([]Port, error) {
	return c.blockingPorts(ctx, url.Values{"network_id": {id}})
}

// PortsOnSubnet lists the ports that keep the subnet from being deleted.
func (c *Client) PortsOnSubnet(ctx context.Context, id string) ([]Port, error) {
	return c.blockingPorts(ctx, url.Values{"fixed_ips": {"subnet_id=" + id}})
}

func (c *Client) blockingPorts(ctx context.Context, filter url.Values) ([]Port, error) {
	ports, err := list[Port](ctx, c, "ports", "id,name,device_owner", filter)
	return slices.DeleteFunc(ports, func(p Port) bool { return slices.Contains(autoDeleted, p.DeviceOwner) }), err
}

// autoDeleted are the owners of the ports that Neutron makes, and removes by itself
// (AUTO_DELETE_PORT_OWNERS in neutron.common._constants): of its DHCP servers, and with
// OVN of the metadata service, which has one on every network.
var autoDeleted = []string{"network:dhcp", "network:distributed", "network:floatingip_agent_gateway"}

// inUse returns the error that names the ports, and nil if there are none.
func inUse(op string, ports []Port) error {
	if len(ports) == 0 {
		return nil
	}
	const enough = 5
	names := make([]string, 0, len(ports))
	for _, p := range ports {
		names = append(names, p.String())
	}
	// Sorted, so that the message is the same each time.
	slices.Sort(names)
	message := strings.Join(names[:min(enough, len(names))], ", ")
	if len(names) > enough {
		message += fmt.Sprintf(" and %d more", len(names)-enough)
	}
	return &Error{Op: op, Reason: InUse, Message: Printable("in use by port " + message)}
}
