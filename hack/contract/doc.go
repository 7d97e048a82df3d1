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

// Package contract holds the embedded Neutron to what the real one does: one table of
// requests, and what the real Neutron answered to each, recorded in testdata/answers.txt.
//
//	go -C hack test -timeout 30m ./contract/...                     both against the recording
//	go -C hack test -timeout 30m ./contract/... -run Real -update   record anew
//
// With -run 'Real/rows/some_name' one row only is recorded, and the others stay. The real
// one is brought up by hack/neutron, and takes two to four minutes. Where it cannot be had its
// test is skipped, but with CI=true in the environment that is a failure; -short skips it
// too. Where the two differ, the embedded one is wrong.
package contract
