// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package export

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// write writes the manifests to stdout, to a file, or to a directory with a file for each.
func write(manifests []Manifest, leftOut []omission, path string, stdout io.Writer) error {
	if isDirectory(path) {
		return writeDirectory(manifests, path)
	}
	text, err := join(manifests, leftOut)
	if err != nil {
		return err
	}
	if path == "" || path == "-" {
		_, err = stdout.Write(text)
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

func isDirectory(path string) bool {
	if strings.HasSuffix(path, "/") {
		return true
	}
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func writeDirectory(manifests []Manifest, path string) error {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	for _, m := range manifests {
		if m.Network == nil {
			continue // report names it on standard error
		}
		text, err := m.YAML()
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(path, m.Network.Name+".yaml"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// join returns all documents. Comments about what has no manifest are at the end.
func join(manifests []Manifest, leftOut []omission) ([]byte, error) {
	var b, end bytes.Buffer
	for _, m := range manifests {
		text, err := m.YAML()
		if err != nil {
			return nil, err
		}
		if m.Network == nil {
			end.Write(text)
			continue
		}
		if b.Len() > 0 {
			b.WriteString("---\n")
		}
		b.Write(text)
	}
	for _, o := range leftOut {
		if o.isExternal {
			fmt.Fprintf(&end, "# Left out %s: %s\n", o.title, o.reason)
		}
	}
	if b.Len() > 0 && end.Len() > 0 {
		b.WriteString("\n")
	}
	b.Write(end.Bytes())
	return b.Bytes(), nil
}

// interval is how often progress is written.
const interval = 2 * time.Second

// progress writes how many networks were listed, every interval until it is stopped.
type progress struct {
	read atomic.Int64
	done chan struct{}
	ends sync.WaitGroup
}

func startProgress(w io.Writer) *progress {
	p := &progress{done: make(chan struct{})}
	p.ends.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				fmt.Fprintf(w, "Reading Neutron: %d networks so far\n", p.read.Load())
			case <-p.done:
				return
			}
		}
	})
	return p
}

func (p *progress) count(read int) { p.read.Store(int64(read)) }

// stop ends the progress. Nothing is written after it.
func (p *progress) stop() {
	close(p.done)
	p.ends.Wait()
}
