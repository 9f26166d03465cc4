package holdoff

import (
	"fmt"
	"math"
	"time"

	"github.com/holdoff/holdoff/clients/go/internal/rules"
)

// LocalPolicy is what a client keeps to while it decides alone, before the service has pushed its own.
// Begin with [DefaultLocalPolicy] and change what differs.
type LocalPolicy struct {
	// MaxAttempts counts the first call: 1 to 1,000; 0: no limit.
	MaxAttempts int
	// Delays are 0 to 24 h: uniform below InitialDelay, which grows by Multiplier (1 to 100) with each
	// retry up to MaxDelay.
	InitialDelay time.Duration
	Multiplier   float64
	MaxDelay     time.Duration
	// PushbackMax is the longest wait a dependency may ask for, 0 to 24 h.
	PushbackMax time.Duration
	// BudgetRatio are retries for each first attempt, 0 to 10, and BudgetFloor retries a second on top,
	// 0 to 1,000,000, over any window of BudgetWindow, above 0 to 24 h.
	BudgetRatio  float64
	BudgetFloor  float64
	BudgetWindow time.Duration
	// OpenFor is how long the breaker is open at first, above 0; it doubles up to OpenMax, at most 24 h.
	OpenFor, OpenMax time.Duration
}

// DefaultLocalPolicy has a budget of a tenth of this process's own calls and one retry a second.
func DefaultLocalPolicy() LocalPolicy {
	p := rules.OwnPolicy()
	return LocalPolicy{
		MaxAttempts:  int(p.MaxAttempts),
		InitialDelay: p.InitialDelay.Duration(), Multiplier: p.Multiplier, MaxDelay: p.MaxDelay.Duration(),
		PushbackMax: p.PushbackMax.Duration(),
		BudgetRatio: float64(p.BudgetRatio) / 1e6, BudgetFloor: float64(p.BudgetFloorMicros) / 1e6,
		BudgetWindow: p.BudgetTTL.Duration(),
		OpenFor:      p.OpenFor.Duration(), OpenMax: p.OpenMax.Duration(),
	}
}

func (p LocalPolicy) read() (rules.Policy, error) {
	const day = 24 * time.Hour
	checks := []error{
		between("MaxAttempts", p.MaxAttempts, 0, 1_000),
		between("InitialDelay", p.InitialDelay, 0, p.MaxDelay),
		between("Multiplier", p.Multiplier, 1, 100),
		between("MaxDelay", p.MaxDelay, 0, day),
		between("PushbackMax", p.PushbackMax, 0, day),
		between("BudgetRatio", p.BudgetRatio, 0, 10),
		between("BudgetFloor", p.BudgetFloor, 0, 1_000_000),
		between("BudgetWindow", p.BudgetWindow, 1, day),
		between("OpenFor", p.OpenFor, 1, p.OpenMax),
		between("OpenMax", p.OpenMax, 1, day),
	}
	for _, err := range checks {
		if err != nil {
			return rules.Policy{}, err
		}
	}
	policy := rules.OwnPolicy()
	policy.MaxAttempts = uint32(p.MaxAttempts)
	policy.InitialDelay, policy.MaxDelay = rules.NanosOf(p.InitialDelay), rules.NanosOf(p.MaxDelay)
	policy.Multiplier = p.Multiplier
	policy.PushbackMax = rules.NanosOf(p.PushbackMax)
	policy.BudgetRatio = rules.PPM(math.Floor(float64(p.BudgetRatio*1e6) + 0.5))
	policy.BudgetFloorMicros = uint64(p.BudgetFloor * 1e6)
	policy.BudgetTTL = rules.NanosOf(p.BudgetWindow)
	policy.OpenFor, policy.OpenMax = rules.NanosOf(p.OpenFor), rules.NanosOf(p.OpenMax)
	return policy, nil
}

// between: no number is not.
func between[N int | float64 | time.Duration](field string, value, low, high N) error {
	if value >= low && value <= high {
		return nil
	}
	return fmt.Errorf("holdoff: LocalPolicy.%s %v: it must be %v to %v", field, value, low, high)
}
