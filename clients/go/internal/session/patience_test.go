package session

import "testing"

func TestThreeWaitInAllUntilTheServiceIsHeardOf(t *testing.T) {
	var p patience
	for range 3 {
		if !p.enter() {
			t.Fatal("three may wait at once")
		}
	}
	if p.enter() {
		t.Fatal("a fourth waits")
	}
	for range 3 {
		p.leave(true)
	}
	if p.enter() {
		t.Fatal("a fourth waits after three")
	}
	p.heard()
	for range 10 {
		if !p.enter() {
			t.Fatal("it was heard of")
		}
	}
	p.lost()
	if p.enter() {
		t.Fatal("ten wait")
	}
	for range 10 {
		p.leave(false)
	}
	for range 3 {
		if !p.enter() {
			t.Fatal("it was heard of and lost: the next three may wait")
		}
		p.leave(true)
	}
	if p.enter() {
		t.Fatal("three have waited in vain")
	}
}

func TestWhoGaveUpMakesRoomForAnother(t *testing.T) {
	var p patience
	for range 10 {
		if !p.enter() {
			t.Fatal("nobody waits")
		}
		p.leave(false)
	}
}
