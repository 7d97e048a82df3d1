// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/external"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// Cloud is the entry of clouds.yaml that all parts of a stack use.
const Cloud = "local"

// Neutron is an embedded Neutron that outlives controllers, with a client.
type Neutron struct {
	*embedded.Server
	// Client is a plain gophercloud client in the controller's project.
	Client *gophercloud.ServiceClient
	// CloudsYAML is the path of a clouds.yaml with the entry Cloud, for other clients.
	CloudsYAML string
}

// StartNeutron starts an embedded Neutron, and writes dir/clouds.yaml.
func StartNeutron(ctx context.Context, dir string, options embedded.Options) (*Neutron, error) {
	server, err := embedded.Start("127.0.0.1:0", options)
	if err != nil {
		return nil, err
	}
	n := &Neutron{Server: server, CloudsYAML: filepath.Join(dir, "clouds.yaml")}
	content := server.CloudsYAML(Cloud)
	if err := os.WriteFile(n.CloudsYAML, content, 0o600); err != nil {
		return nil, err
	}
	n.Client, err = Connect(ctx, Cloud, content)
	return n, err
}

// Connect returns a plain client for that entry of a clouds.yaml with this content.
func Connect(ctx context.Context, cloud string, cloudsYAML []byte) (*gophercloud.ServiceClient, error) {
	auth, endpoint, tls, err := clouds.Parse(clouds.WithCloudName(cloud), clouds.WithCloudsYAML(bytes.NewReader(cloudsYAML)))
	if err != nil {
		return nil, err
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithTLSConfig(tls))
	if err != nil {
		return nil, err
	}
	return openstack.NewNetworkV2(provider, endpoint)
}

// Env returns the environment variables that a controller, or any other client, needs.
func (n *Neutron) Env() []string {
	return []string{"OS_CLIENT_CONFIG_FILE=" + n.CloudsYAML, "OS_CLOUD=" + Cloud}
}

// Network is a network with its subnets, as Neutron returns them.
type Network struct {
	networks.Network
	Subnets []subnets.Subnet
}

// allPages lists again, a few times, if the last item of a page was deleted before the next page
// was read: Neutron then does not find the marker (404).
func allPages(ctx context.Context, pager pagination.Pager) (page pagination.Page, err error) {
	for range 10 {
		page, err = pager.AllPages(ctx)
		if !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			break
		}
	}
	return page, err
}

// Networks returns all networks that the client can see, ordered by name, except external ones. An
// administrator sees those of all projects.
func (n *Neutron) Networks(ctx context.Context) ([]Network, error) {
	internal := external.ListOptsExt{ListOptsBuilder: networks.ListOpts{}, External: new(false)}
	pages, err := allPages(ctx, networks.List(n.Client, internal))
	if err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	all, err := networks.ExtractNetworks(pages)
	if err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	pages, err = allPages(ctx, subnets.List(n.Client, subnets.ListOpts{}))
	if err != nil {
		return nil, fmt.Errorf("list subnets: %w", err)
	}
	allSubnets, err := subnets.ExtractSubnets(pages)
	if err != nil {
		return nil, fmt.Errorf("list subnets: %w", err)
	}
	result := make([]Network, len(all))
	for i, network := range all {
		result[i].Network = network
		for _, s := range allSubnets {
			if s.NetworkID == network.ID {
				result[i].Subnets = append(result[i].Subnets, s)
			}
		}
	}
	slices.SortFunc(result, func(a, b Network) int { return strings.Compare(a.Name, b.Name) })
	return result, nil
}
