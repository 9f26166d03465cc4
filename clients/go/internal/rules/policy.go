package rules

// Strategy is how the ceiling of a delay grows with the retries of a call.
type Strategy uint8

// The strategies.
const (
	Exponential Strategy = iota
	Linear
	Fixed
)

// Jitter is how a delay is drawn below its ceiling.
type Jitter uint8

// The jitters.
const (
	FullJitter Jitter = iota
	NoJitter
	EqualJitter
	ProportionalJitter
	DecorrelatedJitter
)

// PPM is an exact share in parts per million: 0.2 is 200,000.
type PPM uint32

// Policy is what a client on its own keeps to.
type Policy struct {
	// MaxAttempts counts the first call; 0: no limit.
	MaxAttempts      uint32
	Strategy         Strategy
	InitialDelay     Nanos
	Multiplier       float64
	MaxDelay         Nanos
	MinDelay         Nanos
	Jitter           Jitter
	JitterProportion float64 // 0 to 1; of ProportionalJitter alone
	MinAttemptTime   Nanos

	PushbackMax    Nanos
	PushbackSpread Nanos

	BudgetRatio PPM
	// BudgetFloorMicros is in millionths of a retry a second.
	BudgetFloorMicros uint64
	BudgetTTL         Nanos

	// BreakerOff: there is no breaker and no evidence.
	BreakerOff     bool
	OpenFor        Nanos
	OpenMultiplier float64
	OpenMax        Nanos
	// SlowAfter is the latency from which a call is slow; 0: none is.
	SlowAfter Nanos
}

// OwnPolicy is kept to before the service has said anything: a budget of a tenth of this process's own
// calls and one retry a second.
func OwnPolicy() Policy {
	return Policy{
		MaxAttempts:       3,
		Strategy:          Exponential,
		InitialDelay:      100 * Millisecond,
		Multiplier:        2,
		MaxDelay:          10 * Second,
		Jitter:            FullJitter,
		PushbackMax:       60 * Second,
		PushbackSpread:    Second,
		BudgetRatio:       100_000,
		BudgetFloorMicros: 1_000_000,
		BudgetTTL:         10 * Second,
		OpenFor:           10 * Second,
		OpenMultiplier:    2,
		OpenMax:           60 * Second,
	}
}
