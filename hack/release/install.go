// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// makeInstall writes the output of kubectl kustomize artifacts/deploy, with this release's
// image.
func (r *release) makeInstall() error {
	folder, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	// Kustomize accepts only relative paths, and resolves symbolic links first.
	if folder, err = filepath.EvalSymlinks(folder); err != nil {
		return err
	}
	root, err := filepath.EvalSymlinks(r.root)
	if err != nil {
		return err
	}
	base, err := filepath.Rel(folder, filepath.Join(root, "artifacts", "deploy"))
	if err != nil {
		return err
	}
	overlay, err := yaml.Marshal(types.Kustomization{
		Resources: []string{base},
		Images:    []types.Image{{Name: program, NewName: r.image, NewTag: r.version}},
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "kustomization.yaml"), overlay, 0o600); err != nil {
		return err
	}
	return r.kustomize(folder)
}

func (r *release) kustomize(folder string) error {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // the namespace before the objects in it
	resources, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return err
	}
	text, err := resources.AsYaml()
	if err != nil {
		return err
	}
	image := fmt.Appendf(nil, "image: %s:%s\n", r.image, r.version)
	if !bytes.Contains(text, image) {
		return fmt.Errorf("artifacts/deploy has no container with the image %s", program)
	}
	return os.WriteFile(filepath.Join(r.out, "install.yaml"), text, 0o644)
}
