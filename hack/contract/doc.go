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

// Package contract checks that the embedded Neutron answers like the real one: a table of
// requests, and the real Neutron's answers, which are recorded in testdata/answers.txt.
//
//	go -C hack test -timeout 30m ./contract/...                     compare both with the recording
//	go -C hack test -timeout 30m ./contract/... -run Real -all      compare each row with the real Neutron
//	go -C hack test -timeout 30m ./contract/... -run Real -update   record again
//
// With -run 'Real/rows/some_name' only one row is recorded, and the others do not change.
// Neutron takes a tenth of a second of CPU time for a request, and minutes for all rows. While
// its packages are those of the recording (testdata/verified.txt), it is asked for one row of
// three. If the packages are not available, its test is skipped; with CI=true in the environment
// it fails instead. -short skips it too. Where the two differ, the embedded one is wrong.
package contract
