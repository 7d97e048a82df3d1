// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	typed "github.com/samplecrd/samplecrd-controller/pkg/generated/clientset/versioned/typed/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/restapi"
)

// An Act is something that a user, a stranger or a fault does at a moment of the simulation. Each one stands alone, and
// does nothing if what it is about does not exist: so acts can be taken out of a plan.
type Act struct {
	At   time.Duration
	Name string
	// Cluster is the number of the cluster, and Slot that of the Network there.
	Cluster, Slot int
	// Seed decides its details.
	Seed uint64
}

func (a Act) String() string {
	return fmt.Sprintf("%s %s (%d, %d, %d)", a.At, a.Name, a.Cluster, a.Slot, a.Seed)
}

// kinds of acts, by their names. The weight is how often one is chosen.
var kinds = map[string]struct {
	weight int
	do     func(*World, *slot, *rand.Rand)
}{
	"create":              {10, (*World).create},
	"delete":              {6, (*World).delete},
	"create again":        {3, (*World).recreate},
	"change the subnet":   {8, editSpec(changeSubnet)},
	"change the pool":     {8, editSpec(changePool)},
	"change the gateway":  {8, editSpec(changeGateway)},
	"change fields":       {8, editSpec(changeFields)},
	"change the router":   {12, editSpec(changeRouter)},
	"change the sharing":  {6, edit(changeSharing)},
	"change the routes":   {8, editSpec(changeRoutes)},
	"change everything":   {3, editSpec(changeEverything)},
	"change the policy":   {3, edit(changePolicy)},
	"pause":               {2, annotate(samplecrdv1.AnnotationPaused, "true")},
	"pause after an edit": {3, (*World).pauseAfterEdit},
	"resume":              {4, annotate(samplecrdv1.AnnotationPaused, "")},
	"request a reconcile": {2, (*World).requestReconcile},
	"label": {2, edit(func(w *World, s *slot, r *rand.Rand, n *samplecrdv1.Network) {
		n.Labels = map[string]string{"team": fmt.Sprint(r.IntN(9))}
	})},

	"create an import":           {6, onImport((*World).create)},
	"change an import":           {10, onImport(edit(changeImport))},
	"delete an import":           {3, onImport((*World).delete)},
	"tags of others":             {3, onImport((*World).changeTags)},
	"an import is gone":          {1, onImport((*World).deleteLegacy)},
	"declare for a Deployment":   {6, (*World).declare},
	"delete a Deployment":        {2, (*World).deleteDeployment},
	"change a Secret":            {3, (*World).changeSecret},
	"a Secret changes meanwhile": {12, (*World).changeSecretMeanwhile},
	"a cloud is forbidden":       {2, (*World).forbidCloud},
	"delete a namespace":         {2, (*World).deleteNamespace},
	"remove a finalizer":         {2, (*World).removeFinalizer},
	"a finalizer is too late":    {3, (*World).deleteAtOnce},
	"an import's is too late":    {3, onImport((*World).deleteAtOnce)},
	"remove a status":            {3, (*World).removeStatus},

	"a similar network":      {4, (*World).addSimilar},
	"a port":                 {4, (*World).addPort},
	"ports leave":            {3, (*World).removePorts},
	"a subnet of a stranger": {2, (*World).addSubnet},
	"another router":         {2, (*World).addInterface},
	"drift":                  {10, (*World).drift},
	"a detachment":           {3, (*World).detach},
	"a deletion by hand":     {2, (*World).deleteByHand},
	"shared by others":       {4, (*World).shareByOthers},
	"a port of others":       {3, (*World).addPortOfOthers},
	"no longer shared":       {3, (*World).unshareByHand},
	"switched off":           {2, (*World).switchOff},
	"switched on":            {2, (*World).switchOn},

	"Neutron is away":          {2, (*World).takeNeutronAway},
	"Neutron is unreliable":    {4, (*World).spoilNeutron},
	"Neutron is slow":          {2, (*World).slowNeutron},
	"Neutron lacks a list":     {2, (*World).lackList},
	"tokens are revoked":       {2, func(w *World, _ *slot, _ *rand.Rand) { w.cloud.RevokeTokens() }},
	"Kubernetes is away":       {2, (*World).takeKubernetesAway},
	"Kubernetes is unreliable": {4, (*World).spoilKubernetes},
	"watches break":            {2, func(w *World, _ *slot, _ *rand.Rand) { w.api.BreakWatches() }},
	"watches expire":           {2, func(w *World, _ *slot, _ *rand.Rand) { w.api.Expire(); w.api.BreakWatches() }},
	"watches are late":         {3, (*World).delayWatches},
	"the leader is killed":     {3, func(w *World, _ *slot, _ *rand.Rand) { w.killProcess(w.leader()) }},
	"a replica is killed":      {2, func(w *World, _ *slot, r *rand.Rand) { w.killProcess(w.replicas[r.IntN(len(w.replicas))]) }},
	"killed at a request":      {4, (*World).killLater},
	"the leader is suspended":  {2, (*World).suspend},
	"a backup is taken":        {3, (*World).backUp},
	"a backup is restored":     {2, (*World).restore},
	"another cluster ID":       {1, (*World).changeClusterID},
	toTheNeighbour:             {0, (*World).transfer}, // see NewPlan
	"the leader is stopped":    {2, func(w *World, _ *slot, _ *rand.Rand) { w.stopProcess(w.leader()) }},
}

// names of the kinds, each as often as its weight.
var names = func() (names []string) {
	for name, kind := range kinds {
		for range kind.weight {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}()

const (
	slots   = 30
	trouble = 10 * time.Minute
	// acts is how many acts a plan has for the first cluster, besides the first creations, and few for its neighbour.
	acts, few = 150, 20
	// transfers is how many Networks are to be moved to the neighbour, if any are.
	transfers      = 8
	toTheNeighbour = "move to the neighbour"
)

// hasNeighbour reports whether anything works in the second cluster.
func hasNeighbour(seed uint64) bool { return seed%3 == 0 || hasTwins(seed) }

// hasTwins reports whether both clusters have the same ID by mistake.
func hasTwins(seed uint64) bool { return seed%5 == 0 }

// anew lists what makes another process the leader, or lets it open a cloud again. To that, all networks of a twin look like its
// own orphans, as the documentation says.
var anew = []string{
	"change a Secret", "a Secret changes meanwhile", "delete a namespace",
	"the leader is killed", "a replica is killed", "killed at a request", "the leader is stopped", "the leader is suspended",
	"Kubernetes is away", "Kubernetes is unreliable", "a backup is restored", "another cluster ID",
}

// hasTransfers reports whether Networks of the first cluster are moved to the second one while the controllers of both work.
func hasTransfers(seed uint64) bool { return seed%6 == 3 && !hasTwins(seed) }

// apart lists what does not happen then: a pause that a restore takes back, requests of a process that goes on after another one has
// seen the pause, and another ID in the middle.
var apart = []string{"a backup is restored", "the leader is suspended", "another cluster ID"}

// NewPlan returns what happens in the simulation with that seed.
func NewPlan(seed uint64) (plan []Act) {
	r := seeded(seed, "plan", 0)
	add := func(name string, cluster, slot int, within time.Duration) {
		if (!hasTwins(seed) || !slices.Contains(anew, name)) && (!hasTransfers(seed) || !slices.Contains(apart, name)) {
			plan = append(plan, Act{At: time.Duration(r.Int64N(int64(within))), Name: name, Cluster: cluster, Slot: slot, Seed: r.Uint64()})
		}
	}
	for i := range slots {
		add("create", 0, i, trouble/4)
	}
	for range acts {
		add(names[r.IntN(len(names))], 0, r.IntN(slots), trouble)
	}
	for range few {
		if !hasNeighbour(seed) {
			break
		}
		slot := r.IntN(slots)
		add("create", 1, slot, trouble/2)
		add(names[r.IntN(len(names))], 1, slot, trouble)
	}
	for range transfers {
		if hasTransfers(seed) {
			add(toTheNeighbour, 0, r.IntN(slots), trouble)
		}
	}
	slices.SortFunc(plan, func(a, b Act) int { return cmp.Compare(a.At, b.At) })
	return plan
}

// slot is the name of a Network. Each has address ranges of its own, so that those at one router do not overlap.
type slot struct {
	index           int
	namespace, name string
	imports         bool
	// isMoving says that the Network moves to the neighbour, or has done so: users leave it alone.
	isMoving bool
}

// home is the namespace of all Networks that use the controller's own credentials.
const home = "default"

// newSlot returns that slot of a cluster: one of six is for imports, and another one of a tenant.
func newSlot(cluster, i int) *slot {
	s := &slot{index: 2 + i + 64*cluster, namespace: home, name: fmt.Sprintf("net-%d", i+2)} // 2 and 3 are a pair
	switch i % 12 {
	case 6, 7: // both of a pair
		s.imports = true
	case 10, 11:
		s.namespace = tenants[i%len(tenants)]
	}
	return s
}

// onImport returns the act for one of the slots with an import.
func onImport(act func(*World, *slot, *rand.Rand)) func(*World, *slot, *rand.Rand) {
	return func(w *World, s *slot, r *rand.Rand) {
		pair := w.slots[6:8]
		if r.IntN(2) == 0 {
			pair = w.slots[18:20]
		}
		act(w, pair[s.index%2], r)
	}
}

// get returns the Network of the slot; nil if there is none.
func (w *World) get(s *slot) *samplecrdv1.Network {
	n, err := w.networks(s).Get(w.ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return nil // it is not found: nothing spoils the requests of users
	}
	return n
}

func (w *World) networks(s *slot) typed.NetworkInterface {
	return w.client.SamplecrdV1().Networks(s.namespace)
}

func (w *World) create(s *slot, r *rand.Rand) {
	if s.isMoving {
		return
	}
	n := &samplecrdv1.Network{ObjectMeta: metav1.ObjectMeta{Name: s.name}}
	n.Spec = randomSpec(w, s, r)
	if s.imports {
		n.Spec = importSpec(w, s, r)
	}
	_, _ = w.networks(s).Create(w.ctx, n, metav1.CreateOptions{}) // perhaps it exists
}

func (w *World) delete(s *slot, _ *rand.Rand) {
	_ = w.networks(s).Delete(w.ctx, s.name, metav1.DeleteOptions{}) // perhaps it does not exist
}

func (w *World) recreate(s *slot, r *rand.Rand) {
	w.delete(s, r)
	w.after(time.Duration(r.IntN(20))*time.Second, func() { w.create(s, r) })
}

// edit returns the act of a user who changes the Network, if it exists.
func edit(change func(*World, *slot, *rand.Rand, *samplecrdv1.Network)) func(*World, *slot, *rand.Rand) {
	return func(w *World, s *slot, r *rand.Rand) {
		if n := w.get(s); n != nil {
			spec := n.Spec.DeepCopy()
			change(w, s, r, n)
			if n.DeletionTimestamp != nil && n.Spec.DeletionPolicy == spec.DeletionPolicy {
				n.Spec = *spec // nobody changes anything else then
			}
			w.update(n)
		}
	}
}

// editSpec is edit for a change of the spec. One that imports its network has changes of its own.
func editSpec(change func(*World, *slot, *rand.Rand, *samplecrdv1.Network)) func(*World, *slot, *rand.Rand) {
	return edit(func(w *World, s *slot, r *rand.Rand, n *samplecrdv1.Network) {
		if s.imports {
			changeImport(w, s, r, n)
		} else {
			change(w, s, r, n)
		}
	})
}

// update stores what a user wants. Nobody was faster: the Network was read at the same moment.
func (w *World) update(n *samplecrdv1.Network) {
	if _, err := w.client.SamplecrdV1().Networks(n.Namespace).Update(w.ctx, n, metav1.UpdateOptions{}); err != nil {
		w.log("the edit of %s is refused: %v", n.Name, err)
	}
}

func annotate(key, value string) func(*World, *slot, *rand.Rand) {
	return edit(func(_ *World, _ *slot, _ *rand.Rand, n *samplecrdv1.Network) {
		delete(n.Annotations, key)
		if value != "" {
			metav1.SetMetaDataAnnotation(&n.ObjectMeta, key, value)
		}
	})
}

// pauseAfterEdit changes a Network, and pauses it while a controller acts on the change.
func (w *World) pauseAfterEdit(s *slot, r *rand.Rand) {
	change := []func(*World, *slot, *rand.Rand, *samplecrdv1.Network){changeSubnet, changeRouter}[r.IntN(2)]
	editSpec(change)(w, s, r)
	time.Sleep(between(r, 0, 200*time.Millisecond))
	annotate(samplecrdv1.AnnotationPaused, "true")(w, s, r)
}

// removeFinalizer removes the finalizer by hand. What the Network had may be left from then on.
func (w *World) removeFinalizer(s *slot, _ *rand.Rand) {
	if n := w.get(s); n != nil && len(n.Finalizers) > 0 {
		w.left[string(n.UID)] = true
		n.Finalizers = nil
		w.update(n)
	}
}

// deleteAtOnce deletes a Network that has no finalizer, and the controller stores one before that is done. What the Network gets
// may be left if its process ends.
func (w *World) deleteAtOnce(s *slot, r *rand.Rand) {
	w.create(s, r)
	key := restapi.Key{Resource: "networks", Namespace: s.namespace, Name: s.name}
	finish := w.api.BeginDelete(key)
	if finish == nil {
		w.delete(s, r)
		return
	}
	n := w.get(s)
	w.left[string(n.UID)] = true
	if n.IsObserved() { // so it needs none
		n.Spec.ManagementPolicy = samplecrdv1.ManagementManaged
		w.update(n)
	}
	time.Sleep(between(r, 0, 200*time.Millisecond))
	finish()
}

// removeStatus removes all that the status says.
func (w *World) removeStatus(s *slot, _ *rand.Rand) {
	if n := w.get(s); n != nil {
		n.Status = samplecrdv1.NetworkStatus{}
		w.forgot[string(n.UID)] = true
		_, _ = w.networks(s).UpdateStatus(w.ctx, n, metav1.UpdateOptions{})
	}
}

func (w *World) requestReconcile(s *slot, r *rand.Rand) {
	annotate(samplecrdv1.AnnotationReconcileRequestedAt, time.Now().Format(time.RFC3339Nano))(w, s, r)
}

func randomSpec(w *World, s *slot, r *rand.Rand) samplecrdv1.NetworkSpec {
	n := &samplecrdv1.Network{}
	n.Spec.CloudCredentialsRef = credentialsOf(s.namespace)
	n.Spec.AvailabilityZoneHints = [][]samplecrdv1.AvailabilityZone{nil, nil, {"nova"}, {"nova", "az2"}}[s.index%4] // they cannot change
	changeSubnet(w, s, r, n)
	if r.IntN(2) == 0 {
		changeFields(w, s, r, n)
	}
	changeRouter(w, s, r, n)
	if r.IntN(4) == 0 {
		changeSharing(w, s, r, n)
	}
	if r.IntN(8) == 0 {
		changePolicy(w, s, r, n)
	}
	return n.Spec
}

func changeEverything(w *World, s *slot, r *rand.Rand, n *samplecrdv1.Network) {
	n.Spec = randomSpec(w, s, r)
}

// changeSubnet chooses one of few CIDRs, many of which overlap.
func changeSubnet(w *World, s *slot, r *rand.Rand, n *samplecrdv1.Network) {
	i := s.index
	cidrs := []string{
		fmt.Sprintf("10.%d.0.0/24", i), fmt.Sprintf("10.%d.0.0/20", i), fmt.Sprintf("10.%d.0.0/25", i), fmt.Sprintf("10.%d.16.0/24", i),
		fmt.Sprintf("fd00:%d::/64", i),
	}
	n.Spec.CIDR, n.Spec.SubnetPool, n.Spec.Gateway, n.Spec.AllocationPools, n.Spec.DNSNameservers = cidrs[r.IntN(len(cidrs))], nil, "", nil, nil
	changeGateway(w, s, r, n)
}

// changePool chooses a subnet pool, and perhaps one more subnet: from the same pool, or of IPv6.
func changePool(w *World, s *slot, r *rand.Rand, n *samplecrdv1.Network) {
	pool := []samplecrdv1.NeutronReference{{Name: "team"}, {Name: "team"}, {Name: "spare"}, {ID: w.pools["spare"]}}[r.IntN(4)]
	from := func() *samplecrdv1.SubnetPoolSpec {
		return &samplecrdv1.SubnetPoolSpec{NeutronReference: pool, PrefixLength: int32(24 + r.IntN(2))}
	}
	n.Spec.SubnetSpec = samplecrdv1.SubnetSpec{SubnetPool: from(), Gateway: []string{"", "", samplecrdv1.GatewayNone}[r.IntN(3)]}
	n.Spec.AdditionalSubnets = [][]samplecrdv1.AdditionalSubnet{
		nil,
		{{Name: "b", SubnetSpec: samplecrdv1.SubnetSpec{SubnetPool: from()}}},
		{{Name: "v6", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: fmt.Sprintf("fd01:%d::/64", s.index), Gateway: fmt.Sprintf("fd01:%d::1", s.index)}}},
	}[r.IntN(3)]
	makeConsistent(n)
}

// at returns the address of the first subnet that ends with that byte.
func at(n *samplecrdv1.Network, last int) string {
	if n.Spec.CIDR[0] == 'f' {
		return fmt.Sprintf("%s%x", n.Spec.CIDR[:len(n.Spec.CIDR)-len("/64")], last)
	}
	var a, b, c, d, bits int
	_, _ = fmt.Sscanf(n.Spec.CIDR, "%d.%d.%d.%d/%d", &a, &b, &c, &d, &bits)
	return fmt.Sprintf("%d.%d.%d.%d", a, b, c, last)
}

func changeGateway(w *World, s *slot, r *rand.Rand, n *samplecrdv1.Network) {
	if n.Spec.SubnetPool != nil {
		changePool(w, s, r, n)
		return
	}
	n.Spec.Gateway = []string{"", "", samplecrdv1.GatewayNone, at(n, 9), at(n, 8)}[r.IntN(5)]
	makeConsistent(n)
}

// makeConsistent chooses a gateway if there is a router, and next hops in the subnets that there are. All subnets of IPv4 are from one
// pool, or none is.
func makeConsistent(n *samplecrdv1.Network) {
	n.Spec.AdditionalSubnets = slices.DeleteFunc(n.Spec.AdditionalSubnets, func(s samplecrdv1.AdditionalSubnet) bool {
		return s.Name == "b" && (n.Spec.SubnetPool == nil) != (s.SubnetPool == nil)
	})
	if n.Spec.Router != nil && n.Spec.Gateway == samplecrdv1.GatewayNone {
		n.Spec.Gateway = ""
	}
	if n.Spec.Router != nil && n.Spec.Router.Routes != nil {
		n.Spec.Router.Routes = routesTo(n, destinationsOf(n.Spec.Router.Routes)...)
	}
}

// destinationsOf returns the destinations of routesTo.
func destinationsOf(routes []samplecrdv1.HostRoute) (destinations []int) {
	for _, route := range routes {
		var to int
		_, _ = fmt.Sscanf(strings.NewReplacer("10.", "", "fd", "").Replace(route.Destination), "%d", &to)
		destinations = append(destinations, to)
	}
	return destinations
}

// routesTo returns routes through the Network's subnets: to 90 and above through the first one, below through the additional one,
// if there is one.
func routesTo(n *samplecrdv1.Network, destinations ...int) []samplecrdv1.HostRoute {
	routes := []samplecrdv1.HostRoute{}
	for _, to := range destinations {
		through := n
		if to < 90 && len(n.Spec.AdditionalSubnets) == 0 {
			continue
		} else if to < 90 {
			through = &samplecrdv1.Network{Spec: samplecrdv1.NetworkSpec{SubnetSpec: n.Spec.AdditionalSubnets[0].SubnetSpec}}
		}
		if through.Spec.SubnetPool != nil {
			continue // nobody knows its addresses
		}
		destination := fmt.Sprintf("10.%d.0.0/16", to)
		if through.Spec.CIDR[0] == 'f' {
			destination = fmt.Sprintf("fd%d::/64", to)
		}
		routes = append(routes, samplecrdv1.HostRoute{Destination: destination, NextHop: samplecrdv1.IPAddress(at(through, to))})
	}
	return routes
}

func changeFields(_ *World, s *slot, r *rand.Rand, n *samplecrdv1.Network) {
	address := func(last int) samplecrdv1.IPAddress { return samplecrdv1.IPAddress(at(n, last)) }
	what := r.IntN(6)
	if n.Spec.SubnetPool != nil && what < 2 {
		what += 2
	}
	switch what {
	case 0:
		n.Spec.DNSNameservers = [][]samplecrdv1.IPAddress{nil, {address(100)}, {address(101), address(100)}}[r.IntN(3)]
	case 1:
		n.Spec.AllocationPools = [][]samplecrdv1.AllocationPool{nil, {{Start: address(20), End: address(30)}}, {{Start: address(40), End: address(50)}, {Start: address(20), End: address(25)}}}[r.IntN(3)]
	case 2:
		n.Spec.Tags = [][]samplecrdv1.Tag{nil, {}, {"team-a"}, {"team-b", "team-a"}}[r.IntN(4)]
	case 3:
		n.Spec.MTU = []*int32{nil, new(int32(1400)), new(int32(1300))}[r.IntN(3)]
	case 4:
		n.Spec.EnableDHCP = []*bool{nil, new(true), new(false)}[r.IntN(3)]
	case 5:
		n.Spec.AdditionalSubnets = nil
		slaac := &samplecrdv1.IPv6Spec{AddressMode: samplecrdv1.IPv6ModeSLAAC, RAMode: samplecrdv1.IPv6ModeSLAAC}
		more := []samplecrdv1.AdditionalSubnet{
			{Name: "v6", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: fmt.Sprintf("fd01:%d::/64", s.index), Gateway: fmt.Sprintf("fd01:%d::1", s.index), IPv6: slaac}},
			{Name: "b", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: fmt.Sprintf("10.%d.128.0/24", s.index)}},
			{Name: "v6", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: fmt.Sprintf("fd01:%d::/64", s.index), Gateway: fmt.Sprintf("fd01:%d::1", s.index)}},
			{Name: "v6", SubnetSpec: samplecrdv1.SubnetSpec{CIDR: fmt.Sprintf("fd02:%d::/64", s.index), Gateway: fmt.Sprintf("fd02:%d::1", s.index)}},
		}
		if i := r.IntN(6); i < len(more) {
			n.Spec.AdditionalSubnets = more[i : i+1]
		} else if i == len(more) {
			n.Spec.AdditionalSubnets = more[:2]
		}
		makeConsistent(n)
	}
}

func changeRouter(w *World, s *slot, r *rand.Rand, n *samplecrdv1.Network) {
	external := func(name string) *samplecrdv1.RouterSpec {
		return &samplecrdv1.RouterSpec{ExternalNetwork: &samplecrdv1.NeutronReference{Name: name}}
	}
	existing := func(ref samplecrdv1.NeutronReference) *samplecrdv1.RouterSpec {
		return &samplecrdv1.RouterSpec{Existing: &ref}
	}
	routers := []*samplecrdv1.RouterSpec{
		nil, nil, external("public"), external("public2"),
		existing(samplecrdv1.NeutronReference{Name: "gate"}), existing(samplecrdv1.NeutronReference{ID: w.gates["gate2"]}),
	}
	if s.namespace != home { // the gates are of another project
		routers = routers[:4]
	}
	n.Spec.Router = routers[r.IntN(len(routers))]
	if n.Spec.Router != nil && n.Spec.Router.Existing == nil {
		n.Spec.Router.AvailabilityZoneHints = [][]samplecrdv1.AvailabilityZone{nil, nil, {"nova"}, {"nova", "az2"}}[r.IntN(4)]
		changeRoutes(w, s, r, n)
	}
	makeConsistent(n)
}

// others are the projects that Networks are shared with: one that exists, and some that do not.
var others = []string{elsewhere, "a", "b"}

func changeSharing(_ *World, _ *slot, r *rand.Rand, n *samplecrdv1.Network) {
	n.Spec.SharedWith = nil
	for _, project := range others {
		if r.IntN(2) == 0 {
			n.Spec.SharedWith = append(n.Spec.SharedWith, samplecrdv1.Share{ProjectID: project})
		}
	}
}

func changeRoutes(_ *World, _ *slot, r *rand.Rand, n *samplecrdv1.Network) {
	if n.Spec.Router != nil && n.Spec.Router.Existing == nil {
		n.Spec.Router.Routes = [][]samplecrdv1.HostRoute{nil, nil, {}, routesTo(n, 98), routesTo(n, 99, 98), routesTo(n, 88, 99)}[r.IntN(6)]
	}
}

func changePolicy(_ *World, _ *slot, r *rand.Rand, n *samplecrdv1.Network) {
	n.Spec.DeletionPolicy = []samplecrdv1.DeletionPolicy{"", samplecrdv1.DeletionDelete, samplecrdv1.DeletionRetain}[r.IntN(3)]
}
