// Copyright The samplecrd-controller Authors.
// SPDX-License-Identifier: Apache-2.0

package neutron

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	samplecrdv1 "github.com/samplecrd/samplecrd-controller/pkg/apis/samplecrd/v1"
	"github.com/samplecrd/samplecrd-controller/pkg/testing/oracle"
)

// A model of the handover between two clusters, which is checked exhaustively: every order of what two controllers, the subcommand
// move and the users do, with kills, lost answers, late requests and late caches. What the controllers and move decide is not
// modelled: the model calls View.Next, NextRemoval and Handover.Moves. It models who may do what when, as controller.go,
// preconditions.go and pkg/command/move have it.

// modelMark is whose mark an object in Neutron has.
type modelMark uint8

const (
	noObject modelMark = iota
	ofOld
	ofNew
)

// modelSky is what Neutron has: a network with one subnet and one router.
type modelSky struct {
	network, subnet, router modelMark
	isAttached              bool
	// hasSecond means that there is a second network, subnet or router.
	hasSecond bool
	// isBack means that the network was moved back later. Its revisions are others then.
	isBack bool
}

// markAt returns the mark that a step of move replaces; nil for another step.
func (s *modelSky) markAt(step string) *modelMark {
	return map[string]*modelMark{string(MoveNetwork): &s.network, string(MoveSubnet): &s.subnet, string(MoveRouter): &s.router}[step]
}

// modelNetwork is a Network in Kubernetes.
type modelNetwork struct {
	exists, isDeleting, isPaused, hasFinalizer, isLocked bool
	// wantsRead means that the annotation reconcile-requested-at has a new value: Neutron is read past the cache.
	wantsRead bool
}

// modelRequest is a request that was decided, and when: it applies only to what was observed then, where Neutron can check that.
type modelRequest struct {
	step     string // "" for none
	observed modelSky
}

// modelSide is a cluster: its Network and its controller.
type modelSide struct {
	network modelNetwork
	isUp    bool
	// cached and seen are what the controller knows of Kubernetes and of Neutron.
	cached  modelNetwork
	seen    modelSky
	request modelRequest
}

// The phases of move.
const (
	moveIdle uint8 = iota
	moveLocked
	moveSending
	moveDone
)

type modelState struct {
	sky   modelSky
	sides [2]modelSide
	phase uint8
	// move is the request that move has decided, and late is one of an earlier run that was killed.
	move, late modelRequest
}

// modelRules are what the page and the code demand. Without each, something must go wrong: see TestTheModelNotices.
type modelRules struct {
	oldIsConfirmed, newIsConfirmed, oldStaysPaused, oldIsKeptUntilTheEnd, newIsLocked, networkIsFirst, isConditional, seesOtherOwner, unlocksLast bool
	// The controllers read Neutron past their caches when they go on.
	unlockReads, resumeReads bool
}

var allModelRules = modelRules{true, true, true, true, true, true, true, true, true, true, true}

// model has the two owners' views.
type model struct {
	rules    modelRules
	handover Handover
	views    [2]View
	template *Observed
	// problems has an example of each kind of problem.
	problems map[string]string
	// steps are those that move has taken.
	steps map[oracle.HandoverStep]bool
}

func newModel(t *testing.T, rules modelRules) *model {
	t.Helper()
	c := newRoutedCloud(t)
	r := c.declare(ownRouterOn(byName("public")))
	template, _, err := r.sync(t)
	noError(t, err)
	m := &model{rules: rules, template: template, problems: map[string]string{}, steps: map[oracle.HandoverStep]bool{}}
	other := r.Network.DeepCopy()
	other.UID, other.Status = otherUID, samplecrdv1.NetworkStatus{}
	for i, owned := range []struct {
		network *samplecrdv1.Network
		cluster string
	}{{r.Network, owner.Cluster}, {other, "another-cluster"}} {
		desired, err := NewDesired(owned.network, owned.cluster)
		noError(t, err)
		v := View{Identity: NewIdentity(owned.network, owned.cluster), Desired: desired, Observed: template}
		m.views[i], err = c.resolve(t.Context(), v)
		noError(t, err)
	}
	m.handover = Handover{From: m.views[0].Owner, To: m.views[1].Owner}
	return m
}

// mark returns the description of an object with that mark.
func (m *model) mark(of modelMark) string { return m.views[of-1].Owner.Mark() }

// observed returns what the owner with that mark finds in Neutron, as readNeutron does: networks by its mark, and the routers with its
// mark or on its network. Move sees those of both.
func (m *model) observed(s modelSky, of ...modelMark) *Observed {
	o := &Observed{RoutersKnown: true}
	if s.network != noObject && slices.Contains(of, s.network) {
		o.Network = m.template.Network
		o.Description, o.Subnets, o.Interfaces = m.mark(s.network), nil, nil
		if s.subnet != noObject {
			subnet := m.template.Subnets[0]
			subnet.Description = m.mark(s.subnet)
			o.Subnets = []Subnet{subnet}
			if s.isAttached {
				o.Interfaces = m.template.Interfaces
			}
		}
	}
	if s.router != noObject && (slices.Contains(of, s.router) || len(o.Interfaces) > 0) {
		router := m.template.Routers[0]
		router.Description = m.mark(s.router)
		o.Routers = []Router{router}
	}
	return o
}

// step returns the kind of the next step of the controller, "" for none.
func (m *model) step(of modelMark, known modelNetwork, seen modelSky) (step string, isReversible bool) {
	if !known.exists || known.isPaused || known.isLocked && m.rules.newIsLocked {
		return "", false
	}
	var next Step
	o := m.observed(seen, of)
	if known.isDeleting {
		next = NextRemoval(m.views[of-1].Identity, o, false)
	} else {
		v := m.views[of-1]
		v.Observed = o
		next = v.Next()
	}
	if next == nil {
		return "", false
	}
	return strings.TrimPrefix(fmt.Sprintf("%T", next), "neutron."), effectOf(next).isReversible
}

// apply is what Neutron does with a request of the owner with that mark. accepted is false if it refuses it, or the controller's last
// look at Neutron prevents it.
func (m *model) apply(s modelSky, of modelMark, r modelRequest) (after modelSky, accepted bool) {
	after = s
	if mark := after.markAt(r.step); mark != nil {
		isSame := *mark == *r.observed.markAt(r.step) && s.isBack == r.observed.isBack
		accepted = *mark != noObject && (isSame || !m.rules.isConditional)
		if accepted {
			*mark = ofNew
		}
		return after, accepted
	}
	switch r.step {
	case "CreateNetwork":
		if s.network == noObject {
			after.network, after.subnet = of, noObject
			return after, true
		}
		// checkOwner, for a Network whose status names the network
		if s.network != of && m.rules.seesOtherOwner && m.views[of-1].NetworkID != "" {
			return s, false
		}
		after.hasSecond = true
		return after, true
	case "CreateSubnet":
		if s.network != of {
			return s, false // the network is not there
		}
		if s.subnet != noObject {
			after.hasSecond = true // a second subnet: one from a subnet pool overlaps with none
			return after, true
		}
		after.subnet = of
	case "DeleteNetwork":
		if s.network != of || s.isAttached {
			return s, false // deleteIfMarked
		}
		after.network, after.subnet = noObject, noObject
	case "DetachSubnet":
		if !s.isAttached {
			return s, false
		}
		after.isAttached = false
	case "DeleteRouter":
		if s.router != of || s.isAttached {
			return s, false // checkOwnRouter
		}
		after.router = noObject
	case "CreateRouter":
		if s.router != noObject {
			after.hasSecond = true // a second router
			return after, true
		}
		after.router = of
	case "AttachSubnet":
		if s.isAttached || s.subnet == noObject || s.router == noObject {
			return s, false
		}
		after.isAttached = true
	default:
		return s, false // changes of fields, which are the same on both sides
	}
	return after, true
}

// moves are the changes that move still has to make.
func (m *model) moves(s modelSky) (steps []string) {
	for _, move := range m.handover.Moves(m.observed(s, ofOld, ofNew)) {
		steps = append(steps, string(move.Kind))
	}
	if !m.rules.networkIsFirst {
		slices.Reverse(steps)
	}
	return steps
}

// transition is what can happen next.
type transition struct {
	label string
	state modelState
}

func (m *model) next(s modelState) (all []transition) {
	if s.sky.hasSecond {
		return nil // move refuses that, and says what to do
	}
	add := func(label string, change func(*modelState)) {
		next := s
		change(&next)
		if next != s {
			all = append(all, transition{label, next})
		}
	}
	for i, of := range []modelMark{ofOld, ofNew} {
		m.controller(s, i, of, add)
	}
	m.users(s, add)
	m.mover(s, add)
	return all
}

// controller adds what the controller of a side can do.
func (m *model) controller(s modelState, i int, of modelMark, add func(string, func(*modelState))) {
	name := []string{"old", "new"}[i] + " controller"
	side := s.sides[i]
	if !side.isUp {
		return
	}
	add(name+" gets an event", func(n *modelState) { n.sides[i].cached = side.network })
	add(name+" lists Neutron", func(n *modelState) { n.sides[i].seen = s.sky })
	add(name+" starts again", func(n *modelState) {
		n.sides[i].cached, n.sides[i].seen, n.sides[i].request = side.network, s.sky, modelRequest{}
	})
	if r := side.request; r.step != "" {
		after, accepted := m.apply(s.sky, of, r)
		if accepted {
			m.judge(s, after, i, of, r.step)
		}
		add(name+": "+r.step, func(n *modelState) {
			n.sky, n.sides[i].request = after, modelRequest{}
			n.sides[i].seen = after
		})
		add(name+": "+r.step+", the answer is lost", func(n *modelState) { n.sky, n.sides[i].request = after, modelRequest{} })
		return
	}
	seen, known := side.seen, side.cached
	isVerified := known == side.network
	isNew := known.exists && !known.isDeleting && !known.isPaused && !known.isLocked && !known.hasFinalizer
	if isNew && !isVerified {
		return // the finalizer is added only to the version that is known
	}
	known.hasFinalizer = known.hasFinalizer || isNew
	if !m.observed(seen, of).Exists() && !isNew || known.wantsRead {
		seen = s.sky // an empty cache proves nothing, except for a new Network
	}
	step, isReversible := m.step(of, known, seen)
	if step != "" && (isReversible || isVerified) {
		add(name+" decides: "+step, func(n *modelState) {
			n.sides[i].request, n.sides[i].seen = modelRequest{step, seen}, seen
			if isNew { // no other read comes between this write and the request
				n.sides[i].network, n.sides[i].cached = known, known
			}
		})
	}
	if step == "" && isVerified && known.exists && known.isDeleting && !known.isPaused && !known.isLocked && m.observed(s.sky, of).IsEmpty() {
		add(name+" removes the finalizer", func(n *modelState) { n.sides[i].network.exists = false })
	}
}

// users adds what users can do.
func (m *model) users(s modelState, add func(string, func(*modelState))) {
	old, new := s.sides[0].network, s.sides[1].network
	isDone := s.phase == moveDone
	if old.exists && !old.isPaused && !isDone {
		add("user pauses the old Network", func(n *modelState) { n.sides[0].network.isPaused = true })
	}
	if old.exists && old.isPaused && (isDone || !m.rules.oldStaysPaused) {
		add("user resumes the old Network", func(n *modelState) {
			n.sides[0].network.isPaused, n.sides[0].network.wantsRead = false, m.rules.resumeReads
		})
	}
	if old.exists && !old.isDeleting && (isDone || !m.rules.oldIsKeptUntilTheEnd) {
		add("user deletes the old Network", func(n *modelState) { n.sides[0].network.isDeleting = true })
	}
	if new.exists && !new.isPaused && !isDone {
		add("user pauses the new Network", func(n *modelState) { n.sides[1].network.isPaused = true })
	}
	if new.exists && !new.isDeleting {
		add("user deletes the new Network", func(n *modelState) {
			n.sides[1].network.isDeleting, n.sides[1].network.exists = true, new.hasFinalizer
		})
	}
	if isDone && old.exists && s.sky.network == ofNew && !s.sides[1].isUp && !s.sky.isBack && s.sides[0].request.step == "" {
		add("user moves the network back, and removes the new Network", func(n *modelState) {
			n.sky = modelSky{network: ofOld, subnet: ofOld, router: ofOld, isAttached: s.sky.isAttached, isBack: true}
			n.sides[1].network = modelNetwork{}
		})
	}
	if new.exists && new.isPaused && isDone {
		add("user resumes the new Network", func(n *modelState) { n.sides[1].network.isPaused = false })
	}
}

// isRefused reports whether move refuses the new Network. One that is being deleted would delete what it gets.
func (m *model) isRefused(s modelState) bool {
	new, isBegun := s.sides[1].network, m.handover.IsBegun(m.observed(s.sky, ofOld, ofNew))
	return !new.exists || new.isDeleting && !(new.isLocked && isBegun)
}

// mover adds what move can do: pkg/command/move/mover.go.
func (m *model) mover(s modelState, add func(string, func(*modelState))) {
	old, new := s.sides[0], s.sides[1]
	if s.late.step != "" {
		after, _ := m.apply(s.sky, ofNew, s.late)
		add("late "+s.late.step, func(n *modelState) { n.sky, n.late = after, modelRequest{} })
	}
	if s.phase != moveIdle && s.phase != moveDone {
		add("move is killed", func(n *modelState) {
			if n.late.step == "" {
				n.late = s.move
			}
			n.phase, n.move = moveIdle, modelRequest{}
		})
	}
	isConfirmed := !old.isUp || old.network.isPaused && (old.cached.isPaused && old.request.step == "" || !m.rules.oldIsConfirmed)
	switch s.phase {
	case moveIdle:
		mayCreate := new.isUp && new.network.hasFinalizer && !new.network.isLocked && (!new.network.isPaused || !new.cached.isPaused || new.request.step != "")
		if m.isRefused(s) || mayCreate && m.rules.newIsConfirmed || !isConfirmed || len(m.moves(s.sky)) == 0 && !new.network.isLocked || s.sky.hasSecond {
			return
		}
		add("move locks", func(n *modelState) {
			n.phase = moveLocked
			n.sides[1].network.hasFinalizer, n.sides[1].network.isLocked = true, m.rules.newIsLocked
		})
	case moveLocked:
		moves := m.moves(s.sky)
		isLocked := new.network.exists && (new.network.isLocked || !m.rules.newIsLocked)
		switch {
		case m.isRefused(s) || !isLocked:
			add("move finds no lock, or a deletion", func(n *modelState) { n.phase = moveIdle })
		case len(moves) == 0, !m.rules.unlocksLast && s.sky.network == ofNew:
			m.take(s.sky, "unlock")
			add("move unlocks", func(n *modelState) {
				n.phase, n.sides[1].network.isLocked, n.sides[1].network.wantsRead = moveDone, false, m.rules.unlockReads
			})
		default:
			add("move decides: "+moves[0], func(n *modelState) { n.phase, n.move = moveSending, modelRequest{moves[0], s.sky} })
		}
	case moveSending:
		after, _ := m.apply(s.sky, ofNew, s.move)
		if after != s.sky {
			m.take(s.sky, s.move.step)
		}
		add("move: "+s.move.step, func(n *modelState) { n.sky, n.phase, n.move = after, moveLocked, modelRequest{} })
	}
}

// take notes a step of move.
func (m *model) take(s modelSky, change string) {
	owners := map[modelMark]string{ofOld: oracle.Old, ofNew: oracle.New}
	m.steps[oracle.HandoverStep{Network: owners[s.network], Subnet: owners[s.subnet], Router: owners[s.router], Change: change}] = true
}

func (m *model) problem(s modelState, kind, text string) {
	m.problems[kind] = fmt.Sprintf("%s: %s: %+v", kind, text, s)
}

// The kinds of problems.
const (
	duplicates = "a second network, subnet or router"
	actsLocked = "acts under the lock"
	actsOn     = "changes what is not its own"
	destroys   = "deletes a network that is not its own"
	forgotten  = "nobody knows it"
	endless    = "move does not end"
)

// judge judges a change that Neutron has accepted from the controller of a side.
func (m *model) judge(s modelState, after modelSky, i int, of modelMark, step string) {
	text := fmt.Sprintf("side %d: %s", i, step)
	before, isDeleting := s.sky, s.sides[i].network.isDeleting
	isBeforeMove := of == ofNew && before.network == ofOld && !s.sides[1].network.isLocked // the user has not paused the new Network
	if after.hasSecond && !before.hasSecond && !isBeforeMove {
		m.problem(s, duplicates, text)
	}
	if s.sides[1].network.isLocked {
		m.problem(s, actsLocked, text)
	}
	if after.network == noObject && before.network != noObject && (before.network != of || before.subnet == of%2+1 || !isDeleting) {
		m.problem(s, destroys, text)
	}
	if after.router == noObject && before.router != noObject && before.router != of || after.isAttached != before.isAttached && before.subnet != of {
		m.problem(s, actsOn, text)
	}
}

// check judges a state: the owner of the network knows it, and what has another mark is found by its lock.
func (m *model) check(s modelState) {
	if s.sky.network == noObject {
		return
	}
	owner := s.sides[s.sky.network-1].network
	if !owner.exists || s.sky.network == ofNew && !owner.hasFinalizer {
		m.problem(s, forgotten, "the owner of the network is gone, or can go without it")
	}
	isMixed := s.sky.subnet != noObject && s.sky.subnet != s.sky.network || s.sky.router != noObject && s.sky.router != s.sky.network
	if isMixed && !s.sides[1].network.isLocked {
		m.problem(s, forgotten, "a subnet or the router has another owner than the network, and no lock")
	}
}

// ends reports whether move, run alone from the state, moves everything and removes the lock.
func (m *model) ends(s modelState) bool {
	s.phase, s.move, s.late = moveIdle, modelRequest{}, modelRequest{}
	s.sides[0].isUp, s.sides[1].isUp = false, false
	for range 12 {
		var alone []transition
		m.mover(s, func(label string, change func(*modelState)) {
			if label != "move is killed" {
				next := s
				change(&next)
				alone = append(alone, transition{label, next})
			}
		})
		if len(alone) == 0 {
			break
		}
		s = alone[0].state
	}
	return len(m.moves(s.sky)) == 0 && !s.sides[1].network.isLocked
}

// explore visits all states, and returns how many there are.
func (m *model) explore(begin modelState) (states int) {
	visited, queue := map[modelState]bool{begin: true}, []modelState{begin}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		m.check(s)
		if !m.isRefused(s) && !s.sky.hasSecond && !m.ends(s) {
			m.problem(s, endless, "")
		}
		for _, t := range m.next(s) {
			if !visited[t.state] {
				visited[t.state] = true
				queue = append(queue, t.state)
			}
		}
	}
	return len(visited)
}

// beginning is where the handover begins: which controllers work, what the old one is about to do, and whether the user has created the
// new Network without the pause.
type beginning struct {
	name                                                  string
	isOld, isNew, isIncomplete, isOldDeleted, isNotPaused bool
}

var beginnings = []beginning{
	{"the old cluster is gone", false, false, false, false, false},
	{"the old cluster is gone, and a controller works in the new one", false, true, false, false, false},
	{"the old controller works", true, false, false, false, false},
	{"the old controller attaches the subnet", true, false, true, false, false},
	{"the old controller deletes the network", true, false, false, true, false},
	{"the old cluster is gone, and the new Network is not paused", false, true, false, false, true},
}

func (b beginning) state() modelState {
	sky := modelSky{network: ofOld, subnet: ofOld, router: ofOld, isAttached: !b.isIncomplete}
	old, new := modelNetwork{exists: true, hasFinalizer: true, isDeleting: b.isOldDeleted}, modelNetwork{exists: true, isPaused: !b.isNotPaused}
	s := modelState{sky: sky}
	s.sides[0] = modelSide{network: old, cached: old, isUp: b.isOld, seen: sky}
	s.sides[1] = modelSide{network: new, cached: new, isUp: b.isNew, seen: sky}
	return s
}

// explore explores the model from all beginnings, with these rules.
func explore(t *testing.T, rules modelRules) (problems map[string]string, steps map[oracle.HandoverStep]bool, states int) {
	t.Helper()
	problems, steps = map[string]string{}, map[oracle.HandoverStep]bool{}
	for _, b := range beginnings {
		m := newModel(t, rules)
		states += m.explore(b.state())
		for kind, example := range m.problems {
			problems[kind] = b.name + ": " + example
		}
		maps.Copy(steps, m.steps)
	}
	return problems, steps, states
}

func TestTheModelOfTheHandover(t *testing.T) {
	t.Parallel()
	problems, steps, states := explore(t, allModelRules)
	t.Logf("%d states", states)
	for step := range steps {
		if !slices.Contains(oracle.Handover, step) {
			t.Errorf("oracle.Handover lacks %q", step)
		}
	}
	for _, step := range oracle.Handover {
		if !steps[step] {
			t.Errorf("the model does not take the step %q", step)
		}
	}
	for _, problem := range problems {
		t.Error(problem)
	}
}

// Even if a user resumes and deletes the old Network in the middle, no network is destroyed. The order of the moves makes that sure.
func TestTheModelOfAnOldSideThatIsNotKeptPaused(t *testing.T) {
	t.Parallel()
	for _, isFirst := range []bool{true, false} {
		rules := allModelRules
		rules.oldStaysPaused, rules.oldIsKeptUntilTheEnd, rules.networkIsFirst = false, false, isFirst
		problems, _, _ := explore(t, rules)
		equal(t, isFirst, problems[destroys] == "")
	}
}

// Without each of the rules, the model finds something wrong.
func TestTheModelNotices(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		without func(*modelRules)
		want    []string
	}{
		{"the old side is not confirmed", func(r *modelRules) { r.oldIsConfirmed = false }, []string{actsLocked, actsOn}},
		{"the new side is not confirmed", func(r *modelRules) { r.newIsConfirmed = false }, []string{duplicates, actsLocked}},
		{"the old Network is resumed in between", func(r *modelRules) { r.oldStaysPaused = false }, []string{actsLocked}},
		{"no lock", func(r *modelRules) { r.newIsLocked = false }, []string{forgotten}},
		{"requests have no condition", func(r *modelRules) { r.isConditional = false }, []string{forgotten}},
		{"a Network takes no notice of other marks", func(r *modelRules) { r.seesOtherOwner = false }, []string{duplicates}},
		{"the lock ends before the last mark", func(r *modelRules) { r.unlocksLast = false }, []string{forgotten}},
		{"the new side goes on with an old list", func(r *modelRules) { r.unlockReads = false }, []string{duplicates}},
		{"the old side goes on with an old list", func(r *modelRules) { r.resumeReads = false }, []string{actsOn}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			rules := allModelRules
			test.without(&rules)
			problems, _, _ := explore(t, rules)
			for _, kind := range test.want {
				if problems[kind] == "" {
					t.Errorf("%s: not found", kind)
				}
			}
		})
	}
}

// Of an imported network, the tags are the mark. In each state of a move, exactly one side has it, or both and then neither acts; and a
// third Network, which imports it too, never gets it.
func TestTheTagsOfAHandover(t *testing.T) {
	owners := []Owner{{"old", owner.UID}, {"new", otherUID}, {"new", "44444444-0000-4000-8000-000000000000"}}
	h := Handover{From: owners[0], To: owners[1], Import: "n"}
	acts := func(tags Tags) (who []int) {
		for i, o := range owners {
			n := &Network{ID: "n", Tags: tags}
			if (Identity{Owner: o, Import: "n"}).Marks(n) && importRefusal(o, n) == nil {
				who = append(who, i)
			}
		}
		return who
	}
	mayTake := func(i int, tags Tags) bool { return importRefusal(owners[i], &Network{ID: "n", Tags: tags}) == nil }
	old, new, both := NewTags("theirs", h.From.ImportTag()), NewTags("theirs", h.To.ImportTag()), NewTags("theirs", h.From.ImportTag(), h.To.ImportTag())
	tagged := map[Tags]string{old: oracle.Old, both: oracle.Both, new: oracle.New}
	marked := map[string]string{h.From.Mark(): oracle.Old, h.To.Mark(): oracle.New}
	var steps []oracle.HandoverStep
	for _, description := range []string{h.From.Mark(), "theirs"} {
		o := &Observed{Network: Network{ID: "n", Tags: old, Subnets: []Subnet{{Description: description}}}, Routers: []Router{{Description: description}}}
		var actors [][]int
		for kind := MoveKind(""); kind != "unlock" && len(actors) < 6; {
			actors = append(actors, acts(o.Tags))
			equal(t, false, mayTake(2, o.Tags))
			kind = "unlock"
			if moves := h.Moves(o); len(moves) > 0 {
				kind = moves[0].Kind
			}
			steps = append(steps, oracle.HandoverStep{
				Network: tagged[o.Tags], Subnet: marked[o.Subnets[0].Description], Router: marked[o.Routers[0].Description], Change: string(kind),
			})
			switch kind {
			case AddTag:
				o.Tags = NewTags(append(o.Tags.All(), h.To.ImportTag())...)
			case MoveRouter:
				o.Routers[0].Description = h.To.Mark()
			case MoveSubnet:
				o.Subnets[0].Description = h.To.Mark()
			case RemoveTag:
				o.Tags = o.Tags.without(h.From.ImportTag())
			}
		}
		equal(t, [][]int{{0}, nil, {1}}, slices.CompactFunc(actors, slices.Equal))
		equal(t, new, o.Tags)
		noError(t, h.check(o))
	}
	equal(t, oracle.HandoverOfImport, steps)
	// The cluster gets another ID: the UID is the same, and the tag of an older version does not say which cluster it is of.
	h = Handover{From: Owner{string(otherUID), owner.UID}, To: owners[0], Import: "n"}
	o := &Observed{Network: Network{ID: "n", Tags: NewTags("theirs", Importer{UID: owner.UID}.tag())}}
	equal(t, []Move{{AddTag, "n"}, {RemoveTag, "n"}}, h.Moves(o))
	o.Tags = NewTags(append(o.Tags.All(), h.To.ImportTag())...)
	equal(t, []Move{{RemoveTag, "n"}}, h.Moves(o))
	noError(t, h.check(o))
	err := h.check(&Observed{Network: Network{ID: "n", Tags: NewTags(owners[0].ImportTag(), owners[2].ImportTag())}})
	equal(t, Invalid, ReasonOf(err))
}
