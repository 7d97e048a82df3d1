// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

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

// validVersion matches valid versions. A version is also an image's tag.
var validVersion = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

// dirty ends the version of a work tree with uncommitted changes.
const dirty = "-dirty"

// describe returns the release of that work tree, according to Git.
func describe(ctx context.Context, root, version string) (*release, error) {
	commit, err := git(ctx, root, "rev-parse", "HEAD")
	if err != nil {
		return nil, fmt.Errorf("find the commit: %w: run this in a clone of the repository", err)
	}
	changes, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return nil, fmt.Errorf("find uncommitted changes: %w", err)
	}
	switch {
	case version == "":
		if version, err = describedVersion(ctx, root, commit, changes != ""); err != nil {
			return nil, err
		}
	case changes != "":
		return nil, fmt.Errorf("version %s cannot have uncommitted changes: commit them, or omit the version to make one that ends with -dirty:\n%s", version, changes)
	}
	if !validVersion.MatchString(version) || len(version) > 128 {
		return nil, fmt.Errorf("%q is not a version: use one like v1.2.3 or v1.2.3-rc.1", version)
	}
	at, err := sourceDate(ctx, root)
	if err != nil {
		return nil, err
	}
	return &release{root: root, version: version, commit: commit, time: at}, nil
}

// describedVersion returns the version from Git: from the last tag, or v0.0.0.
func describedVersion(ctx context.Context, root, commit string, changed bool) (string, error) {
	version, err := git(ctx, root, "describe", "--tags", "--always", "--abbrev=12")
	if err != nil {
		return "", fmt.Errorf("find the version: %w: pass one like v1.2.3", err)
	}
	if strings.HasPrefix(commit, version) {
		version = "v0.0.0-" + version // there is no tag
	}
	if changed {
		version += dirty
	}
	return version, nil
}

// sourceDate returns the time that all artifacts contain.
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
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH must be in seconds since 1970: %w", err)
	}
	return time.Unix(unix, 0).UTC(), nil
}

func git(ctx context.Context, folder string, args ...string) (string, error) {
	return output(ctx, folder, nil, "git", args...)
}

// output returns a command's standard output. Its standard error is in the error.
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
