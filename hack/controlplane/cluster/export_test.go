// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

// PID returns the process ID of the supervisor.
func (c *Cluster) PID() int {
	return c.cmd.Process.Pid
}
