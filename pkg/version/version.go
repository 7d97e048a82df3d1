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
