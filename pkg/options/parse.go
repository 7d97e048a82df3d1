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

package options

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/samplecrd/samplecrd-controller/pkg/version"
)

// Parse returns the Options that the arguments set. If they ask for the help or the version,
// it prints that to out, and done is true.
func Parse(arguments []string, out io.Writer) (o *Options, done bool, err error) {
	o, flags := New()
	err = flags.Parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.PrintHelp(out)
		return nil, true, nil
	case err == nil && o.Version:
		fmt.Fprintf(out, "samplecrd-controller %s, commit %s\n", version.Version, version.Commit)
		return nil, true, nil
	case err == nil:
		err = o.Validate(flags.Args())
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w (-h lists the flags)", err)
	}
	o.Verbosity = flags.Verbosity()
	return o, false, nil
}
