// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// Keystone can lock an account after some wrong passwords, and counts them until one is right,
// however long that takes. PCI DSS asks for a limit of six. With these numbers, two processes, of
// which one takes over from the other, make at most five attempts in an hour.
const (
	// quickAttempts is how many log-ins with the same credentials follow each other after
	// shortHold. They are for a Keystone that refuses right credentials for a moment.
	quickAttempts = 2
	// shortHold is also how often the Observer looks whether the credentials have changed.
	shortHold = 20 * time.Second
	longHold  = 30 * time.Minute
)

// refusedCredentials are credentials that were refused. They are not tried again for a while,
// unless they change.
type refusedCredentials struct {
	config Config // the one with these credentials
	err    *Error // why they were refused; nil if they were not
	// attempts is how often Keystone has refused them since it accepted any.
	attempts int
	until    time.Time
}

// check returns an error while these credentials must not be tried.
func (r *refusedCredentials) check(config Config) error {
	if !config.sameCredentials(r.config) {
		*r = refusedCredentials{config: config}
	}
	wait := time.Until(r.until)
	if r.err == nil || wait <= 0 {
		return nil
	}
	held := *r.err
	held.RetryAfter = wait
	return &held
}

// refuse records why the credentials of the last check were refused.
func (r *refusedCredentials) refuse(ctx context.Context, err *Error) {
	hold := shortHold
	if r.attempts >= quickAttempts {
		hold = longHold
		klog.FromContext(ctx).Info("Keystone refuses the credentials again and again; the same ones are tried again later, and others at once", "after", hold, "err", err)
	}
	r.err, r.until = err, time.Now().Add(hold)
}
