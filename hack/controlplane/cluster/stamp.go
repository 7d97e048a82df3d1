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

// upToDate reports whether the executable was built from sources with this hash.
func upToDate(binary, hash string) bool {
	built, err := os.ReadFile(stamp(binary))
	if err != nil || string(built) != hash {
		return false
	}
	_, err = os.Stat(binary)
	return err == nil
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
