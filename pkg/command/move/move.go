// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package move is the subcommand move: it gives the networks of another cluster, or of this cluster under an earlier ID, to the
// Networks of this cluster. The controller itself never changes the owner of anything in Neutron.
package move

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/command/networks"
	"github.com/samplecrd/samplecrd-controller/pkg/kubeclient"
	"github.com/samplecrd/samplecrd-controller/pkg/live"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
	"github.com/samplecrd/samplecrd-controller/pkg/options"
)

const description = `Gives the networks that another cluster has created or imported to the Networks of
this cluster, or those of this cluster to itself after its ID has changed. It
changes only the ownership marks in Neutron: of networks, all their subnets, own
routers, and imports. Without -yes it shows what it would do.

A Network takes over what one Network of the old cluster has: the one with the UID
in -f, with its own UID, with the network of its spec or status, or else the one
whose network has its name. What is left of the old cluster is listed at the end.

No controller may work on the old Networks. Either it is stopped or gone: say so
with -old-is-stopped. Or pause the old Networks, and let -f show that their
controller has seen it:

  kubectl --context old annotate networks.samplecrd.k8s.io --all --overwrite \
    samplecrd.k8s.io/paused=true samplecrd.k8s.io/reconcile-requested-at=move-$(date +%s)
  kubectl --context old get networks.samplecrd.k8s.io -o yaml | samplecrd-controller move -f - ...

If a controller works in this cluster, create its Networks with the annotation
samplecrd.k8s.io/paused=true. If you forgot that, pause them in this cluster, with
both annotations above. If the command is interrupted, run it again.

The exit code is 0 if no Network here has anything left to move, also if the old
cluster has more, 2 if there are changes (without -yes), and 1 after an error.`

const examples = `  samplecrd-controller move -from-cluster-id 5d1e… -A
  samplecrd-controller move -from-cluster-id 5d1e… -A -old-is-stopped -yes
  samplecrd-controller move -from-cluster-id 5d1e… -f dump.yaml -old-is-stopped -yes
`

// The exit codes. They are those of the subcommand plan.
const (
	exitNothing = 0
	exitError   = 1
	exitChanges = 2
)

// Request says what to move, and how.
type Request struct {
	// From is the ID of the old cluster, in the marks as they are now.
	From string
	// OldIsStopped means that no controller with that ID works on the Networks.
	OldIsStopped bool
	// Yes makes the changes. Without it, they are shown.
	Yes bool
	// Workers is how many Networks are moved at the same time. 0 means one after the other.
	Workers int
}

// settings are what the flags and the arguments of the subcommand say.
type settings struct {
	*options.Options
	Request
	networks.Selection
}

// command returns the subcommand, whose own flags set s.
func command(s *settings) options.Command {
	return options.Command{
		Name: "move", Arguments: "-from-cluster-id ID (-f FILE... | [NAME...] [-A]) [flags]", Description: description, Examples: examples,
		Usage: networks.Usage, Shared: networks.SharedFlags,
		Add: func(fs *flag.FlagSet) {
			fs.StringVar(&s.From, "from-cluster-id", "", "The `ID` of the cluster in the marks as they are now. (required)")
			s.AddFlags(fs, "A `file` or a directory with the Networks to move, or - for standard input: manifests, or what the old cluster has.")
			fs.BoolVar(&s.OldIsStopped, "old-is-stopped", false, "No controller with the old ID works on these Networks: it is gone, or it is stopped and stays so.")
			fs.BoolVar(&s.Yes, "yes", false, "Make the changes.")
		},
	}
}

// Run runs the subcommand and returns its exit code.
func Run(ctx context.Context, arguments []string, stdout, stderr io.Writer) int {
	s := &settings{}
	return command(s).Run(ctx, arguments, stdout, stderr, func(ctx context.Context, o *options.Options, names []string) (int, error) {
		s.Options, s.Names = o, names
		return s.run(ctx, stdout, stderr)
	})
}

// complete sets the defaults, and returns the first error in the flags.
func (s *settings) complete() error {
	if s.From == "" {
		return errors.New("-from-cluster-id is required: descriptions in Neutron have it, as samplecrd.k8s.io/owner=ID/UID")
	}
	s.Request.Workers = s.Neutron.Connections
	return s.Complete(s.Options)
}

func (s *settings) run(ctx context.Context, stdout, stderr io.Writer) (int, error) {
	if err := s.complete(); err != nil {
		return exitError, err
	}
	clients, err := kubeclient.Connect(ctx, s.Kubernetes)
	if err != nil {
		return exitError, err
	}
	return s.moveWith(ctx, clients, os.Stdin, stdout, stderr)
}

// moveWith moves with these clients.
func (s *settings) moveWith(ctx context.Context, clients *kubeclient.Clients, stdin io.Reader, stdout, stderr io.Writer) (int, error) {
	targets, err := s.targets(ctx, clients, stdin, stderr)
	if err != nil {
		return exitError, err
	}
	if len(targets) == 0 {
		return exitError, errors.New("there is no Network here: create the Networks of this cluster first; -A looks in all namespaces")
	}
	opened := networks.NewClouds(clients, s.Options)
	defer opened.Close()
	return s.Move(ctx, clients, opened.Of, targets, stdout)
}

// targets returns the Networks to move, as they are in this cluster.
func (s *settings) targets(ctx context.Context, clients *kubeclient.Clients, stdin io.Reader, stderr io.Writer) (targets []Target, err error) {
	if len(s.Files) == 0 {
		found, err := networks.List(ctx, clients.Networks, s.Namespace, s.Names, s.All)
		for _, network := range found {
			targets = append(targets, Target{Network: network})
		}
		return targets, err
	}
	manifests, err := networks.ReadFiles(s.Files, stdin, stderr)
	if err != nil {
		return nil, err
	}
	var missing []error
	seen := sets.New[string]()
	for _, manifest := range manifests {
		var old samplecrdv1.Network
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(manifest.Object, &old); err != nil {
			return nil, fmt.Errorf("%s/%s: %w", manifest.GetNamespace(), manifest.GetName(), err)
		}
		namespace := cmp.Or(old.Namespace, s.Namespace)
		name := namespace + "/" + old.Name
		if seen.Has(name) {
			return nil, fmt.Errorf("%s is in -f twice: give it once", name)
		}
		seen.Insert(name)
		network, err := clients.Networks.SamplecrdV1().Networks(namespace).Get(ctx, old.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			missing = append(missing, fmt.Errorf("%s/%s is not in this cluster: apply its manifest first", namespace, old.Name))
		} else if err != nil {
			return nil, err
		}
		targets = append(targets, Target{network, old})
	}
	return targets, errors.Join(missing...)
}

// ErrNoMarks means that the old cluster has nothing in the clouds of the Networks, so that its ID is a wrong one, or there is nothing
// to move.
var ErrNoMarks = errors.New("no mark has this ID")

// Move prints, and with Yes makes, the changes for each Network. It ends with what none of them takes over. It returns the exit code.
// cloudOf returns the cloud that a Network works in.
func (r Request) Move(ctx context.Context, clients *kubeclient.Clients, cloudOf func(context.Context, *samplecrdv1.Network) (*neutron.Cloud, error), targets []Target, stdout io.Writer) (code int, err error) {
	if r.From == clients.ClusterID {
		return exitError, fmt.Errorf("-from-cluster-id=%s is the ID of this cluster, %s: is the current context that of the new cluster? Only if this cluster itself gets another ID, set -cluster-id to that one, which the controller here must have too", r.From, clients.Host)
	}
	m := &mover{request: r, clients: clients, live: live.NewNetworks(clients.Networks), cloudOf: cloudOf, inventories: map[*neutron.Cloud]inventory{}, unlisted: map[*neutron.Cloud]error{}, here: map[types.UID]bool{}}
	all, err := networks.List(ctx, clients.Networks, "", nil, true)
	if err != nil {
		return exitError, err
	}
	for _, n := range all {
		m.here[n.UID] = true
	}
	pairs := m.pairs(ctx, targets)
	if err := m.checkMarks(pairs); err != nil {
		return exitError, err
	}
	results, err := m.handleAll(ctx, pairs, stdout)
	if err != nil {
		return exitError, err
	}
	counts, claims := map[result]int{}, map[claim]result{}
	for i, p := range pairs {
		counts[results[i]]++
		if p.handover.From.UID != "" {
			claims[claimOf(p.cloud, p.handover.From)] = results[i]
		}
	}
	text, isAgain := m.rest(ctx, pairs, claims)
	_, err = io.WriteString(stdout, text+networks.Summary(len(pairs), counts, moved, planned, unneeded, failed)+"\n")
	switch {
	case err != nil || isAgain || counts[failed] > 0:
		return exitError, err
	case counts[planned] > 0:
		return exitChanges, nil
	}
	return exitNothing, nil
}
