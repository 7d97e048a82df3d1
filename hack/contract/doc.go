// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package contract checks that the embedded Neutron answers like the real one: requests, and the
// real Neutron's answers, in testdata/answers.txt.
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
//
// # Rows
//
// A row begins with a line "# name [flag]", and has a request on each line that is not indented:
//
//	label: @user METHOD path {body} | Header: value
//
// Only METHOD and path are required. The path is relative to /v2.0 or, if it begins with
// "identity/", to Keystone's /v3. $label is the ID of the object that the request with that label
// created, and $label0, $label1... are the IDs of a bulk create. The label of an
// add_router_interface is the ID of the port. NAME is a name that no other row uses. Rows that
// begin with the same creations, and do not change what was created, share it, with its NAME and labels. The METHOD WALK
// follows a list page by page to its end.
//
// The users are other (of another project), admin, nobody (without a token), forged and revoked (with tokens that are
// refused); without @user, a member of $project. $project, $other and $admin are the projects, $user and $password the
// member's.
//
// Of the last answer, and of those to requests that begin with !, everything is compared; of all
// other answers only the status. The flag is needed by few rows:
//
//	alone   it cannot run in parallel with others, because it affects the whole project
//	paged   it runs on a Neutron whose lists are limited to 3 items
//	whole   all fields of the answers are compared, not only those that clients read
//
// Lines with // before a row are a comment. A new row is written without answers, which -update adds.
//
// The rows in testdata/unrecorded.txt are compared with the embedded Neutron alone. What it answers
// there was written after Neutron's source: nobody has asked the real one yet, or it does not have
// that plug-in. To record a row, move it to testdata/answers.txt.
package contract
