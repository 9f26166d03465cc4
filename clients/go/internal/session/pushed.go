package session

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

const (
	dependenciesMax = 10_000
	nameBytesMax    = 200
	// idle: a dependency that was not called for so long is followed no longer.
	idle   = 600 * rules.Second
	shards = 64
)

// Pushed is the state that the service pushes: what to do with first attempts, and what to keep to
// when it is away. The client obeys and derives nothing from the state of the breaker. What is
// unknown, unsaid or out of range is "ask". Nothing is forgotten when a session breaks: what was said
// holds to its own end, and the policy for as long as the client lives.
//
// Looking a dependency up takes no lock: the maps are copied when one is added, which is seldom.
type Pushed struct {
	clock  *Clock
	own    *rules.Policy
	wished []string
	seed   maphash.Seed
	count  atomic.Int64
	// lookedAt is when there was no room last: what is idle is looked for once a second.
	lookedAt atomic.Uint64
	shards   [shards]shard
	// appeared is closed and replaced when a dependency is heard of for the first time.
	appearing sync.Mutex
	appeared  chan struct{}
}

type shard struct {
	adding  sync.Mutex
	entries atomic.Pointer[map[string]*Dependency]
}

// Dependency is what was heard of one.
type Dependency struct {
	Name  string
	heard atomic.Pointer[Heard]
	// used is the time of the last question about it.
	used atomic.Uint64
	// isLeft: it is followed no longer.
	isLeft atomic.Bool
}

// Heard is one update, read. It does not change.
type Heard struct {
	Epoch         uint64
	Policy        *rules.Policy
	state         pb.BreakerState
	firstAttempts pb.FirstAttempts
	validUntil    rules.Time
	letGoAt       rules.Time
	hasLetGo      bool
	isSaid        bool
	counter       *Counter
	// superseded is closed by the next update.
	superseded chan struct{}
	policy     *pb.ClientPolicy
	allowance  *pb.OfflineAllowance
}

// Word is what the service says of a first attempt.
type Word uint8

// The words.
const (
	Ask Word = iota
	Go
	Refuse
)

// NewPushed has heard nothing. The wished dependencies are wanted from the beginning.
func NewPushed(clock *Clock, own *rules.Policy, wished []string) *Pushed {
	p := &Pushed{clock: clock, own: own, wished: wished, seed: maphash.MakeSeed(), appeared: make(chan struct{})}
	for i := range p.shards {
		p.shards[i].entries.Store(&map[string]*Dependency{})
	}
	return p
}

// Of is what was heard of a dependency; one of which nothing was heard is known for as long as there
// is room.
func (p *Pushed) Of(name string) *Dependency {
	shard := &p.shards[maphash.String(p.seed, name)%shards]
	if known := (*shard.entries.Load())[name]; known != nil {
		return known
	}
	fresh := &Dependency{Name: name}
	fresh.heard.Store(&Heard{Policy: p.own, superseded: make(chan struct{})})
	fresh.used.Store(uint64(p.clock.Now()))
	if len(name) > nameBytesMax || !p.hasRoom() {
		return fresh
	}
	shard.adding.Lock()
	defer shard.adding.Unlock()
	if known := (*shard.entries.Load())[name]; known != nil {
		return known
	}
	entries := maps.Clone(*shard.entries.Load())
	entries[name] = fresh
	shard.entries.Store(&entries)
	p.count.Add(1)
	return fresh
}

func (p *Pushed) hasRoom() bool {
	now := p.clock.Now()
	looked := p.lookedAt.Load()
	if p.count.Load() >= dependenciesMax && now.Since(rules.Time(looked)) > rules.Second && p.lookedAt.CompareAndSwap(looked, uint64(now)) {
		p.forgetIdle()
	}
	return p.count.Load() < dependenciesMax
}

// Store takes an update.
func (p *Pushed) Store(update *pb.Update) {
	if len(update.GetDependency()) > nameBytesMax {
		return
	}
	dependency := p.Of(update.GetDependency())
	before := dependency.heard.Load()
	dependency.heard.Store(p.read(update, before))
	dependency.isLeft.Store(false)
	close(before.superseded)
	if !before.isSaid {
		p.appearing.Lock()
		close(p.appeared)
		p.appeared = make(chan struct{})
		p.appearing.Unlock()
	}
}

func (p *Pushed) read(update *pb.Update, before *Heard) *Heard {
	now := p.clock.Now()
	heard := &Heard{
		Epoch:      update.GetEpoch(),
		Policy:     before.Policy,
		letGoAt:    before.letGoAt,
		hasLetGo:   before.hasLetGo,
		isSaid:     true,
		counter:    before.counter,
		superseded: make(chan struct{}),
		policy:     update.GetPolicy(),
		allowance:  update.GetOfflineAllowance(),
	}
	heard.state, heard.firstAttempts = standing(update)
	if validFor, _, ok := readDuration(update.GetValidFor()); ok {
		heard.validUntil = now.Add(min(validFor, rules.ValidMax))
	}
	if !before.isSaid || !proto.Equal(before.policy, heard.policy) || !proto.Equal(before.allowance, heard.allowance) {
		policy := readPolicy(heard.policy, heard.allowance, p.own)
		heard.Policy = &policy
	}
	if heard.firstAttempts == pb.FirstAttempts_FIRST_ATTEMPTS_GO {
		heard.letGoAt, heard.hasLetGo = now, true
	}
	if heard.counter == nil || heard.counter.epoch != heard.Epoch {
		heard.counter = newCounter(update.GetDependency(), heard.Epoch, heard.Policy.SlowAfter)
	}
	heard.counter.slowAfter.Store(uint64(heard.Policy.SlowAfter))
	return heard
}

// standing: a state that this client does not know may mean anything, so it asks.
func standing(update *pb.Update) (pb.BreakerState, pb.FirstAttempts) {
	state, first := update.GetState(), update.GetFirstAttempts()
	_, stateKnown := pb.BreakerState_name[int32(state)]
	_, firstKnown := pb.FirstAttempts_name[int32(first)]
	if !stateKnown || !firstKnown || state == pb.BreakerState_BREAKER_STATE_UNSPECIFIED {
		return state, pb.FirstAttempts_FIRST_ATTEMPTS_ASK
	}
	return state, first
}

// Last is what was said last, of an epoch that attempts can be told by, were it 0.
func (d *Dependency) Last() *Heard {
	heard := d.heard.Load()
	if heard.counter != nil {
		return heard
	}
	last := *heard
	last.counter = newCounter(d.Name, 0, 0)
	return &last
}

// Heard is what was said last.
func (d *Dependency) Heard() *Heard { return d.heard.Load() }

// Word is what the service says about a first attempt now.
func (d *Dependency) Word(now rules.Time) (Word, *Heard) {
	heard := d.heard.Load()
	// Written seldom, so that callers do not take the cache line from one another.
	if used := rules.Time(d.used.Load()); now.Since(used) > rules.Second {
		d.used.Store(uint64(now))
	}
	if now >= heard.validUntil {
		return Ask, heard
	}
	switch heard.firstAttempts {
	case pb.FirstAttempts_FIRST_ATTEMPTS_GO:
		return Go, heard
	case pb.FirstAttempts_FIRST_ATTEMPTS_REFUSE:
		return Refuse, heard
	default:
		return Ask, heard
	}
}

// IsSaid: the service has said something.
func (h *Heard) IsSaid() bool { return h.isSaid }

// LetGoAt is when the service last let first attempts go.
func (h *Heard) LetGoAt() (rules.Time, bool) { return h.letGoAt, h.hasLetGo }

// Superseded is closed when something newer was said.
func (h *Heard) Superseded() <-chan struct{} { return h.superseded }

// Denial of a refused attempt. A refusal that nobody explains otherwise is a hold.
func (h *Heard) Denial(now rules.Time) *rules.Denial {
	reason := rules.Held
	switch h.state {
	case pb.BreakerState_BREAKER_STATE_OPEN:
		reason = rules.BreakerOpen
	case pb.BreakerState_BREAKER_STATE_FORCED_OPEN:
		reason = rules.ForcedOpen
	}
	left := now.Until(h.validUntil)
	detail := fmt.Sprintf("as pushed to this client; ask again in %v", left.Duration().Round(time.Millisecond))
	return &rules.Denial{Reason: reason, RetryAfter: left, Detail: detail}
}

// Tripped is why an attempt granted in an epoch may not be made any more. Nil: the service has not
// said so, or not said it validly.
func (h *Heard) Tripped(epoch uint64, attempt uint32, now rules.Time) *rules.Denial {
	isOpen := h.state == pb.BreakerState_BREAKER_STATE_OPEN || h.state == pb.BreakerState_BREAKER_STATE_FORCED_OPEN
	binds := attempt > 1 || h.firstAttempts == pb.FirstAttempts_FIRST_ATTEMPTS_REFUSE
	if !isOpen || !binds || h.Epoch <= epoch || now >= h.validUntil {
		return nil
	}
	return h.Denial(now)
}

// RefusedSince is why there is no retry of an attempt made on the state of an epoch. Nil: the service
// has not said so since, or not said it validly.
func (h *Heard) RefusedSince(epoch uint64, now rules.Time) *rules.Denial {
	isOpen := h.state == pb.BreakerState_BREAKER_STATE_OPEN || h.state == pb.BreakerState_BREAKER_STATE_FORCED_OPEN
	refuses := isOpen || h.firstAttempts == pb.FirstAttempts_FIRST_ATTEMPTS_REFUSE
	if !refuses || h.Epoch <= epoch || now >= h.validUntil {
		return nil
	}
	return h.Denial(now)
}

// RefusedAlone is why a question that the service does not answer is denied all the same: what it has
// pushed in an epoch or later still stands. Nil: this process decides.
func (h *Heard) RefusedAlone(attempt uint32, since uint64, now rules.Time) *rules.Denial {
	isOpen := h.state == pb.BreakerState_BREAKER_STATE_OPEN || h.state == pb.BreakerState_BREAKER_STATE_FORCED_OPEN
	refuses := isOpen || h.firstAttempts == pb.FirstAttempts_FIRST_ATTEMPTS_REFUSE
	isLetGo := attempt == 1 && h.firstAttempts == pb.FirstAttempts_FIRST_ATTEMPTS_GO
	if !refuses || isLetGo || h.Epoch < since || now >= h.validUntil {
		return nil
	}
	return h.Denial(now)
}

// KnownClients is how many the fleet had when the service last said so; 0: it has not.
func (h *Heard) KnownClients() uint32 { return h.allowance.GetKnownClients() }

// StandsBy: the service is known to stand by what it granted in an epoch.
func (h *Heard) StandsBy(epoch uint64, now rules.Time) bool {
	isClosed := h.state == pb.BreakerState_BREAKER_STATE_CLOSED || h.state == pb.BreakerState_BREAKER_STATE_FORCED_CLOSED
	refuses := h.firstAttempts == pb.FirstAttempts_FIRST_ATTEMPTS_REFUSE
	return isClosed && !refuses && h.Epoch == epoch && now < h.validUntil
}

// WishedAppear returns a channel that is closed at the next first word about a dependency; nil where
// all that was wished has had one.
func (p *Pushed) WishedAppear() <-chan struct{} {
	p.appearing.Lock()
	defer p.appearing.Unlock()
	for _, name := range p.wished {
		if !p.Of(name).Heard().isSaid {
			return p.appeared
		}
	}
	return nil
}

// followed is what a new session subscribes to.
func (p *Pushed) followed() []string {
	now := p.clock.Now()
	names := slices.Clone(p.wished)
	for i := range p.shards {
		for name, dependency := range *p.shards[i].entries.Load() {
			if dependency.Heard().isSaid && now.Since(rules.Time(dependency.used.Load())) < idle {
				names = append(names, name)
				dependency.isLeft.Store(false)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// leaveIdle names what is called no longer, unless it was wanted from the beginning; each once. What was
// heard of it is kept.
func (p *Pushed) leaveIdle() (idle []string) {
	for i := range p.shards {
		for name, dependency := range *p.shards[i].entries.Load() {
			if dependency.Heard().isSaid && p.isIdle(dependency) && !dependency.isLeft.Swap(true) {
				idle = append(idle, name)
			}
		}
	}
	return idle
}

func (p *Pushed) isIdle(dependency *Dependency) bool {
	isUnused := p.clock.Now().Since(rules.Time(dependency.used.Load())) >= idle
	return isUnused && !slices.Contains(p.wished, dependency.Name)
}

// forgetIdle makes room where there are too many.
func (p *Pushed) forgetIdle() {
	for i := range p.shards {
		shard := &p.shards[i]
		shard.adding.Lock()
		kept := maps.Clone(*shard.entries.Load())
		before := len(kept)
		maps.DeleteFunc(kept, func(_ string, dependency *Dependency) bool { return p.isIdle(dependency) })
		if len(kept) < before {
			shard.entries.Store(&kept)
			p.count.Add(int64(len(kept) - before))
		}
		shard.adding.Unlock()
	}
}
