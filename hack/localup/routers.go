// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
)

// router is a router with its interfaces, as Neutron returns them.
type router struct {
	routers.Router
	// interfaces are the ports that connect the router to subnets.
	interfaces []ports.Port
}

// routers returns all routers that the project can see.
func (s *session) routers(ctx context.Context) ([]router, error) {
	pages, err := routers.List(s.neutron.Client, routers.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, fmt.Errorf("list routers: %w", err)
	}
	all, err := routers.ExtractRouters(pages)
	if err != nil {
		return nil, fmt.Errorf("list routers: %w", err)
	}
	found := make([]router, len(all))
	for i, r := range all {
		found[i].Router = r
		pages, err := ports.List(s.neutron.Client, ports.ListOpts{DeviceID: r.ID, DeviceOwner: "network:router_interface"}).AllPages(ctx)
		if err != nil {
			return nil, fmt.Errorf("list ports: %w", err)
		}
		if found[i].interfaces, err = ports.ExtractPorts(pages); err != nil {
			return nil, fmt.Errorf("list ports: %w", err)
		}
	}
	return found, nil
}

// externalIPs returns the addresses of the router in its external network.
func (r router) externalIPs() (addresses []string) {
	for _, ip := range r.GatewayInfo.ExternalFixedIPs {
		addresses = append(addresses, ip.IPAddress)
	}
	return addresses
}

// addresses returns the addresses of the router by the IDs of the subnets that it connects.
func (r router) addresses() map[string]string {
	addresses := map[string]string{}
	for _, port := range r.interfaces {
		for _, ip := range port.FixedIPs {
			addresses[ip.SubnetID] = ip.IPAddress
		}
	}
	return addresses
}

// showRouter shows what openstack router show prints of the router's connections.
func (s *session) showRouter(r router) {
	s.show("$ openstack router show %s", r.Name)
	var inside []string
	for _, address := range r.addresses() {
		inside = append(inside, address)
	}
	slices.Sort(inside)
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tSTATUS\tEXTERNAL IP\tINTERFACES")
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, r.Status, strings.Join(r.externalIPs(), ","), strings.Join(inside, ","))
	w.Flush()
	s.showOutput(b.String())
}

// routed shows both sides, and returns the one router. It returns an error unless the network has
// exactly these subnets, all of them are connected to the router by the address of their gateway,
// and the Network's status is the same.
func (s *session) routed(ctx context.Context, cidrs ...string) (router, error) {
	if err := s.kubectl(ctx, "get", resource, "-o", "wide"); err != nil {
		return router{}, err
	}
	networks, err := s.neutron.Networks(ctx)
	if err != nil {
		return router{}, err
	}
	all, err := s.routers(ctx)
	if err != nil {
		return router{}, err
	}
	if len(networks) != 1 || len(all) != 1 {
		return router{}, fmt.Errorf("want one network with one router in Neutron, got %+v, %+v", networks, all)
	}
	s.showRouter(all[0])
	addresses, found := all[0].addresses(), []string{}
	for _, subnet := range networks[0].Subnets {
		found = append(found, subnet.CIDR)
		if addresses[subnet.ID] != subnet.GatewayIP {
			return router{}, fmt.Errorf("the router has %q on subnet %s, want %s", addresses[subnet.ID], subnet.CIDR, subnet.GatewayIP)
		}
	}
	if slices.Sort(found); !slices.Equal(found, cidrs) {
		return router{}, fmt.Errorf("the subnets are %q, want %q", found, cidrs)
	}
	if len(all[0].externalIPs()) == 0 {
		return router{}, errors.New("the router has no address in the external network")
	}
	want := fmt.Sprintf("True %s %s", all[0].ID, strings.Join(all[0].externalIPs(), " "))
	got, err := s.output(ctx, "get", object, "-o",
		`jsonpath={.status.conditions[?(@.type=="Ready")].status} {.status.router.id} {.status.router.externalIPs[*]}`)
	if err == nil && got != want {
		return router{}, fmt.Errorf("the status is %q, want %q", got, want)
	}
	return all[0], err
}

// patch changes the spec, and waits until the change is in effect.
func (s *session) patch(ctx context.Context, spec string) error {
	if err := s.kubectl(ctx, "patch", resource, "example-network", "--type=merge", "-p", spec); err != nil {
		return err
	}
	return s.kubectl(ctx, "wait", "--for=condition=Ready", object, timeout)
}

// addRouter gives the network a way out.
func (s *session) addRouter(ctx context.Context) error {
	if err := s.patch(ctx, `{"spec":{"router":{"externalNetwork":{"name":"public"}}}}`); err != nil {
		return err
	}
	_, err := s.routed(ctx, "10.20.0.0/16")
	return err
}

// changeRoutedCIDR checks that the network keeps its router.
func (s *session) changeRoutedCIDR(ctx context.Context) error {
	before, err := s.routers(ctx)
	if err != nil {
		return err
	}
	if err := s.patch(ctx, `{"spec":{"cidr":"10.30.0.0/16"}}`); err != nil {
		return err
	}
	after, err := s.routed(ctx, "10.30.0.0/16")
	if err == nil && (after.ID != before[0].ID || !slices.Equal(after.externalIPs(), before[0].externalIPs())) {
		return errors.New("the router is another one, or has another address")
	}
	return err
}

func (s *session) addIPv6(ctx context.Context) error {
	err := s.patch(ctx, `{"spec":{"additionalSubnets":[{"name":"v6","cidr":"fd00:30::/64","ipv6":{"addressMode":"slaac","raMode":"slaac"}}]}}`)
	if err != nil {
		return err
	}
	_, err = s.routed(ctx, "10.30.0.0/16", "fd00:30::/64")
	return err
}
