// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubelet is the kubelet and the kube-scheduler in one executable, each as
// released. Together with the control plane they run Pods.
//
// The first argument selects the command.
package main

import (
	"context"
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics, as in the real commands
	_ "k8s.io/component-base/metrics/prometheus/version"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	command := ""
	if len(os.Args) > 1 {
		command = os.Args[1]
		// The commands read os.Args themselves.
		os.Args = os.Args[1:]
	}
	switch command {
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	}
	fmt.Fprintln(os.Stderr, "usage: kubelet kubelet|kube-scheduler [ARGUMENT...]")
	os.Exit(2)
}
