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

// Share bounds how many keys of one group are worked on at the same time: those of a group
// whose requests hang wait for each other, and the other workers go on. Its methods may be
// called concurrently.
type Share[G, K comparable] struct {
	most int
	add  func(K)

	mu      sync.Mutex
	busy    map[G]int
	waiting map[G][]K
	// woken are those that were added, and have not entered yet.
	woken map[K]G
}

// NewShare makes a Share that lets so many keys of each group in at the same time. Those
// that have to wait it gives to add, which must not block, when it is their turn.
func NewShare[G, K comparable](most int, add func(K)) *Share[G, K] {
	return &Share[G, K]{most: most, add: add, busy: map[G]int{}, waiting: map[G][]K{}, woken: map[K]G{}}
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
	if s.busy[group] >= s.most {
		s.waiting[group] = append(s.waiting[group], key)
		return false
	}
	s.busy[group]++
	return true
}

// Leave ends what Enter has begun.
func (s *Share[G, K]) Leave(group G) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// wake must be called with the lock held.
func (s *Share[G, K]) wake(group G) {
	waiting := s.waiting[group]
	if len(waiting) == 0 {
		return
	}
	if s.waiting[group] = waiting[1:]; len(waiting) == 1 {
		delete(s.waiting, group)
	}
	s.woken[waiting[0]] = group
	s.add(waiting[0])
}
