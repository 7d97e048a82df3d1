//go:build !linux

// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package stack

import "syscall"

func dieWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
