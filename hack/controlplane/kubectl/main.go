// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubectl is kubectl as released. It is an executable of its own, because in controlplane each call would also
// initialize kube-apiserver and etcd, which takes as long as kubectl itself.
package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // as in the released command
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
)

func main() {
	// -v has to apply before the flags are parsed, too.
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
