// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package embedded

import (
	"net/http"
	"net/netip"
	"slices"
)

// forwarding is a port of a floating IP that leads to a port of a machine. The floating IP has no port,
// and no address of one.
type forwarding struct {
	ID           string     `json:"id"`
	PortID       string     `json:"internal_port_id"`
	Address      netip.Addr `json:"internal_ip_address"`
	Protocol     string     `json:"protocol"`
	InternalPort int        `json:"internal_port"`
	ExternalPort int        `json:"external_port"`
}

var forwardingAttributes = map[string]func(string, any) (any, *failure){
	"internal_port_id": checkUUID, "internal_ip_address": checkAddress, "protocol": text(maxText), "internal_port": integer, "external_port": integer,
}

// showForwardings shows no empty list: without any, the answer is that of a Neutron without the plug-in.
func showForwardings(f *floatingIP) any {
	if len(f.forwardings) == 0 {
		return absent{}
	}
	return f.forwardings
}

func (f *floatingIP) inUse() *failure {
	return conflict("FipInUseByPortForwarding", "Floating IP %s in use by Port Forwarding resources.", f.id)
}

// serveForwardings creates one, or deletes one.
func serveForwardings(k *kind[*floatingIP], r *request, id string, rest []string) *answer {
	var shown any
	change := func(t *tx, f *floatingIP) *failure {
		made, err := t.addForwarding(f, r.body)
		shown = map[string]any{"port_forwarding": made}
		return err
	}
	switch {
	case r.Method == http.MethodPost && len(rest) == 0:
	case r.Method == http.MethodDelete && len(rest) == 1:
		change = func(t *tx, f *floatingIP) *failure {
			if !t.removeForwardings(func(w forwarding) bool { return w.ID == rest[0] }) {
				return notFound("PortForwardingNotFound", "Port Forwarding %s could not be found.", rest[0])
			}
			return nil
		}
	default:
		return notFoundPath().answer()
	}
	err := k.write(r, func(t *tx) *failure {
		f, err := k.find(r.caller, id)
		if err != nil {
			return err
		}
		return change(t, f)
	})
	switch {
	case err != nil:
		return err.answer()
	case shown == nil:
		return &answer{status: http.StatusNoContent}
	}
	return jsonAnswer(http.StatusCreated, shown)
}

// addForwarding keeps the router that connects the floating IP with the port.
func (t *tx) addForwarding(old *floatingIP, body []byte) (forwarding, *failure) {
	root, err := decodeObject(body)
	if err != nil {
		return forwarding{}, err
	}
	sent, _ := root["port_forwarding"].(map[string]any)
	v := values{}
	for name, check := range forwardingAttributes {
		if x, ok := sent[name]; ok {
			if v[name], err = check(name, x); err != nil {
				return forwarding{}, err
			}
		}
	}
	p, err := seen[*port](t, "ports", given(v, "internal_port_id", ""))
	if err != nil {
		return forwarding{}, err
	}
	address, err := t.internalAddress(old, p, given(v, "internal_ip_address", netip.Addr{}))
	if err != nil {
		return forwarding{}, err
	}
	router, err := t.routerBetween(p, address, old.networkID)
	if err != nil {
		return forwarding{}, err
	}
	if old.portID != "" {
		return forwarding{}, conflict("FipInUseByPortForwarding", "Floating IP %s is associated with port %s.", old.id, old.portID)
	}
	made := forwarding{newUUID(), p.id, address.Address, given(v, "protocol", ""), given(v, "internal_port", 0), given(v, "external_port", 0)}
	f := *old
	f.routerID, f.forwardings = router, append(slices.Clone(f.forwardings), made)
	t.bump(&f.standard)
	store(t, t.floatingIPs, &f)
	return made, nil
}

// removeForwardings removes those for which del returns true. A floating IP without any leads nowhere.
func (t *tx) removeForwardings(del func(forwarding) bool) (removed bool) {
	for _, old := range slices.Clone(t.floatingIPs.sorted) {
		left := slices.DeleteFunc(slices.Clone(old.forwardings), del)
		if len(left) == len(old.forwardings) {
			continue
		}
		removed = true
		f := *old
		f.forwardings = left
		if len(left) == 0 {
			f.routerID = ""
		}
		t.bump(&f.standard)
		store(t, t.floatingIPs, &f)
	}
	return removed
}

// leadsTo reports whether the forwarding needs an interface in the subnet.
func (t *tx) leadsTo(f forwarding, s *subnet) bool {
	p := t.ports.byID[f.PortID]
	return p != nil && slices.Contains(p.fixedIPs, fixedIP{s.id, f.Address})
}
