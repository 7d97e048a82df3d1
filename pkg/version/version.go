// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version holds the version of the controller.
package version

import "runtime/debug"

// Version and Commit are set by the linker in a release (hack/release, Dockerfile). Without
// that, they are those that go build writes into the binary.
var Version, Commit string

func init() {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	if Version == "" {
		Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && Commit == "" {
			Commit = setting.Value
		}
	}
	if Commit == "" {
		Commit = "unknown"
	}
}

// UserAgent returns the User-Agent header of the controller's HTTP requests.
func UserAgent() string { return "samplecrd-controller/" + Version }
