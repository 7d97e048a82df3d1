// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command mutants shows what the tests notice. It changes the controller in one place, runs the tests on the changed
// code, and records which test fails. A mutant that no test kills is a missing test, or code that is not needed.
//
//	go -C hack run ./mutants                          320 mutants; a run continues where the last one ended
//	go -C hack run ./mutants -summary                 prints what is known so far
//	go -C hack run ./mutants -list                    prints the mutants
//	go -C hack run ./mutants -match 'Cloud.Converge'  only the mutants whose IDs match
//	go -C hack run ./mutants -all                     records every test that kills a mutant, not only the first
//	go -C hack run ./mutants -tests REGEXP            again, those that only the tests with such names have killed
//	go -C hack run ./mutants -broken                  the controllers of broken.go, which are broken by hand
//	go -C hack run ./mutants -broken -stages known,simulation    the same, with the tests that must notice
//
// The results go to hack/_output/mutants. A mutant's ID consists of its function and its source text, not of its line,
// so that it stays when lines move. The same tree has the same mutants: a hash chooses among the candidates, and each
// function has its share. Survivors that nobody has to look at again are in survivors.txt, each with the reason.
//
// Why this is not one of the mutation testers that exist: gremlins 0.6 is well kept and runs on Go 1.26, but its
// mutants are changed operators only. It cannot remove a statement, an operand of a condition, a case or a row of a
// table, or return another error, and these are the mistakes that matter here. It runs either the tests of the mutant's
// own package or all tests of the module, and does not tell which test has killed a mutant. What is here instead is
// 450 lines of go/ast, a runner, and the flag -overlay of the go command, which leaves the tree as it is.
package main
