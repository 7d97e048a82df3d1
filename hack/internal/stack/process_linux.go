// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import "syscall"

// dieWithParent makes the kernel end the child when the thread that started it ends. Go's
// threads live as long as the process, except those that a goroutine was locked to.
func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}
