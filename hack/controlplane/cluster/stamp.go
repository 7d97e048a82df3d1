// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// stamp returns the file with the hash of the sources that the executable was built from.
func stamp(binary string) string {
	return binary + ".stamp"
}

// upToDate reports whether the executable and kubectl were built from sources with this hash.
func upToDate(binary, hash string) bool {
	built, err := os.ReadFile(stamp(binary))
	if err != nil || string(built) != hash {
		return false
	}
	for _, file := range []string{binary, Kubectl(binary)} {
		if _, err := os.Stat(file); err != nil {
			return false
		}
	}
	return true
}

// sourceHash returns a hash of everything that the executable is built from: the Go
// toolchain, the requirements and the sources. Sources that are not part of the executable
// are ignored. Some requirements are not part of it either, but an unnecessary build takes
// only seconds.
func sourceHash(ctx context.Context, hack string) (string, error) {
	toolchain, err := output(goCommand(ctx, hack, "env", "GOVERSION", "GOOS", "GOARCH", "GOFLAGS"), func(string) bool { return false })
	if err != nil {
		return "", err
	}
	files, err := sources(hack)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, toolchain)
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join(hack, file))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, file, len(data))
		sum.Write(data)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// sources returns the files that are hashed, in a fixed order.
func sources(hack string) ([]string, error) {
	files := []string{"go.mod", "go.sum"}
	err := fs.WalkDir(os.DirFS(hack), "controlplane", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return nil
	})
	return files, err
}
