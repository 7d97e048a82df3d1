// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/klog/v2"
)

// Flags of the controller that subcommands have too.
var (
	// KubernetesFlags say how to reach Kubernetes.
	KubernetesFlags = []string{"kubeconfig", "master"}
	// NeutronFlags say how to reach Neutron.
	NeutronFlags = []string{"cloud", "neutron-timeout", "neutron-qps"}
)

// Command describes a subcommand. Each has the flags -namespace, with the short form -n, and -v.
type Command struct {
	// Name is its name, and Arguments what follows the name in its usage.
	Name, Arguments string
	// Description says what it does, in whole sentences. It ends without a newline.
	Description string
	// Examples are command lines, each with a newline at its end.
	Examples string
	// Usage has the usage of -namespace, and of other flags that mean something special here.
	Usage map[string]string
	// Shared are the names of other flags of the controller that it has too.
	Shared []string
	// Add adds its own flags; nil if it has none.
	Add func(*flag.FlagSet)
}

// commandUsage has the usage of flags that work differently in subcommands.
var commandUsage = map[string]string{
	"kubeconfig":  "The kubeconfig `file` of the cluster. (default $KUBECONFIG or ~/.kube/config; in a pod without these: its service account)",
	"cloud":       "The `name` of the entry in clouds.yaml. (default $OS_CLOUD, or the other OS_* variables)",
	"cluster-id":  "The `ID` that marks this cluster's networks in Neutron: the one that the controller has. (default the UID of the namespace kube-system)",
	"neutron-qps": "The average `number` of requests per second to Neutron. 0 means no limit. (default 0)",
	"v":           "The `verbosity` of the log on standard error. 6 and more: also requests to Kubernetes.",
}

// Parse returns the Options that the flags set, and the other arguments, which can be before,
// between and after the flags. If the arguments ask for the help, it prints that to out, and done
// is true.
func (c Command) Parse(arguments []string, out io.Writer) (o *Options, others []string, done bool, err error) {
	o, flags := c.flags()
	others, err = flags.parseMixed(arguments)
	if errors.Is(err, flag.ErrHelp) {
		flags.PrintHelp(out)
		return nil, nil, true, nil
	}
	if err == nil {
		err = o.validateClients()
	}
	if err != nil {
		return nil, nil, false, fmt.Errorf("%w (%s -h lists the flags)", err, c.Name)
	}
	o.setCommon()
	o.Kubernetes.LoadingRules = true
	return o, others, false, nil
}

// Run parses the arguments, and calls run unless they ask for the help. It prints the error, and returns the exit code.
func (c Command) Run(ctx context.Context, arguments []string, stdout, stderr io.Writer, run func(ctx context.Context, o *Options, others []string) (code int, err error)) int {
	o, others, done, err := c.Parse(arguments, stdout)
	if done {
		return 0
	}
	code := 0
	if err == nil {
		code, err = run(klog.NewContext(ctx, o.Logging.Text(stderr)), o, others)
	}
	if err != nil {
		fmt.Fprintf(stderr, "samplecrd-controller %s: %v\n", c.Name, err)
		return 1
	}
	return code
}

// flags returns Options with the controller's defaults, and the flags of the subcommand that set
// them.
func (c Command) flags() (*Options, *Flags) {
	o, all := New()
	flags := newFlags(c.Name, fmt.Sprintf("Usage:\n  samplecrd-controller %s %s\n\n%s\n\n", c.Name, c.Arguments, c.Description))
	if c.Examples != "" {
		flags.examples = "Examples:\n" + c.Examples
	}
	flags.add("Flags", func(fs *flag.FlagSet) {
		fs.StringVar(&o.Namespace, "namespace", "", c.Usage["namespace"])
		fs.StringVar(&o.Namespace, "n", "", "Short for -`namespace`.")
		for _, name := range append(slices.Clone(c.Shared), "v") {
			f := all.Lookup(name)
			fs.Var(f.Value, f.Name, cmp.Or(c.Usage[name], commandUsage[name], f.Usage))
		}
		if c.Add != nil {
			c.Add(fs)
		}
	})
	return o, flags
}

// parseMixed parses flags that are mixed with other arguments, which it returns. All that follows
// -- is no flag.
func (f *Flags) parseMixed(arguments []string) (others []string, err error) {
	for {
		if err := f.Parse(arguments); err != nil {
			return nil, err
		}
		rest := f.Args()
		if parsed := len(arguments) - len(rest); parsed > 0 && arguments[parsed-1] == "--" || len(rest) == 0 {
			return append(others, rest...), nil
		}
		others, arguments = append(others, rest[0]), rest[1:]
	}
}

// maxTypos is how many letters of a word may be wrong for Nearest.
const maxTypos = 2

// Nearest returns the word that a mistyped one probably means: one that begins with it, or that
// has few other letters. It returns "" if there is none.
func Nearest(mistyped string, words []string) string {
	mistyped = strings.ToLower(mistyped)
	nearest, least := "", min(maxTypos, len(mistyped)/2)+1
	for _, word := range words {
		distance := editDistance(mistyped, word)
		if len(mistyped) > maxTypos && strings.HasPrefix(word, mistyped) {
			distance = min(distance, maxTypos)
		}
		if distance < least {
			nearest, least = word, distance
		}
	}
	return nearest
}

// editDistance returns how many letters must be inserted, removed, replaced, or swapped with their
// neighbour to make b from a: the restricted Damerau-Levenshtein distance.
func editDistance(a, b string) int {
	d := make([][]int, len(a)+1) // of the first i letters of a, and the first j of b
	for i := range d {
		d[i] = make([]int, len(b)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+1)
			if a[i-1] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-1][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(a)][len(b)]
}
