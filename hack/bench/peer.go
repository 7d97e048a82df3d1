// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// description is the file that describes a controller for the scenario beside. The values of
// Command, Env, Setup and Objects are templates of the package text/template. They have the
// function quote, which makes a string in double quotes, with the fields of place; Objects has
// those of item.
type description struct {
	// Name is the controller's name in the report.
	Name string `json:"name"`
	// Command is the controller's executable and its arguments. The executable cannot be a script.
	// It is a path relative to the file, or a name that is looked up in PATH.
	Command []string `json:"command"`
	// Env are environment variables in addition to those of the benchmark.
	Env map[string]string `json:"env"`
	// Manifests are files and directories with the controller's CustomResourceDefinitions, and what
	// else kubectl is to apply first. They are paths relative to the file.
	Manifests []string `json:"manifests"`
	// Setup has more objects for kubectl to apply, such as a Secret with the credentials.
	Setup string `json:"setup"`
	// Started is the text in the controller's log from which on it works.
	Started string `json:"started"`
	// Objects are the one or more objects that make one network with a subnet.
	Objects string `json:"objects"`
	// Condition is the type of the status condition that is True when an object is ready.
	Condition string `json:"condition"`
}

// place has the fields for the templates of a description, except Objects.
type place struct {
	// Controller is the path of this repository's controller.
	Controller string
	// Kubeconfig is the path of an administrator's kubeconfig.
	Kubeconfig string
	// CloudsYAML is the path of clouds.yaml, and CloudsYAMLContent its content.
	CloudsYAML, CloudsYAMLContent string
	// Cloud is the name of the entry in clouds.yaml.
	Cloud string
}

// item has the fields for the template Objects.
type item struct {
	// Number counts the networks from 0.
	Number int
	// Name is the name for the objects. CIDR and Gateway are for the subnet. No two items have the same.
	Name, CIDR, Gateway string
	// Cloud is the name of the entry in clouds.yaml.
	Cloud string
}

// peer is a controller of the scenario beside.
type peer struct {
	description
	// dir is the directory of the description.
	dir string
}

// readPeers reads the descriptions in these files, which are separated by commas.
func readPeers(files string) (peers []*peer, err error) {
	for file := range strings.SplitSeq(files, ",") {
		p, err := readPeer(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, other := range peers {
			if other.Name == p.Name {
				return nil, fmt.Errorf("%s: name: %q is also the name of another controller", file, p.Name)
			}
		}
		peers = append(peers, p)
	}
	return peers, nil
}

func readPeer(file string) (*peer, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, errors.Unwrap(err) // without the path
	}
	p := &peer{}
	if err := yaml.UnmarshalStrict(content, &p.description); err != nil {
		return nil, err
	}
	if p.dir, err = filepath.Abs(filepath.Dir(file)); err != nil {
		return nil, err
	}
	return p, p.validate()
}

// validate also executes the templates, with example values.
func (p *peer) validate() error {
	for field, missing := range map[string]bool{
		"name": p.Name == "", "command": len(p.Command) == 0, "started": p.Started == "", "objects": p.Objects == "", "condition": p.Condition == "",
	} {
		if missing {
			return fmt.Errorf("%s: must be set", field)
		}
	}
	example := place{Controller: os.Args[0], Kubeconfig: "kubeconfig", CloudsYAML: "clouds.yaml", CloudsYAMLContent: "clouds: {}", Cloud: "cloud"}
	if _, err := p.command(example); err != nil {
		return err
	}
	if _, err := p.env(example); err != nil {
		return err
	}
	if _, err := p.setup(example); err != nil {
		return err
	}
	for _, path := range p.manifests() {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("manifests: %w", err)
		}
	}
	return p.validateObjects()
}

func (p *peer) validateObjects() error {
	first, err := p.objects(0)
	if err != nil {
		return err
	}
	second, err := p.objects(1)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, object := range append(first, second...) {
		if object.GetAPIVersion() == "" || object.GetKind() == "" || object.GetName() == "" {
			return errors.New("objects: each must have apiVersion, kind and metadata.name")
		}
		if seen[keyOf(object)] {
			return fmt.Errorf("objects: more than one is %s: use {{.Name}} or {{.Number}} in the name", keyOf(object))
		}
		seen[keyOf(object)] = true
	}
	return nil
}

// keyOf returns the key of an object among all of a run.
func keyOf(object *unstructured.Unstructured) string {
	kind := object.GroupVersionKind().GroupKind()
	return kind.String() + " " + cache.MetaObjectToName(object).String()
}

// command returns the absolute path of the executable, and its arguments.
func (p *peer) command(at place) ([]string, error) {
	var command []string
	for _, text := range p.Command {
		word, err := expand("command", text, at)
		if err != nil {
			return nil, err
		}
		command = append(command, word)
	}
	if strings.Contains(command[0], "/") {
		command[0] = p.path(command[0])
	}
	executable, err := exec.LookPath(command[0])
	if err != nil {
		return nil, fmt.Errorf("command: %w", err)
	}
	command[0], err = filepath.Abs(executable)
	return command, err
}

// env returns the environment variables as NAME=VALUE.
func (p *peer) env(at place) (env []string, err error) {
	for name, text := range p.Env {
		value, err := expand("env", text, at)
		if err != nil {
			return nil, err
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// setup returns the manifest for kubectl; "" if there is none.
func (p *peer) setup(at place) (string, error) { return expand("setup", p.Setup, at) }

func (p *peer) manifests() (paths []string) {
	for _, path := range p.Manifests {
		paths = append(paths, p.path(path))
	}
	return paths
}

func (p *peer) path(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(p.dir, path)
}

// objects returns the objects of the network with a number.
func (p *peer) objects(number int) (objects []*unstructured.Unstructured, err error) {
	text, err := expand("objects", p.Objects, item{Number: number, Name: name(number), CIDR: cidr(number), Gateway: gateway(number, 1), Cloud: stack.Cloud})
	if err != nil {
		return nil, err
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("objects: %w", err)
		}
		if len(object.Object) > 0 { // not an empty document
			objects = append(objects, object)
		}
	}
}

// expand executes the template in a field of a description.
func expand(field, text string, values any) (string, error) {
	t, err := template.New(field).Funcs(template.FuncMap{"quote": quote}).Parse(text)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, values); err != nil {
		return "", err
	}
	return out.String(), nil
}

// quote returns a string of JSON, which is also one of YAML.
func quote(text string) (string, error) {
	quoted, err := json.Marshal(text)
	return string(quoted), err
}
