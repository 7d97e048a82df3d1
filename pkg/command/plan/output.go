// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/samplecrd/samplecrd-controller/pkg/command/networks"
	"github.com/samplecrd/samplecrd-controller/pkg/neutron"
)

// Action is what the controller would do for a Network.
type Action string

// The actions.
const (
	// ActionNone means that there is nothing to do.
	ActionNone Action = "none"
	// ActionChange means that there are steps, and nothing is known to prevent them.
	ActionChange Action = "change"
	// ActionBlocked means that one of the steps is prevented at the moment.
	ActionBlocked Action = "blocked"
	// ActionPaused means that there are steps, and that the annotation samplecrd.k8s.io/paused forbids
	// them.
	ActionPaused Action = "paused"
	// ActionError means that the controller cannot follow the spec, or that plan could not compute the
	// steps.
	ActionError Action = "error"
)

// NetworkPlan is what the controller would do for one Network: an element of the array that
// -o json prints.
type NetworkPlan struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Action    Action `json:"action"`
	// Steps are in the order in which they would be taken.
	Steps []StepPlan `json:"steps"`
	// Message is the error, or says that the Network is only observed or being deleted.
	Message string `json:"message,omitempty"`
}

// StepPlan is one step.
type StepPlan struct {
	// Type is the kind of step, such as CreateSubnet or UpdateNetwork.
	Type string `json:"type"`
	// Text describes the step, with the values before and after it.
	Text string `json:"text"`
	// BlockedBy says what prevents the step at the moment. The steps after it wait for it.
	BlockedBy string `json:"blockedBy,omitempty"`
	// Interrupts says which traffic or addresses the step interrupts.
	Interrupts string `json:"interrupts,omitempty"`
}

func newNetworkPlan(t target, steps []neutron.PlannedStep, message string, isPaused bool, err error) NetworkPlan {
	plan := NetworkPlan{Namespace: t.namespace, Name: t.name, Action: ActionNone, Steps: []StepPlan{}, Message: message}
	for _, s := range steps {
		plan.Steps = append(plan.Steps, StepPlan{typeOf(s.Step), s.Text, s.Blocked, s.Interrupts})
	}
	isBlocked := slices.ContainsFunc(steps, func(s neutron.PlannedStep) bool { return s.Blocked != "" })
	switch {
	case err != nil:
		plan.Action, plan.Message = ActionError, err.Error()
	case isPaused && len(steps) > 0:
		plan.Action = ActionPaused
	case isBlocked:
		plan.Action = ActionBlocked
	case len(steps) > 0:
		plan.Action = ActionChange
	}
	return plan
}

// typeOf returns the name of the type of a step. The deletion of a network in a removal has none.
func typeOf(step neutron.Step) string {
	if step == nil {
		return "RemoveNetwork"
	}
	return reflect.TypeOf(step).Name()
}

// exitCode returns 1 if there is an error, else 2 if there are changes, else 0.
func exitCode(plans []NetworkPlan) int {
	code := exitNothing
	for _, p := range plans {
		switch p.Action {
		case ActionError:
			return exitError
		case ActionNone:
		default:
			code = exitChanges
		}
	}
	return code
}

// write writes the plans in that format.
func write(w io.Writer, format string, plans []NetworkPlan) error {
	if format == "json" {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(plans)
	}
	counts := map[string]int{}
	for _, p := range plans {
		counts[results[p.Action]]++
		if _, err := io.WriteString(w, p.String()); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(w, networks.Summary(len(plans), counts, results[ActionNone], results[ActionChange], results[ActionBlocked], results[ActionPaused], results[ActionError]))
	return err
}

// String returns the plan as people read it. It ends with a newline.
func (p NetworkPlan) String() string {
	var b strings.Builder
	// A manifest that the API server has not accepted can have any characters.
	fmt.Fprintf(&b, "%s/%s: %s\n", neutron.Visible(p.Namespace), neutron.Visible(p.Name), p.headline())
	for i, s := range p.Steps {
		fmt.Fprintf(&b, "  %d. %s\n", i+1, neutron.Visible(s.Text))
		if s.Interrupts != "" {
			fmt.Fprintf(&b, "     interrupts: %s\n", s.Interrupts)
		}
		if s.BlockedBy != "" {
			fmt.Fprintf(&b, "     blocked: %s\n", s.BlockedBy)
		}
	}
	return b.String()
}

func (p NetworkPlan) headline() string {
	text := map[Action]string{
		ActionNone:    "nothing to do",
		ActionChange:  changes(len(p.Steps)),
		ActionBlocked: changes(len(p.Steps)) + ", blocked",
		ActionPaused:  changes(len(p.Steps)) + ", when the Network is no longer paused",
		ActionError:   "error",
	}[p.Action]
	if p.Action == ActionError && len(p.Steps) > 0 {
		text = "error after " + changes(len(p.Steps))
	}
	if p.Message == "" {
		return text
	}
	lines := strings.Split(p.Message, "\n")
	for i := range lines {
		lines[i] = neutron.Visible(lines[i])
	}
	return text + ": " + strings.Join(lines, "\n")
}

func changes(n int) string { return networks.Count(n, "change") }

// results are what the last line says of the actions.
var results = map[Action]string{
	ActionNone: "with nothing to do", ActionChange: "with changes", ActionBlocked: "blocked", ActionPaused: "paused", ActionError: "with an error",
}
