package rules

import (
	"encoding/json"
	"testing"

	"github.com/holdoff/holdoff/clients/go/internal/vectors"
)

type localStep struct {
	Do         string         `json:"do"`
	Now        vectors.Nanos  `json:"now_ns"`
	As         string         `json:"as"`
	Permit     string         `json:"permit"`
	Made       string         `json:"made"`
	Attempt    uint32         `json:"attempt"`
	Idempotent *bool          `json:"idempotent"`
	Outcome    *outcomeVector `json:"outcome"`
	Left       *vectors.Nanos `json:"time_left_ns"`
	Reason     Reason         `json:"reason"`
	RetryAfter *vectors.Nanos `json:"retry_after_ns"`
	Jitter     float64        `json:"jitter"`
	Spread     float64        `json:"spread"`
	Expected   *localExpected `json:"expected"`
}

type localExpected struct {
	Granted *struct {
		Delay   vectors.Nanos `json:"delay_ns"`
		Probe   bool          `json:"probe"`
		Confirm bool          `json:"confirm"`
	} `json:"granted"`
	Denied *struct {
		Reason     Reason         `json:"reason"`
		RetryAfter *vectors.Nanos `json:"retry_after_ns"`
	} `json:"denied"`
}

type localPolicy struct {
	MaxAttempts      json.RawMessage `json:"max_attempts"`
	Strategy         string          `json:"strategy"`
	Jitter           string          `json:"jitter"`
	JitterProportion float64         `json:"jitter_proportion"`
	InitialDelay     *vectors.Nanos  `json:"initial_delay_ns"`
	MinDelay         *vectors.Nanos  `json:"min_delay_ns"`
	MinAttemptTime   *vectors.Nanos  `json:"min_attempt_time_ns"`
	BudgetRatio      *uint32         `json:"budget_ratio_ppm"`
	FloorMicros      *vectors.Nanos  `json:"floor_micros_per_second"`
	BreakerOff       bool            `json:"breaker_off"`
	OpenFor          *vectors.Nanos  `json:"open_for_ns"`
	OpenMultiplier   *float64        `json:"open_multiplier"`
	OpenMax          *vectors.Nanos  `json:"open_max_ns"`
}

func (v *localPolicy) policy(t *testing.T) *Policy {
	policy := OwnPolicy()
	if v.MaxAttempts != nil {
		policy.MaxAttempts = Unlimited
		if err := json.Unmarshal(v.MaxAttempts, &policy.MaxAttempts); err != nil {
			t.Fatal(err)
		}
	}
	if v.Strategy != "" {
		policy.Strategy = lookup(t, strategies, v.Strategy)
	}
	if v.Jitter != "" {
		policy.Jitter, policy.JitterProportion = lookup(t, jitters, v.Jitter), v.JitterProportion
	}
	for into, said := range map[*Nanos]*vectors.Nanos{
		&policy.InitialDelay: v.InitialDelay, &policy.MinDelay: v.MinDelay,
		&policy.MinAttemptTime: v.MinAttemptTime, &policy.OpenFor: v.OpenFor, &policy.OpenMax: v.OpenMax,
	} {
		if said != nil {
			*into = Nanos(*said)
		}
	}
	if v.BudgetRatio != nil {
		policy.BudgetRatio = PPM(*v.BudgetRatio)
	}
	if v.FloorMicros != nil {
		policy.BudgetFloorMicros = uint64(*v.FloorMicros)
	}
	policy.BreakerOff = v.BreakerOff
	if v.OpenMultiplier != nil {
		policy.OpenMultiplier = *v.OpenMultiplier
	}
	return &policy
}

// story is one process and one dependency.
type story struct {
	policy     *Policy
	local      *Local
	strictness Strictness
	permits    map[string]*Permit
}

func TestLocalVectors(t *testing.T) {
	type vector struct {
		vectors.Named
		Policy localPolicy `json:"policy"`
		Mode   string      `json:"mode"`
		Steps  []localStep `json:"steps"`
	}
	modes := map[string]Strictness{"all": AllRules, "retries_only": RetriesOnly}
	vectors.Each(t, "local", 150, func(t *testing.T, v vector) {
		story := story{
			policy: v.Policy.policy(t), local: NewLocal(0),
			strictness: lookup(t, modes, v.Mode), permits: map[string]*Permit{},
		}
		for i, step := range v.Steps {
			story.step(t, i, step)
		}
	})
}

func (s *story) step(t *testing.T, i int, step localStep) {
	now, draws := Time(step.Now), Draws{step.Jitter, step.Spread}
	var grant Grant
	var denial *Denial
	switch step.Do {
	case "first", "retry":
		question := Question{Attempt: 1, Safe: step.Idempotent == nil || *step.Idempotent, Left: left(step.Left), Strictness: s.strictness}
		if step.Do == "retry" {
			question.Attempt, question.Previous = step.Attempt, step.Outcome.outcome(t)
			if step.Made == "" {
				question.MadeUnder = lookup(t, s.permits, step.Permit)
			}
		}
		grant, denial = s.local.Ask(s.policy, &question, now, draws)
		if denial == nil && step.As != "" {
			s.permits[step.As] = grant.Permit
		}
	case "confirm":
		grant, denial = s.local.Confirm(s.policy, lookup(t, s.permits, step.Permit), left(step.Left), s.strictness, now, draws)
	case "report":
		s.local.Report(s.policy, lookup(t, s.permits, step.Permit), step.Outcome.outcome(t), s.strictness, now)
		return
	case "told":
		told := Denial{Reason: step.Reason, Final: step.RetryAfter == nil}
		if !told.Final {
			told.RetryAfter = Nanos(*step.RetryAfter)
		}
		s.local.Told(&told, now)
		return
	case "let_go":
		s.local.LetGo(now)
		return
	default:
		t.Fatalf("step %d: unknown %q", i, step.Do)
	}
	checkAnswer(t, i, grant, denial, step.Expected)
}

func checkAnswer(t *testing.T, i int, grant Grant, denial *Denial, expected *localExpected) {
	t.Helper()
	switch {
	case expected == nil:
		t.Errorf("step %d expects nothing", i)
	case denial != nil && expected.Denied != nil:
		if denial.Reason != expected.Denied.Reason {
			t.Errorf("step %d: %s, expected %s", i, denial.Reason, expected.Denied.Reason)
		}
		checkOptional(t, denial.RetryAfter, !denial.Final, expected.Denied.RetryAfter)
	case denial == nil && expected.Granted != nil:
		want := expected.Granted
		if grant.Delay != Nanos(want.Delay) || grant.Probe != want.Probe || grant.Confirm != want.Confirm {
			t.Errorf("step %d: %+v, expected %+v", i, grant, *want)
		}
	default:
		t.Errorf("step %d: %+v %+v, expected %+v", i, grant, denial, expected)
	}
}

func TestWhatTheServiceDeniedBindsNoAttemptThatItLetGoAndTheOwnBreakerDoes(t *testing.T) {
	policy := OwnPolicy()
	local := NewLocal(0)
	local.Told(&Denial{Reason: Held, RetryAfter: 60 * Second}, 0)
	ask := func(strictness Strictness) *Denial {
		_, denial := local.Ask(&policy, &Question{Attempt: 1, Strictness: strictness}, 0, Draws{})
		return denial
	}
	if denial := ask(AllRules); denial == nil || denial.Reason != Held {
		t.Errorf("%+v", denial)
	}
	if denial := ask(OwnRecord); denial != nil {
		t.Errorf("%+v", denial)
	}
	for range 5 {
		local.Note(&policy, &Question{Attempt: 2, Previous: &Outcome{Kind: Failure}}, 0)
	}
	if denial := ask(OwnRecord); denial == nil || denial.Reason != BreakerOpen {
		t.Errorf("%+v", denial)
	}
}
