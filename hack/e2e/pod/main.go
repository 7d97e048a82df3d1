//go:build linux

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

// Command pod runs a program as a container runtime does: in a root file system of its
// own, which is read-only, as a user who is nobody, without capabilities, and without a way
// to get any. It is to be started as root, or with all capabilities in a user namespace
// and a mount namespace of its own:
//
//	pod -root=FOLDER -user=ID [-env=NAME=VALUE]... PROGRAM [ARGUMENT]...
//
// The program has none of the caller's environment. It keeps the process ID, which is
// printed before.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

func main() {
	root := flag.String("root", "", "the `folder` that holds all files that the program has; /proc is added if there is a folder for it")
	user := flag.Int("user", 65532, "the `ID` of the user and the group")
	var env []string
	flag.Func("env", "a `variable` of the program's environment", func(value string) error {
		env = append(env, value)
		return nil
	})
	flag.Parse()
	// Namespaces and credentials are a thread's; the program gets those of the one that
	// becomes it.
	runtime.LockOSThread()
	err := errors.Join(enter(*root), drop(*user))
	if err == nil {
		fmt.Fprintf(os.Stderr, "pod %d: %s\n", os.Getpid(), strings.Join(flag.Args(), " "))
		err = unix.Exec(flag.Arg(0), flag.Args(), env)
	}
	fmt.Fprintf(os.Stderr, "pod: run %s: %v\n", flag.Arg(0), err)
	os.Exit(1)
}

// enter makes the folder the root, and the only file system there is. Whoever sees the
// folder from outside can still write to it, as a kubelet does.
func enter(root string) error {
	if os.Geteuid() == 0 {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
	}
	proc := filepath.Join(root, "proc")
	readOnly := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"keep mounts private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount the root", func() error { return unix.Mount(root, root, "", unix.MS_BIND|unix.MS_REC, "") }},
		{"make it read-only", func() error { return unix.MountSetattr(unix.AT_FDCWD, root, unix.AT_RECURSIVE, readOnly) }},
		{"mount /proc", func() error { return unix.Mount("/proc", proc, "", unix.MS_BIND|unix.MS_REC, "") }},
		{"go there", func() error { return unix.Chdir(root) }},
		{"pivot_root", func() error { return unix.PivotRoot(".", ".") }},
		{"leave the other root", func() error { return unix.Unmount(".", unix.MNT_DETACH) }},
		{"go to the root", func() error { return unix.Chdir("/") }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// drop gives up all rights for good.
func drop(user int) error {
	for capability := uintptr(0); capability <= unix.CAP_LAST_CAP; capability++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
		if err != nil && !errors.Is(err, unix.EINVAL) { // a capability that the kernel does not know
			return fmt.Errorf("drop capability %d: %w", capability, err)
		}
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(unix.Setgroups([]int{user}), unix.Setresgid(user, user, user), unix.Setresuid(user, user, user)); err != nil {
			return fmt.Errorf("become user %d: %w", user, err)
		}
	}
	header, none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, [2]unix.CapUserData{}
	return errors.Join(
		unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0),
		unix.Capset(&header, &none[0]),
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
		// Whoever started this did so, too; but another user's process is not bound by it.
		unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0),
	)
}
