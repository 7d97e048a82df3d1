// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
	"github.com/google/uuid"
)

// makeSBOM writes the SBOM, from the build information in the binary itself.
func (r *release) makeSBOM(ctx context.Context, arch, binary string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	components, err := r.components(ctx, info)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(data)
	bom := cdx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceOID, digest[:]).URN()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.time.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef:     "main",
			Type:       cdx.ComponentTypeApplication,
			Name:       info.Main.Path,
			Version:    r.version,
			PackageURL: packageURL(info.Main.Path, r.version),
			Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(digest[:])}},
			Licenses:   licenseChoices([]string{"Apache-2.0"}),
			Properties: &[]cdx.Property{{Name: "commit", Value: r.commit}, {Name: "platform", Value: "linux/" + arch}},
		},
	}
	bom.Components = &components
	return writeFile(r.file("-linux-"+arch+".cdx.json"), func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	})
}

// components returns Go's standard library and the modules, in that order.
func (r *release) components(ctx context.Context, info *debug.BuildInfo) ([]cdx.Component, error) {
	licenses, err := r.licenses(ctx, info.Deps)
	if err != nil {
		return nil, err
	}
	toolchain := strings.TrimPrefix(info.GoVersion, "go")
	all := []cdx.Component{{
		BOMRef:     "std",
		Type:       cdx.ComponentTypeLibrary,
		Name:       "std",
		Version:    toolchain,
		PackageURL: packageURL("std", toolchain),
		Licenses:   licenseChoices([]string{"BSD-3-Clause"}),
	}}
	for _, module := range info.Deps {
		hashes, err := hashes(used(module).Sum)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", module.Path, err)
		}
		all = append(all, cdx.Component{
			BOMRef:     module.Path,
			Type:       cdx.ComponentTypeLibrary,
			Name:       used(module).Path,
			Version:    used(module).Version,
			PackageURL: packageURL(used(module).Path, used(module).Version),
			Hashes:     hashes,
			Licenses:   licenseChoices(licenses[module.Path]),
		})
	}
	return all, nil
}

// used returns the module that is in the binary: the module itself, or its replacement.
func used(module *debug.Module) *debug.Module { return cmp.Or(module.Replace, module) }

func packageURL(path, version string) string {
	return "pkg:golang/" + strings.ToLower(path) + "@" + strings.ReplaceAll(version, "+", "%2B")
}

// hashes returns the hash in go.sum, which covers all files of the module.
func hashes(sum string) (*[]cdx.Hash, error) {
	encoded, ok := strings.CutPrefix(sum, "h1:")
	if !ok {
		return nil, fmt.Errorf("%q is not a hash from go.sum", sum)
	}
	hash, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return nil, err
	}
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}, nil
}

func licenseChoices(names []string) *cdx.Licenses {
	if len(names) == 0 {
		return nil
	}
	choices := cdx.Licenses{}
	for _, name := range names {
		choices = append(choices, cdx.LicenseChoice{License: &cdx.License{ID: name}})
	}
	return &choices
}

// licenses returns the licences of the modules, by path, as far as their texts are
// recognized.
func (r *release) licenses(ctx context.Context, modules []*debug.Module) (map[string][]string, error) {
	args := []string{"list", "-m", "-f", "{{.Path}}\t{{.Dir}}"}
	for _, module := range modules {
		args = append(args, module.Path)
	}
	out, err := output(ctx, r.root, []string{"GOFLAGS=", "GOWORK=off"}, "go", args...)
	if err != nil {
		return nil, err
	}
	known, err := assets.DefaultClassifier()
	if err != nil {
		return nil, err
	}
	licenses := map[string][]string{}
	for line := range strings.Lines(out) {
		path, folder, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if licenses[path], err = folderLicenses(known, folder); err != nil {
			return nil, err
		}
	}
	return licenses, nil
}

// folderLicenses returns the licences in a folder's files that are named like licence
// files.
func folderLicenses(known *classifier.Classifier, folder string) (names []string, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || !strings.HasPrefix(name, "LICEN") && !strings.HasPrefix(name, "COPYING") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		for _, match := range known.Match(text).Matches {
			if match.MatchType == "License" {
				names = append(names, match.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
