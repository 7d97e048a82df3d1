// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// findNeutron is the operation of errors about Keystone's catalog.
const findNeutron = "find Neutron in Keystone's catalog"

// Place is where the networks of a Client are.
type Place struct {
	// Project is the ID of the project. Credentials without one are refused: they see the networks of all projects.
	Project string
	// Region is the region of the endpoint in use, whether the credentials name it or not; "" if
	// Keystone's catalog has no region for it.
	Region string
}

// String returns the project and the region as a condition shows them.
func (p Place) String() string {
	if p.Region == "" {
		return "project " + strconv.Quote(p.Project)
	}
	return "project " + strconv.Quote(p.Project) + " in region " + strconv.Quote(p.Region)
}

// placeOf returns the place of an authenticated provider and of the endpoint that gophercloud
// chooses with these options, and whether the catalog has Neutron in no other region. It fails
// if the choice between several regions would be left to the order of the catalog: an operator
// who adds a region would move the controller there.
func placeOf(provider *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts) (place Place, onlyRegion bool, err error) {
	result, ok := provider.GetAuthResult().(interface {
		ExtractProject() (*tokens.Project, error)
		ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
	})
	if !ok {
		return Place{}, false, &Error{Op: authenticate, Reason: Unauthenticated, Message: "auth_url leads to version 2.0 of Keystone's API; only version 3 is supported"}
	}
	project, projectErr := result.ExtractProject()
	catalog, catalogErr := result.ExtractServiceCatalog()
	if projectErr != nil || catalogErr != nil {
		return Place{}, false, notKeystone()
	}
	if project == nil || project.ID == "" {
		return Place{}, false, &Error{Op: authenticate, Reason: Unauthenticated, Message: "the credentials are for no project: set project_id or project_name in clouds.yaml, or OS_PROJECT_ID"}
	}
	place.Project = project.ID
	regions := regionsOf(catalog, endpoint)
	if len(regions) > 1 {
		return Place{}, false, &Error{Op: findNeutron, Reason: Unauthenticated, Message: Printable(fmt.Sprintf(
			"it is in several regions: set region_name in clouds.yaml, or OS_REGION_NAME, to one of %s", quotedList(regions)))}
	}
	if len(regions) == 1 {
		place.Region = regions[0]
	}
	if !validID(place.Project) || place.Region != Printable(place.Region) {
		return Place{}, false, notKeystone()
	}
	endpoint.Region = ""
	return place, len(regionsOf(catalog, endpoint)) == 1, nil
}

func notKeystone() error {
	return &Error{Op: authenticate, Reason: Unavailable, Message: "the answer is not from Keystone"}
}

// regionsOf returns the regions of all endpoints among which gophercloud chooses with these
// options, each region once and in alphabetical order.
func regionsOf(catalog *tokens.ServiceCatalog, endpoint gophercloud.EndpointOpts) []string {
	endpoint.ApplyDefaults("network")
	var regions []string
	for _, service := range catalog.Entries {
		if !slices.Contains(endpoint.Types(), service.Type) || endpoint.Name != "" && service.Name != endpoint.Name {
			continue
		}
		for _, e := range service.Endpoints {
			isNamed := endpoint.Region == "" || e.Region == endpoint.Region || e.RegionID == endpoint.Region
			if isNamed && gophercloud.Availability(e.Interface) == endpoint.Availability {
				regions = append(regions, cmp.Or(e.RegionID, e.Region))
			}
		}
	}
	slices.Sort(regions)
	return slices.Compact(regions)
}

func quotedList(texts []string) string {
	var quoted []string
	for _, text := range texts {
		quoted = append(quoted, strconv.Quote(text))
	}
	return strings.Join(quoted, ", ")
}
