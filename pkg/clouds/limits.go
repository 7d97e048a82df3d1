// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"fmt"

	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// Limits bound the credentials that are in use: each has a watch of its Secret, and a cloud with its cache. Those of
// ClusterClouds do not count, and neither limit holds up a Network that is in Neutron already, unless its status was never written. 0
// means no limit.
type Limits struct {
	// PerNamespace is for those of the Networks in one namespace, Total for those of all together.
	PerNamespace, Total int
}

// noRoomError is the error of checkRoom.
type noRoomError struct{ error }

func (e noRoomError) Unwrap() error { return e.error }

// checkRoom fails if there is no room for these credentials.
func (c *Clouds) checkRoom(ref Ref) error {
	all, here := 0, 0
	for used := range c.inUse {
		switch used.Source.Namespace {
		case "": // a ClusterCloud
			continue
		case ref.Source.Namespace:
			here++
		}
		all++
	}
	limits := c.options.Limits
	switch {
	case limits.PerNamespace > 0 && here >= limits.PerNamespace:
		return noRoomError{unusable(titleOf(ref.Source), fmt.Sprintf("the Networks of a namespace may use %d clouds of Secrets, and those of this one do; the administrator of the controller can allow more with -clouds-per-namespace", limits.PerNamespace))}
	case limits.Total > 0 && all >= limits.Total:
		return noRoomError{unusable(titleOf(ref.Source), fmt.Sprintf("all Networks together may use %d clouds of Secrets, and they do; the administrator of the controller can allow more with -clouds-total", limits.Total))}
	}
	return nil
}

// wakeCrowded calls the handler for each Secret for which there may be room now.
func (c *Clouds) wakeCrowded() {
	secrets := map[cache.ObjectName]bool{}
	for _, secret := range c.crowded {
		if _, known := secrets[secret]; !known {
			secrets[secret] = c.checkRoom(Ref{Source: secret}) == nil
		}
	}
	for secret, hasRoom := range secrets {
		if hasRoom {
			c.handlers.CredentialsChanged(secret)
		}
	}
}

// hasSomething reports whether the limits must not hold up the Network: it may have something in Neutron. Users may not
// write the status. They can write the finalizer into a new Network, and then delete it.
func hasSomething(network *samplecrdv1.Network) bool {
	return network.Status.NetworkID != "" || network.Status.Router != nil ||
		!network.DeletionTimestamp.IsZero() && network.Status.Cloud != ""
}
