/*
Copyright The samplecrd-controller Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/samplecrd/samplecrd-controller/hack/internal/stack"
)

// mutation breaks the controller.
type mutation struct {
	name, file string
	// edits are pairs of what is there, once, and what stands there instead.
	edits []string
}

var mutations = []mutation{
	{"look-up-by-mark-disabled", "pkg/neutron/cloud.go", []string{
		"found, err := c.client.FindNetworks(ctx, claim.Owner.Mark())",
		"var found []*Network\n\tvar err error",
	}},
	{"finalizer-put-on-late", "controller.go", []string{
		"network, added, err := c.addFinalizerIfNeeded(ctx, network)",
		"added, err := !hasFinalizer(network), error(nil)",
		"	outcome := status.Outcome{Have: have, Subnet: neutron.Current(want, have), Err: err}\n",
		"	if err == nil {\n\t\tif network, _, err = c.addFinalizerIfNeeded(ctx, network); err != nil {\n\t\t\treturn err\n\t\t}\n\t}\n" +
			"	outcome := status.Outcome{Have: have, Subnet: neutron.Current(want, have), Err: err}\n",
	}},
	{"list-errors-dropped", "pkg/neutron/list.go", []string{
		"return nil, wrap(op, err)\n\t\t}\n\t\tall = append(",
		"_ = op\n\t\t\treturn all, nil\n\t\t}\n\t\tall = append(",
	}},
}

// TestOracleFindsFaultWithBrokenControllers shows that the oracle can fail.
func TestOracleFindsFaultWithBrokenControllers(t *testing.T) {
	if os.Getenv("CHAOS_MUTATIONS") == "" {
		t.Skip("CHAOS_MUTATIONS=1 runs it: it takes minutes")
	}
	p, _ := planned(t)
	// What these do wrong does not heal.
	p.patience = 20 * time.Second
	controlPlane := startControlPlane(t)
	for _, m := range mutations {
		t.Run(m.name, func(t *testing.T) {
			found := p.execute(t, controlPlane, m.build(t))
			if len(found) == 0 {
				t.Error("nobody noticed")
			}
			for _, violation := range found {
				t.Log(violation)
			}
		})
	}
}

// build builds the mutant, and leaves the tree as it is.
func (m mutation) build(t *testing.T) string {
	t.Helper()
	dir := outputDir(t)
	binary := filepath.Join(dir, m.name)
	if err := m.buildAs(t.Context(), binary); err != nil {
		t.Fatal(err)
	}
	return binary
}

func (m mutation) buildAs(ctx context.Context, binary string) error {
	root, err := stack.Root()
	if err != nil {
		return err
	}
	original := filepath.Join(root, m.file)
	text, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	mutated := string(text)
	for i := 0; i < len(m.edits); i += 2 {
		if n := strings.Count(mutated, m.edits[i]); n != 1 {
			return fmt.Errorf("%q is %d times in %s: mend the mutation", m.edits[i], n, m.file)
		}
		mutated = strings.Replace(mutated, m.edits[i], m.edits[i+1], 1)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: binary + ".go"}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(binary+".go", []byte(mutated), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(binary+".json", overlay, 0o600); err != nil {
		return err
	}
	return stack.BuildControllerAs(ctx, binary, "-race", "-overlay="+binary+".json")
}
