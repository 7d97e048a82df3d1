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
)

// item is what a list holds.
type item interface {
	// listed returns the item's ID, and its other texts.
	listed() (id string, texts []string)
}

func (n Network) listed() (string, []string) { return n.ID, []string{n.Name, n.Description} }
func (s Subnet) listed() (string, []string)  { return s.ID, []string{s.Name, s.Description} }
func (p Port) listed() (string, []string)    { return p.ID, []string{p.Name, p.DeviceOwner} }

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
	var all []T
	for range maxPages {
		items, more, err := page[T](ctx, service, collection, query)
		if err == nil {
			err = checkPage(items, query.Get("marker"))
		}
		if err != nil {
			return nil, listError(op, err)
		}
		all = append(all, items...)
		if len(all) > maxItems {
			break
		}
		if !more || len(items) == 0 {
			return all, nil
		}
		last, _ := items[len(items)-1].listed()
		query.Set("marker", last)
	}
	return nil, listError(op, fmt.Errorf("the list has no end, or more than %d items or %d pages", maxItems, maxPages))
}

// checkPage refuses items that cannot be Neutron's, and a page that ends where the one
// before it did: a server that takes no notice of the marker would have us read for long.
func checkPage[T item](items []T, marker string) error {
	for _, item := range items {
		id, texts := item.listed()
		if !validID(id) {
			return errors.New("the answer holds an item without an ID")
		}
		if slices.ContainsFunc(texts, func(text string) bool { return len(text) > maxText }) {
			return errors.New("the answer holds a text that is longer than any of Neutron's")
		}
	}
	if marker != "" && len(items) > 0 {
		if last, _ := items[len(items)-1].listed(); last == marker {
			return errors.New("the pages do not go on")
		}
	}
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
	if e, ok := err.(*Error); ok && e.Kind == Invalid {
		e.Kind = Unavailable
	}
	return err
}

// page reads one page, and whether there is another.
func page[T any](ctx context.Context, service *gophercloud.ServiceClient, collection string, query url.Values) (items []T, more bool, err error) {
	var answer map[string]json.RawMessage
	if _, err := service.Get(ctx, service.ServiceURL(collection)+"?"+query.Encode(), &answer, nil); err != nil {
		return nil, false, err
	}
	// Unmarshal refuses a key that is missing, and so an answer that is not a list.
	if err := json.Unmarshal(answer[collection], &items); err != nil {
		return nil, false, fmt.Errorf("the answer is not a list of %s: %w", collection, err)
	}
	if items == nil {
		return nil, false, fmt.Errorf("the answer is not a list of %s", collection)
	}
	var links []gophercloud.Link
	if raw, ok := answer[collection+"_links"]; ok {
		if err := json.Unmarshal(raw, &links); err != nil {
			return nil, false, fmt.Errorf("read the links of a page of %s: %w", collection, err)
		}
	}
	next, err := gophercloud.ExtractNextURL(links)
	return items, next != "", err
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
		return nil, &Error{Op: "get network", Kind: NotFound, Message: "that is no ID"}
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
	for i := range found {
		networks[i] = &found[i]
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
	return &Error{Op: op, Kind: InUse, Message: Printable("in use by port " + message)}
}
