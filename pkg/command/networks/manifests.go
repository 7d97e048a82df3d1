// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package networks

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	clientset "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/options"
)

// SharedFlags are the flags of the controller that subcommands with a Selection and Clouds have too, and Usage describes those that
// mean something else there.
var (
	SharedFlags = slices.Concat(options.KubernetesFlags, options.NeutronFlags, []string{"cluster-id", "allowed-auth-urls", "cluster-resource-namespace", "cloud-namespace-selector"})
	Usage       = map[string]string{"namespace": "The `namespace` of the Networks, and of manifests that name none. (default that of the kubeconfig's context, or default)"}
)

// Selection says which Networks a subcommand is about: those in files, those with names, all of the namespace, or all of the cluster.
type Selection struct {
	Names, Files []string
	All          bool
}

// AddFlags adds the flags -f and -A. what says what -f takes.
func (s *Selection) AddFlags(fs *flag.FlagSet, what string) {
	fs.Func("f", what+" Further arguments are files too.", func(file string) error {
		s.Files = append(s.Files, file)
		return nil
	})
	fs.BoolVar(&s.All, "A", false, "The Networks of all namespaces.")
}

// Complete sets the defaults, and returns the first error in the flags.
func (s *Selection) Complete(o *options.Options) error {
	if len(s.Files) > 0 {
		s.Files, s.Names = append(s.Files, s.Names...), nil // -f a.yaml b.yaml
	}
	o.Namespace = cmp.Or(o.Namespace, kubeclient.Namespace(o.Kubernetes))
	switch {
	case len(s.Files) > 0 && s.All:
		return errors.New("-f cannot be combined with -A")
	case s.All && len(s.Names) > 0:
		return errors.New("-A cannot be combined with names")
	case len(validation.IsDNS1123Label(o.Namespace)) > 0:
		return fmt.Errorf("-namespace=%q: must be a valid name of a namespace", o.Namespace)
	}
	return nil
}

// List returns the Networks with these names in the namespace, or all in it, or all of the cluster.
func List(ctx context.Context, client clientset.Interface, namespace string, names []string, all bool) (found []*samplecrdv1.Network, err error) {
	for _, name := range names {
		network, err := client.SamplecrdV1().Networks(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil && isFile(name) {
			return nil, fmt.Errorf("%w: for the manifests in a file, use -f %s", err, name)
		}
		if err != nil {
			return nil, err
		}
		found = append(found, network)
	}
	if len(names) > 0 {
		return found, nil
	}
	if all {
		namespace = metav1.NamespaceAll
	}
	list, err := client.SamplecrdV1().Networks(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Networks: %w", err)
	}
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found, nil
}

// extensions are those of the manifests in a directory.
var extensions = []string{".yaml", ".yml", ".json"}

// isFile reports whether what should be the name of a Network looks like that of a file.
func isFile(name string) bool {
	return name == "-" || strings.Contains(name, "/") || slices.Contains(extensions, filepath.Ext(name))
}

// ReadFiles reads the Networks in the files and directories; - is standard input. It tells stderr what it skips, and fails if there is
// no Network.
func ReadFiles(paths []string, stdin io.Reader, stderr io.Writer) (manifests []*unstructured.Unstructured, err error) {
	for _, path := range paths {
		if path == "-" {
			found, err := readManifests(stdin, "standard input", stderr)
			if err != nil {
				return nil, err
			}
			manifests = append(manifests, found...)
			continue
		}
		err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
			isManifest := file == path || slices.Contains(extensions, filepath.Ext(file))
			if err != nil || entry.IsDir() || !isManifest {
				return err
			}
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			defer f.Close()
			found, err := readManifests(f, file, stderr)
			manifests = append(manifests, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(manifests) == 0 {
		return nil, errors.New("there is no Network in the manifests")
	}
	return manifests, nil
}

// readManifests reads the Networks in a stream of YAML or JSON documents.
func readManifests(r io.Reader, name string, stderr io.Writer) (manifests []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(r, 4096)
	for {
		var document unstructured.Unstructured
		err := decoder.Decode(&document.Object)
		if errors.Is(err, io.EOF) {
			return manifests, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if document.Object == nil {
			continue // only comments
		}
		items := []unstructured.Unstructured{document}
		if document.IsList() {
			list, err := document.ToList()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			items = list.Items
		}
		for i := range items {
			if items[i].GetKind() != "Network" || items[i].GetAPIVersion() != samplecrdv1.GroupVersion.String() {
				fmt.Fprintf(stderr, "%s: skipped %s\n", name, strings.TrimSpace(cmp.Or(items[i].GetKind(), "an object without a kind")+" "+items[i].GetName()))
				continue
			}
			if items[i].GetName() == "" {
				return nil, fmt.Errorf("%s: a Network has no name", name)
			}
			manifests = append(manifests, &items[i])
		}
	}
}
