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

package neutron

// Fields are all that FieldsOf returns.
var Fields = []string{
	fieldNetwork, fieldNetworkName, fieldNetworkMark, fieldSurplusNetwork,
	fieldSubnet, fieldSubnetName, fieldSubnetMark, fieldGateway, fieldSurplusSubnet,
}

const (
	fieldNetwork        = "network"
	fieldNetworkName    = "network name"
	fieldNetworkMark    = "network mark"
	fieldSurplusNetwork = "surplus network"
	fieldSubnet         = "subnet"
	fieldSubnetName     = "subnet name"
	fieldSubnetMark     = "subnet mark"
	fieldGateway        = "gateway"
	fieldSurplusSubnet  = "surplus subnet"
)

// FieldsOf names what a step puts right: what was missing, was another, or was too many.
func FieldsOf(step Step) []string {
	switch step := step.(type) {
	case CreateNetwork:
		return []string{fieldNetwork}
	case UpdateNetwork:
		return those(map[string]bool{fieldNetworkName: step.Name != "", fieldNetworkMark: step.Description != ""})
	case DeleteNetwork:
		return []string{fieldSurplusNetwork}
	case CreateSubnet:
		return []string{fieldSubnet}
	case UpdateSubnet:
		return those(map[string]bool{fieldSubnetName: step.Name != "", fieldSubnetMark: step.Description != "", fieldGateway: step.SetGateway})
	case DeleteSubnet:
		return []string{fieldSurplusSubnet}
	}
	return nil
}

// those returns the keys whose value is true, in no order.
func those(fields map[string]bool) (set []string) {
	for field, isSet := range fields {
		if isSet {
			set = append(set, field)
		}
	}
	return set
}
