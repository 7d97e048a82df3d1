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

// Package fair keeps the work for one group of keys, such as the Networks of one cloud,
// from holding up the work for all others.
package fair

import "sync"

// Share bounds how many keys of one group, and of all groups, are worked on at the same
// time: those of a group whose requests hang wait for each other, and the other workers go
// on. Its methods may be called concurrently.
type Share[G, K comparable] struct {
	each, all int
	add       func(K)

	mu    sync.Mutex
	busy  map[G]int
	total int
	// waiting holds each key of a group once, in the order in which they came.
	waiting   map[G][]K
	isWaiting map[turn[G, K]]bool
	// woken are those that were added, and have not entered yet.
	woken map[K]G
}

// turn is what a key waits for.
type turn[G, K comparable] struct {
	group G
	key   K
}

// NewShare makes a Share that lets so many keys of each group, and of all of them together,
// in at the same time. Those that have to wait it gives to add, which must not block, when
// it is their turn.
func NewShare[G, K comparable](each, all int, add func(K)) *Share[G, K] {
	return &Share[G, K]{
		each:      each,
		all:       all,
		add:       add,
		busy:      map[G]int{},
		waiting:   map[G][]K{},
		isWaiting: map[turn[G, K]]bool{},
		woken:     map[K]G{},
	}
}

// Enter says whether the key may be worked on now. If it may, the caller has to call Leave
// when it is done.
func (s *Share[G, K]) Enter(group G, key K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if woken, ok := s.woken[key]; ok {
		delete(s.woken, key)
		if woken != group { // it belongs to another one by now
			s.wake(woken)
		}
	}
	if s.busy[group] >= s.each || s.total >= s.all {
		if t := (turn[G, K]{group, key}); !s.isWaiting[t] {
			s.isWaiting[t] = true
			s.waiting[group] = append(s.waiting[group], key)
		}
		return false
	}
	s.busy[group]++
	s.total++
	return true
}

// Leave ends what Enter has begun.
func (s *Share[G, K]) Leave(group G) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	if s.busy[group]--; s.busy[group] == 0 {
		delete(s.busy, group)
	}
	s.wake(group)
}

// Pass is for a key that does not need to enter, or has left: if it was woken to, the next
// one is.
func (s *Share[G, K]) Pass(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if group, ok := s.woken[key]; ok {
		delete(s.woken, key)
		s.wake(group)
	}
}

// wake gives a turn to a key of the group, or if none waits, of another that has one left.
// It must be called with the lock held.
func (s *Share[G, K]) wake(group G) {
	if s.wakeOne(group) {
		return
	}
	for other := range s.waiting {
		if s.busy[other] < s.each && s.wakeOne(other) {
			return
		}
	}
}

func (s *Share[G, K]) wakeOne(group G) bool {
	waiting := s.waiting[group]
	if len(waiting) == 0 {
		return false
	}
	key := waiting[0]
	if s.waiting[group] = waiting[1:]; len(waiting) == 1 {
		delete(s.waiting, group)
	}
	delete(s.isWaiting, turn[G, K]{group, key})
	if before, ok := s.woken[key]; ok && before != group { // it takes one of the two turns only
		defer s.wake(before)
	}
	s.woken[key] = group
	s.add(key)
	return true
}
