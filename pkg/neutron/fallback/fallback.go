// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fallback runs an embedded Neutron when no cloud is configured.
package fallback

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron/embedded"
)

// cloudName is the entry's name in the clouds.yaml that Warn prints.
const cloudName = "embedded"

// Options returns the options of an embedded Neutron for a first try: routers can have their
// gateway in the external network "public". Its addresses are those that RFC 2544 reserves for
// tests.
func Options() embedded.Options {
	return embedded.Options{ExternalNetwork: embedded.ExternalNetwork{Name: "public", CIDR: netip.MustParsePrefix("198.18.0.0/16")}}
}

// Cloud is the configured cloud, or an embedded Neutron.
type Cloud struct {
	Config neutron.Config
	server *embedded.Server // nil: the cloud is a configured one
}

// LoadConfig loads the configuration of the named cloud, as neutron.LoadConfig does. If no
// cloud is configured, and an embedded one is allowed, it starts an embedded Neutron in memory.
func LoadConfig(name string, allowed bool) (*Cloud, error) {
	config, err := neutron.LoadConfig(name)
	if !allowed || !errors.Is(err, neutron.ErrNoCloud) {
		return &Cloud{Config: config}, err
	}
	c := &Cloud{}
	if c.server, err = embedded.Start("127.0.0.1:0", Options()); err != nil {
		return nil, err
	}
	if c.Config, err = neutron.ParseConfig(cloudName, c.server.CloudsYAML(cloudName)); err != nil {
		c.Close()
		return nil, err
	}
	c.Config.Name = "embedded (in memory)"
	return c, nil
}

// Close stops the embedded Neutron, if there is one.
func (c *Cloud) Close() {
	if c.server != nil {
		c.server.Close()
	}
}

const warning = `
  *** No cloud is configured: this is an EMBEDDED Neutron, in memory. ***
  Its networks carry no traffic, and are gone when the controller ends. Routers can
  have their gateway in its external network public. For a real cloud, name an entry
  of clouds.yaml with -cloud or OS_CLOUD. To look at this one, save this as
  clouds.yaml, and then: openstack --os-cloud embedded network list

    %s
`

// Warn prints a warning if the cloud is an embedded Neutron, and how to reach it.
func (c *Cloud) Warn(w io.Writer) {
	if c.server != nil {
		entry := strings.TrimSpace(string(c.server.CloudsYAML(cloudName)))
		fmt.Fprintf(w, warning, strings.ReplaceAll(entry, "\n", "\n    "))
	}
}
