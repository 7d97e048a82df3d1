// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	predicateType = "https://slsa.dev/provenance/v1"
	repository    = "https://github.com/samplecrd/samplecrd-controller"
	// buildType is the page that explains the parameters. builder stands for the person who has
	// the key, and runs this program on a machine of their own.
	buildType = repository + "/blob/main/hack/README.md#releases"
	builder   = repository + "/blob/main/hack/release.sh"
)

// provenance returns the SLSA provenance of all files in SHA256SUMS, as an in-toto
// Statement. It has no build time: the same commit and toolchain give the same statement.
func (r *release) provenance(ctx context.Context) ([]byte, error) {
	subjects, err := readSums(r.out)
	if err != nil {
		return nil, err
	}
	toolchain, err := output(ctx, r.root, []string{"GOFLAGS=", "GOWORK=off"}, "go", "env", "GOVERSION")
	if err != nil {
		return nil, err
	}
	predicate, err := structpb.NewStruct(map[string]any{
		"buildDefinition": map[string]any{
			"buildType": buildType,
			"externalParameters": map[string]any{
				"version": r.version, "image": r.image, "sourceDate": r.time.Format(time.RFC3339),
			},
			"resolvedDependencies": []any{map[string]any{
				"uri": "git+" + repository + "@" + r.commit, "digest": map[string]any{"gitCommit": r.commit},
			}},
		},
		"runDetails": map[string]any{"builder": map[string]any{"id": builder, "version": map[string]any{"go": toolchain}}},
	})
	if err != nil {
		return nil, err
	}
	return marshal(&intoto.Statement{
		Type: intoto.StatementTypeUri, Subject: subjects, PredicateType: predicateType, Predicate: predicate,
	})
}

// marshal returns a message as JSON, without the white space that protojson adds at random.
func marshal(message proto.Message) ([]byte, error) {
	text, err := protojson.Marshal(message)
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	err = json.Compact(&compact, text)
	return compact.Bytes(), err
}

// readSums returns the files in the folder's SHA256SUMS as subjects of a Statement.
func readSums(folder string) (subjects []*intoto.ResourceDescriptor, err error) {
	text, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		subjects = append(subjects, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	return subjects, nil
}

// checkProvenance checks that a statement is the provenance of exactly the files in the
// folder's SHA256SUMS, and returns it in one line.
func checkProvenance(folder string, text []byte) (string, error) {
	var statement intoto.Statement
	if err := protojson.Unmarshal(text, &statement); err != nil {
		return "", err
	}
	if statement.Type != intoto.StatementTypeUri || statement.PredicateType != predicateType {
		return "", fmt.Errorf("it is a %s about %s, not about %s", statement.Type, statement.PredicateType, predicateType)
	}
	subjects, err := readSums(folder)
	if err != nil {
		return "", err
	}
	if !proto.Equal(&intoto.Statement{Subject: subjects}, &intoto.Statement{Subject: statement.Subject}) {
		return "", errors.New("its files are not those of SHA256SUMS")
	}
	predicate, err := marshal(statement.Predicate)
	return string(predicate), err
}
