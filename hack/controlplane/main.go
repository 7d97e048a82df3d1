// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command controlplane is a Kubernetes control plane in one executable: etcd,
// kube-apiserver and kube-controller-manager, each as released. The command "up"
// runs them together on loopback. The first argument selects the command.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // CronJob time zones, on machines without a time zone database

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics, as in the real commands
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/internal/protocol"
	"github.com/samplecrd/samplecrd-controller/hack/controlplane/supervisor"
)

const usage = `usage: controlplane up -dir DIR [-fresh]
       controlplane etcd|kube-apiserver|kube-controller-manager [ARGUMENT...]
`

var commands = map[string]func(){
	"up":                       up,
	protocol.Etcd:              func() { etcdmain.Main(os.Args) },
	protocol.APIServer:         func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	protocol.ControllerManager: func() { os.Exit(cli.Run(controllermanager.NewControllerManagerCommand())) },
}

func main() {
	supervisor.DieWithParent()
	if len(os.Args) > 1 {
		if run, ok := commands[os.Args[1]]; ok {
			// The commands read os.Args themselves.
			os.Args = os.Args[1:]
			run()
			return
		}
	}
	fmt.Fprint(os.Stderr, usage)
	os.Exit(2)
}

func up() {
	flags := flag.NewFlagSet("controlplane up", flag.ExitOnError)
	var opts supervisor.Options
	flags.StringVar(&opts.Dir, "dir", "", "folder for the data, the certificates, the logs and the kubeconfig")
	flags.BoolVar(&opts.Fresh, "fresh", false, "remove the files of earlier runs from the folder")
	flags.BoolVar(&opts.Control, "control", false, "read commands from standard input, and stop when it ends (for programs)")
	_ = flags.Parse(os.Args[1:]) // ExitOnError
	if opts.Dir == "" || flags.NArg() > 0 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}

	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := supervisor.Up(ctx, opts); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}
