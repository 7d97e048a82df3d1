// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package clouds

import (
	"fmt"

	"k8s.io/client-go/tools/cache"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
)

// Limits bound the credentials that are in use: each has a watch of its Secret, and a cloud with its cache. Those of
// ClusterClouds do not count, and neither limit holds up a Network that is in Neutron already. 0 means no limit.
type Limits struct {
	// PerNamespace is for those of the Networks in one namespace, Total for those of all together.
	PerNamespace, Total int
}

// limitsFor returns the limits that the Network has for these credentials: none if the status, which users may not write, says that it
// had a cloud before. A deletion without that has twice the limits. The controller may have ended before it wrote the status. Or a user
// has written the finalizer.
func (c *Clouds) limitsFor(ref Ref, network *samplecrdv1.Network) Limits {
	limits, isDeleted := c.options.Limits, !network.DeletionTimestamp.IsZero()
	switch {
	case isClusterCloud(ref.Source), network.Status.NetworkID != "", network.Status.Router != nil, isDeleted && network.Status.Cloud != "":
		return Limits{}
	case isDeleted:
		return Limits{PerNamespace: 2 * limits.PerNamespace, Total: 2 * limits.Total}
	}
	return limits
}

// noRoomError is the error of checkRoom.
type noRoomError struct{ error }

func (e noRoomError) Unwrap() error { return e.error }

// checkRoom fails if there is no room for further credentials of the Secret.
func (c *Clouds) checkRoom(secret cache.ObjectName, limits Limits) error {
	all, here := 0, 0
	for used := range c.inUse {
		switch used.Source.Namespace {
		case "": // a ClusterCloud
			continue
		case secret.Namespace:
			here++
		}
		all++
	}
	var full string
	switch {
	case limits.PerNamespace > 0 && here >= limits.PerNamespace:
		full = fmt.Sprintf("the Networks of a namespace may use %d clouds of Secrets, and those of this one do; the administrator of the controller can allow more with -clouds-per-namespace", limits.PerNamespace)
	case limits.Total > 0 && all >= limits.Total:
		full = fmt.Sprintf("all Networks together may use %d clouds of Secrets, and they do; the administrator of the controller can allow more with -clouds-total", limits.Total)
	default:
		return nil
	}
	return noRoomError{unusable(titleOf(secret), full)}
}

// crowded is a Network for whose credentials there was no room.
type crowded struct {
	secret cache.ObjectName
	limits Limits
}

// wakeCrowded calls the handler for each Secret for which there may be room now.
func (c *Clouds) wakeCrowded() {
	isWoken := map[crowded]bool{}
	for _, waiting := range c.crowded {
		if _, known := isWoken[waiting]; !known {
			isWoken[waiting] = c.checkRoom(waiting.secret, waiting.limits) == nil
		}
	}
	for waiting, hasRoom := range isWoken {
		if hasRoom {
			c.handlers.CredentialsChanged(waiting.secret)
		}
	}
}
