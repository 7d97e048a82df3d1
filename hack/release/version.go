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

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// validVersion is what may be a version: it is an image's tag too.
var validVersion = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// describe finds out from Git what the release in that work tree is.
func describe(ctx context.Context, root, version string) (*release, error) {
	commit, err := git(ctx, root, "rev-parse", "HEAD")
	if err != nil {
		return nil, fmt.Errorf("find the commit: %w: a release is made in a clone of the repository", err)
	}
	changes, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return nil, fmt.Errorf("look for what is not committed: %w", err)
	}
	switch {
	case version == "":
		if version, err = describedVersion(ctx, root, commit, changes != ""); err != nil {
			return nil, err
		}
	case changes != "":
		return nil, fmt.Errorf("this is not version %s as it was committed: commit, or leave out the version to make one that says -dirty:\n%s", version, changes)
	}
	if !validVersion.MatchString(version) || len(version) > 128 {
		return nil, fmt.Errorf("%q is no version: give one like v1.2.3 or v1.2.3-rc.1", version)
	}
	at, err := sourceDate(ctx, root)
	if err != nil {
		return nil, err
	}
	return &release{root: root, version: version, commit: commit, time: at}, nil
}

// describedVersion returns the version that Git knows: from the last tag, or v0.0.0.
func describedVersion(ctx context.Context, root, commit string, dirty bool) (string, error) {
	version, err := git(ctx, root, "describe", "--tags", "--always", "--abbrev=12")
	if err != nil {
		return "", fmt.Errorf("find the version: %w: give one like v1.2.3", err)
	}
	if strings.HasPrefix(commit, version) {
		version = "v0.0.0-" + version // there is no tag
	}
	if dirty {
		version += "-dirty"
	}
	return version, nil
}

// sourceDate returns the time that stands in all artifacts.
func sourceDate(ctx context.Context, root string) (time.Time, error) {
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		var err error
		if seconds, err = git(ctx, root, "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, fmt.Errorf("find the commit's time: %w", err)
		}
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH is to be seconds since 1970: %w", err)
	}
	return time.Unix(unix, 0).UTC(), nil
}

func git(ctx context.Context, folder string, args ...string) (string, error) {
	return output(ctx, folder, nil, "git", args...)
}

// output returns what a command prints. Its complaints are in the error.
func output(ctx context.Context, folder string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(string(failed.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}
