// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package export is the subcommand export: it writes manifests of Networks for the networks that
// exist in a project of OpenStack. Each imports its network, and only observes it.
//
// Manifests decides what is written, and choose for which networks. Both are pure. Run reads Neutron
// and writes files; it changes nothing in Neutron or Kubernetes.
package export

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/options"
)

const description = `Writes manifests for the networks of a project in OpenStack, to take them over with
this controller. Each manifest imports one network by its ID with managementPolicy
Observe and deletionPolicy Retain: applying it changes nothing in Neutron. It
declares the network as it is; what the API cannot declare is a comment.

Without arguments it exports all networks of the credentials' project, except
external ones. Arguments choose networks by name or ID; an ID can be that of a
network of another project. Networks that carry an ownership mark are never
exported. Standard error tells which networks are left out, and why.

The exit code is 0, or 1 after an error.`

const examples = `  samplecrd-controller export -cloud mycloud > networks.yaml
  samplecrd-controller export web database -n team -o manifests/
  samplecrd-controller export -tag production -secret openstack -secret-cloud mycloud | kubectl apply -f -
`

// settings are what the flags and the arguments of the subcommand say.
type settings struct {
	*options.Options
	selection
	output              string
	secret, secretCloud string
	clusterCloud        string
}

// command returns the subcommand, whose own flags set s.
func command(s *settings) options.Command {
	return options.Command{
		Name: "export", Arguments: "[NAME|ID...] [flags]", Description: description, Examples: examples,
		Usage: map[string]string{
			"namespace":  "The `namespace` in the manifests. (default default)",
			"kubeconfig": "The kubeconfig `file` of a cluster. With it, networks that a Network in the cluster imports are left out. (default none: Kubernetes is not read)",
		},
		Shared: slices.Concat(options.KubernetesFlags, options.NeutronFlags),
		Add: func(fs *flag.FlagSet) {
			fs.Func("tag", "Only networks with this `tag`. Several of these flags: only networks with all of the tags.", func(tag string) error {
				s.tags = append(s.tags, tag)
				return nil
			})
			fs.StringVar(&s.output, "o", "", "The `path` to write to: a file, or a directory, with one file per network, if it ends with / or exists. Files are overwritten. (default standard output)")
			fs.StringVar(&s.secret, "secret", "", "The `name` of the Secret for spec.cloudCredentialsRef. (default none: the controller's own cloud)")
			fs.StringVar(&s.clusterCloud, "cluster-cloud", "", "The `name` of the ClusterCloud for spec.cloudCredentialsRef, instead of -secret. (default none)")
			fs.StringVar(&s.secretCloud, "secret-cloud", "", "The `name` of the entry in the Secret's clouds.yaml. (default that of -cloud or $OS_CLOUD)")
		},
	}
}

// Run runs the subcommand and returns its exit code.
func Run(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	s := &settings{}
	return command(s).Run(ctx, arguments, stdout, stderr, func(ctx context.Context, o *options.Options, names []string) (int, error) {
		s.Options, s.arguments = o, names
		return 0, s.run(ctx, stdout, stderr)
	})
}

func (s *settings) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := s.complete(); err != nil {
		return err
	}
	config, err := neutron.LoadConfig(s.Cloud)
	if err != nil {
		return err
	}
	client := neutron.NewClient(config, s.Neutron)
	defer client.Close()
	networks, err := s.read(ctx, client, stderr)
	if err != nil {
		return err
	}
	if s.imported, err = s.importedBy(ctx); err != nil {
		return err
	}
	chosen, leftOut := s.choose(networks)
	if err := s.unknown(networks); err != nil {
		return err
	}
	place, _ := client.Place()
	manifests := Manifests(chosen, Options{Namespace: s.Namespace, Project: place.Project, Credentials: s.credentials()})
	if err := write(manifests, leftOut, s.output, stdout); err != nil {
		return err
	}
	s.report(stderr, manifests, leftOut, config.Name)
	return nil
}

// complete sets the defaults, and returns the first error in the flags.
func (s *settings) complete() error {
	s.Namespace = cmp.Or(s.Namespace, metav1.NamespaceDefault)
	if s.secret != "" {
		s.secretCloud = cmp.Or(s.secretCloud, s.Cloud, os.Getenv("OS_CLOUD"))
	}
	switch {
	case len(validation.IsDNS1123Label(s.Namespace)) > 0:
		return fmt.Errorf("-namespace=%q: must be a valid name of a namespace", s.Namespace)
	case s.secret != "" && len(validation.IsDNS1123Subdomain(s.secret)) > 0:
		return fmt.Errorf("-secret=%q: must be a valid name of a Secret", s.secret)
	case s.clusterCloud != "" && len(validation.IsDNS1123Subdomain(s.clusterCloud)) > 0:
		return fmt.Errorf("-cluster-cloud=%q: must be a valid name of a ClusterCloud", s.clusterCloud)
	case s.clusterCloud != "" && s.secret != "":
		return errors.New("-cluster-cloud cannot be combined with -secret")
	case s.secret == "" && s.secretCloud != "":
		return errors.New("-secret-cloud needs -secret")
	case s.secret != "" && s.secretCloud == "":
		return errors.New("-secret needs -secret-cloud, or an entry of clouds.yaml named with -cloud or OS_CLOUD")
	case len(s.secretCloud) > 253 || strings.ContainsFunc(s.secretCloud, isUnprintable):
		return fmt.Errorf("-secret-cloud=%q: must have at most 253 characters, and no control characters", s.secretCloud)
	}
	return nil
}

func (s *settings) credentials() *samplecrdv1.CloudCredentialsReference {
	switch {
	case s.clusterCloud != "":
		return &samplecrdv1.CloudCredentialsReference{ClusterCloudName: s.clusterCloud}
	case s.secret != "":
		return &samplecrdv1.CloudCredentialsReference{SecretName: s.secret, CloudName: s.secretCloud}
	}
	return nil
}

// read lists the networks of the project, and reads those of other projects that an argument names.
func (s *settings) read(ctx context.Context, client *neutron.Client, stderr io.Writer) ([]*neutron.NetworkDetails, error) {
	progress := startProgress(stderr)
	defer progress.stop()
	networks, err := client.ListNetworkDetails(ctx, progress.count)
	if err != nil {
		return nil, err
	}
	for _, id := range s.missing(networks) {
		if !networkID.MatchString(id) {
			continue
		}
		n, err := client.GetNetworkDetails(ctx, id)
		if err != nil {
			return nil, err
		}
		if n != nil {
			networks = append(networks, n)
		}
	}
	return networks, nil
}

// importedBy returns the Networks that import a network of Neutron, by its ID. It reads Kubernetes
// only if a flag names a cluster.
func (s *settings) importedBy(ctx context.Context) (map[string]string, error) {
	if s.Kubernetes.Kubeconfig == "" && s.Kubernetes.Master == "" {
		return nil, nil
	}
	client, err := kubeclient.ConnectNetworks(s.Kubernetes)
	if err != nil {
		return nil, err
	}
	list, err := client.SamplecrdV1().Networks(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list Networks: %w", err)
	}
	imported := map[string]string{}
	for _, n := range list.Items {
		if n.Spec.Import != nil {
			imported[n.Spec.Import.NetworkID] = n.Namespace + "/" + n.Name
		}
	}
	return imported, nil
}

// report tells what was left out, and what was written to files.
func (s *settings) report(stderr io.Writer, manifests []Manifest, leftOut []omission, cloud string) {
	written := 0
	for _, m := range manifests {
		if m.Network != nil {
			written++
			continue
		}
		leftOut = append(leftOut, omission{title: m.Title, reason: strings.Join(m.Notes, ", ")})
	}
	for _, o := range leftOut {
		fmt.Fprintf(stderr, "Left out %s: %s\n", o.title, o.reason)
	}
	switch {
	case written == 0:
		fmt.Fprintf(stderr, "There is no network to export in the cloud %s\n", neutron.Printable(cloud))
	case s.output != "" && s.output != "-":
		fmt.Fprintf(stderr, "Wrote the manifests of %d networks to %s\n", written, s.output)
	}
}
