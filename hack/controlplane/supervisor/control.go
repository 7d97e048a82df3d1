// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/samplecrd/samplecrd-controller/hack/controlplane/internal/protocol"
)

// control is the connection to the program that started the supervisor. The zero value
// means that there is none.
type control struct {
	lines   chan string
	answers *json.Encoder
}

// readControl reads commands, one per line. When the input ends, the program has ended, and
// readControl calls cancel.
func readControl(r io.Reader, w io.Writer, cancel context.CancelFunc) control {
	c := control{lines: make(chan string), answers: json.NewEncoder(w)}
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(r); lines.Scan(); {
			c.lines <- lines.Text()
		}
	}()
	return c
}

// answer sends the result of the start or of the last command.
func (c control) answer(err error) {
	if c.answers == nil {
		return
	}
	var a protocol.Answer
	if err != nil {
		a.Error = err.Error()
	}
	_ = c.answers.Encode(a) // if the program has ended, standard input ends too
}

// fail reports that the control plane is about to end.
func (c control) fail(err error) {
	if c.answers == nil {
		return
	}
	_ = c.answers.Encode(protocol.Answer{Error: err.Error(), Fatal: true})
}

// obey executes a command: a verb and the name of a component.
func (s *supervisor) obey(ctx context.Context, command string) error {
	verb, name, _ := strings.Cut(command, " ")
	if s.arguments[name] == nil {
		return fmt.Errorf("%s: unknown component", command)
	}
	switch verb {
	case protocol.Start:
		return s.startReady(ctx, name)
	case protocol.Stop:
		s.stop(name, syscall.SIGTERM)
	case protocol.Kill:
		s.stop(name, syscall.SIGKILL)
	default:
		return fmt.Errorf("%s: unknown command", command)
	}
	return nil
}
