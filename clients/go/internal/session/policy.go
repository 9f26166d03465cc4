package session

import (
	"math"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

const (
	attemptsMax = 1_000
	spanMax     = 24 * 3600 * rules.Second
	floorMax    = 1e6
)

var (
	strategies = map[pb.Strategy]rules.Strategy{
		pb.Strategy_STRATEGY_FIXED:       rules.Fixed,
		pb.Strategy_STRATEGY_LINEAR:      rules.Linear,
		pb.Strategy_STRATEGY_EXPONENTIAL: rules.Exponential,
	}
	jitters = map[pb.Jitter]rules.Jitter{
		pb.Jitter_JITTER_NONE:         rules.NoJitter,
		pb.Jitter_JITTER_FULL:         rules.FullJitter,
		pb.Jitter_JITTER_EQUAL:        rules.EqualJitter,
		pb.Jitter_JITTER_PROPORTIONAL: rules.ProportionalJitter,
		pb.Jitter_JITTER_DECORRELATED: rules.DecorrelatedJitter,
	}
)

// readPolicy reads what a client alone keeps to, over its own policy: what is out of range leaves the
// client's own. The floor is this client's share of the fleet's, rounded down, so that clients alone
// never exceed it together.
func readPolicy(said *pb.ClientPolicy, allowance *pb.OfflineAllowance, own *rules.Policy) rules.Policy {
	policy := *own
	if said != nil {
		readRetry(said, &policy)
		take(&policy.PushbackMax, said.GetPushbackMax())
		take(&policy.PushbackSpread, said.GetPushbackSpread())
		readBreaker(said, &policy)
		if ratio := said.GetBudgetRatio(); within(ratio, 0, 10) {
			policy.BudgetRatio = rules.PPM(math.Floor(float64(ratio*1e6) + 0.5))
		}
		takePositive(&policy.BudgetTTL, said.GetBudgetTtl())
	}
	if allowance != nil {
		if rate := allowance.GetRetriesPerSecond(); within(rate, 0, floorMax) {
			policy.BudgetFloorMicros = uint64(rate * 1e6)
		}
	}
	return policy
}

func readRetry(said *pb.ClientPolicy, policy *rules.Policy) {
	if said.GetMaxAttempts() <= attemptsMax {
		policy.MaxAttempts = said.GetMaxAttempts()
	}
	if strategy, known := strategies[said.GetStrategy()]; known {
		policy.Strategy = strategy
	}
	if within(said.GetMultiplier(), 1, 100) {
		policy.Multiplier = said.GetMultiplier()
	}
	take(&policy.MaxDelay, said.GetMaxDelay())
	take(&policy.InitialDelay, said.GetInitialDelay())
	take(&policy.MinDelay, said.GetMinDelay())
	policy.InitialDelay = min(policy.InitialDelay, policy.MaxDelay)
	policy.MinDelay = min(policy.MinDelay, policy.MaxDelay)
	take(&policy.MinAttemptTime, said.GetMinAttemptTime())
	jitter, known := jitters[said.GetJitter()]
	switch {
	case known && jitter != rules.ProportionalJitter:
		policy.Jitter, policy.JitterProportion = jitter, 0
	case known && within(said.GetJitterProportion(), 0, 1):
		policy.Jitter, policy.JitterProportion = jitter, said.GetJitterProportion()
	}
}

func readBreaker(said *pb.ClientPolicy, policy *rules.Policy) {
	policy.BreakerOff = policy.BreakerOff || said.GetBreakerOff()
	takePositive(&policy.OpenFor, said.GetOpenFor())
	takePositive(&policy.OpenMax, said.GetOpenMax())
	policy.OpenMax = max(policy.OpenMax, policy.OpenFor)
	if within(said.GetOpenMultiplier(), 1, 1_000) {
		policy.OpenMultiplier = said.GetOpenMultiplier()
	}
	take(&policy.SlowAfter, said.GetSlowAfter())
}

// within: what is no number is in no range.
func within(value, low, high float64) bool { return value >= low && value <= high }

func take(into *rules.Nanos, said *durationpb.Duration) {
	if span, isSaid, ok := readDuration(said); isSaid && ok && span <= spanMax {
		*into = span
	}
}

func takePositive(into *rules.Nanos, said *durationpb.Duration) {
	if span, _, ok := readDuration(said); ok && span > 0 {
		take(into, said)
	}
}
