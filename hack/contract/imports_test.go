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

package contract

// asAdmin creates a network of another project, as it is with these fields.
func asAdmin(fields string) string {
	return `net: @admin POST networks {"network": {"name": "NAME", ` + fields + `}}` + "\n"
}

const (
	external       = `"router:external": true`
	mark           = "samplecrd-owner-22222222-0000-0000-0000-000000000000-0123abc" // of 60 characters
	theirSubnet    = `sub: @admin POST subnets {"subnet": {"network_id": "$net", "ip_version": 4, "cidr": "10.0.0.0/24"}}` + "\n"
	notThere       = "11111111-2222-3333-4444-555555555555"
	importedFields = "&fields=id&fields=name&fields=description&fields=mtu&fields=shared&fields=router%3Aexternal&fields=tags&fields=provider%3Anetwork_type&fields=subnets"
)

// importRows are what the import of networks relies on: marks are tags, and networks of other projects
// are listed by their IDs.
var importRows = []row{
	{name: "imports: a mark is added, again, and removed, twice", script: anyNetwork + "! PUT networks/$net/tags/" + mark + "\n! PUT networks/$net/tags/" + mark +
		"\n! GET networks/$net?fields=tags\n! DELETE networks/$net/tags/" + mark + "\n! DELETE networks/$net/tags/" + mark + "\nGET networks/$net?fields=tags"},
	{name: "imports: tags differ in upper and lower case", script: anyNetwork + "! PUT networks/$net/tags/a\n! PUT networks/$net/tags/A\nGET networks/$net?fields=tags"},
	{name: "imports: tags that change only in upper and lower case", script: anyNetwork + `! PUT networks/$net/tags {"tags": ["Prod", "x"]}` + "\n! PUT networks/$net/tags " + `{"tags": ["prod", "x"]}` + "\n! DELETE networks/$net/tags/PROD\nGET networks/$net?fields=tags"},
	{name: "imports: a mark on a network that does not exist", script: "! PUT networks/" + notThere + "/tags/x\nDELETE networks/" + notThere + "/tags/x"},
	{name: "imports: a mark beside the tags of others", script: anyNetwork + `! PUT networks/$net/tags {"tags": ["b", "a"]}` + "\n! PUT networks/$net/tags/" + mark + "\nGET networks/$net?fields=tags"},
	{name: "imports: a deletion after a mark was added needs the new revision", script: anyNetwork + "! PUT networks/$net/tags/x\nGET networks/$net?fields=revision_number"},
	{name: "imports: others add and remove a tag of a shared network", script: shared + "! PUT networks/$net/tags/a\n! @other PUT networks/$net/tags/x\n! @other DELETE networks/$net/tags/a\nGET networks/$net?fields=tags"},
	{name: "imports: others add a tag to an external network", script: asAdmin(external) + "! PUT networks/$net/tags/x\n@admin GET networks/$net?fields=tags"},
	{name: "imports: others add a tag to a network that they do not see", script: asAdmin(`"shared": false`) + "! PUT networks/$net/tags/x\nDELETE networks/$net/tags/x"},
	{name: "imports: a shared network is listed by its ID", script: asAdmin(`"shared": true`) + theirSubnet + "! GET networks?id=$net" + importedFields + "\nGET subnets?network_id=$net&fields=cidr"},
	{name: "imports: an external network is listed by its ID", script: asAdmin(external) + theirSubnet + "! GET networks?id=$net" + importedFields + "\nGET subnets?network_id=$net&fields=cidr"},
	{name: "imports: a shared external network is listed by its ID", script: asAdmin(external+`, "shared": true`) + theirSubnet + "! GET networks?id=$net" + importedFields + "\nGET subnets?network_id=$net&fields=cidr"},
	{name: "imports: a network that nobody shares is not listed by its ID", script: asAdmin(`"shared": false`) + theirSubnet + "! GET networks?id=$net" + importedFields + "\nGET subnets?network_id=$net&fields=cidr"},
	{name: "imports: several networks are listed by their IDs", script: anyNetwork + `second: POST networks {"network": {"name": "NAME"}}` + "\nGET networks?id=$net&id=" + notThere + "&id=$second&fields=name"},
	{name: "imports: a shared network is not one of the project", script: asAdmin(`"shared": true`) + "GET networks?name=NAME&project_id=$project&fields=name"},
	{name: "imports: others do not change an external network", script: asAdmin(external) + `! PUT networks/$net {"network": {"name": "x"}}` + "\n! DELETE networks/$net\n@admin GET networks/$net?fields=name"},
}
