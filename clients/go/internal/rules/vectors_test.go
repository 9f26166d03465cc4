package rules

import (
	"math"
	"testing"

	"github.com/holdoff/holdoff/clients/go/internal/vectors"
)

var (
	strategies = map[string]Strategy{"fixed": Fixed, "linear": Linear, "exponential": Exponential}
	jitters    = map[string]Jitter{
		"none": NoJitter, "full": FullJitter, "equal": EqualJitter,
		"proportional": ProportionalJitter, "decorrelated": DecorrelatedJitter,
	}
)

func lookup[V any](t *testing.T, table map[string]V, name string) V {
	t.Helper()
	value, ok := table[name]
	if !ok {
		t.Fatalf("unknown word %q", name)
	}
	return value
}

func kindOf(t *testing.T, name string) Kind {
	t.Helper()
	for kind := Success; kind <= Cancelled; kind++ {
		if kind.String() == name {
			return kind
		}
	}
	t.Fatalf("unknown kind %q", name)
	return 0
}

func left(nanos *vectors.Nanos) Left {
	if nanos == nil {
		return Left{}
	}
	return Left{Time: Nanos(*nanos), Bounded: true}
}

type outcomeVector struct {
	Kind            string         `json:"kind"`
	PushbackNS      *vectors.Nanos `json:"pushback_ns"`
	DoNotRetry      bool           `json:"do_not_retry"`
	RetriedBelow    bool           `json:"retried_below"`
	RestartsBackoff bool           `json:"restarts_backoff"`
}

func (v *outcomeVector) outcome(t *testing.T) *Outcome {
	if v == nil {
		return nil
	}
	outcome := &Outcome{
		Kind: kindOf(t, v.Kind), DoNotRetry: v.DoNotRetry,
		RetriedBelow: v.RetriedBelow, RestartsBackoff: v.RestartsBackoff,
	}
	if v.PushbackNS != nil {
		outcome.Pushback, outcome.HasPushback = Nanos(*v.PushbackNS), true
	}
	return outcome
}

func TestBackoffVectors(t *testing.T) {
	type vector struct {
		vectors.Named
		Policy struct {
			Strategy   string        `json:"strategy"`
			Initial    vectors.Nanos `json:"initial_delay_ns"`
			Multiplier float64       `json:"multiplier"`
			Max        vectors.Nanos `json:"max_delay_ns"`
			Min        vectors.Nanos `json:"min_delay_ns"`
			Jitter     string        `json:"jitter"`
			Proportion float64       `json:"proportion"`
		} `json:"policy"`
		Retry    uint32        `json:"retry"`
		Previous vectors.Nanos `json:"previous_delay_ns"`
		Sample   float64       `json:"sample"`
		Expected struct {
			Ceiling vectors.Nanos `json:"ceiling_ns"`
			Delay   vectors.Nanos `json:"delay_ns"`
		} `json:"expected"`
	}
	vectors.Each(t, "backoff", 120, func(t *testing.T, v vector) {
		policy := Policy{
			Strategy:     lookup(t, strategies, v.Policy.Strategy),
			InitialDelay: Nanos(v.Policy.Initial), Multiplier: v.Policy.Multiplier,
			MaxDelay: Nanos(v.Policy.Max), MinDelay: Nanos(v.Policy.Min),
			Jitter: lookup(t, jitters, v.Policy.Jitter), JitterProportion: v.Policy.Proportion,
		}
		if ceiling := Ceiling(&policy, v.Retry); ceiling != Nanos(v.Expected.Ceiling) {
			t.Errorf("ceiling %d, expected %d", ceiling, v.Expected.Ceiling)
		}
		if delay := Delay(&policy, v.Retry, Nanos(v.Previous), v.Sample); delay != Nanos(v.Expected.Delay) {
			t.Errorf("delay %d, expected %d", delay, v.Expected.Delay)
		}
	})
}

func TestPushbackHTTPVectors(t *testing.T) {
	type vector struct {
		vectors.Named
		Value    string         `json:"value"`
		Date     *string        `json:"date"`
		Wall     int64          `json:"wall_unix_seconds"`
		Expected *vectors.Nanos `json:"expected_ns"`
	}
	vectors.Each(t, "pushback_http", 45, func(t *testing.T, v vector) {
		date := ""
		if v.Date != nil {
			date = *v.Date
		}
		wait, ok := RetryAfter(v.Value, date, v.Wall)
		checkOptional(t, wait, ok, v.Expected)
	})
}

func checkOptional(t *testing.T, got Nanos, has bool, expected *vectors.Nanos) {
	t.Helper()
	if has != (expected != nil) || (has && got != Nanos(*expected)) {
		t.Errorf("%d (%v), expected %v", got, has, expected)
	}
}

func TestPushbackGRPCVectors(t *testing.T) {
	type vector struct {
		vectors.Named
		Value    string `json:"value"`
		Expected struct {
			After      *vectors.Nanos `json:"after_ns"`
			DoNotRetry bool           `json:"do_not_retry"`
		} `json:"expected"`
	}
	vectors.Each(t, "pushback_grpc", 20, func(t *testing.T, v vector) {
		wait, ok := GRPCPushback(v.Value)
		checkOptional(t, wait, ok, v.Expected.After)
		if v.Expected.DoNotRetry == ok {
			t.Errorf("%q is a wait: %v", v.Value, ok)
		}
	})
}

func TestBudgetVectors(t *testing.T) {
	type vector struct {
		vectors.Named
		Policy struct {
			Ratio float64       `json:"ratio"`
			Floor float64       `json:"floor_per_second"`
			TTL   vectors.Nanos `json:"ttl_ns"`
		} `json:"policy"`
		Steps []struct {
			Now      vectors.Nanos `json:"now_ns"`
			Do       string        `json:"do"`
			Count    uint32        `json:"count"`
			Expected *struct {
				Granted       uint32 `json:"granted"`
				FirstAttempts uint64 `json:"first_attempts"`
				Retries       uint64 `json:"retries"`
				Allowed       uint64 `json:"allowed"`
			} `json:"expected"`
		} `json:"steps"`
	}
	vectors.Each(t, "budget", 15, func(t *testing.T, v vector) {
		policy := Policy{
			BudgetRatio:       PPM(math.Round(v.Policy.Ratio * 1e6)),
			BudgetFloorMicros: uint64(math.Round(v.Policy.Floor * 1e6)),
			BudgetTTL:         Nanos(v.Policy.TTL),
		}
		var budget Budget
		for i, step := range v.Steps {
			now := Time(step.Now)
			granted := uint32(0)
			switch step.Do {
			case "deposit":
				budget.Deposit(&policy, step.Count, now)
			case "ask":
				for range step.Count {
					if level := budget.Level(&policy, now); level.Retries < level.Allowed {
						budget.Withdraw(&policy, now)
						granted++
					}
				}
			default:
				t.Fatalf("unknown step %q", step.Do)
			}
			if step.Expected == nil {
				continue
			}
			level := budget.Level(&policy, now)
			expected := Level{step.Expected.FirstAttempts, step.Expected.Retries, step.Expected.Allowed}
			if granted != step.Expected.Granted || level != expected {
				t.Errorf("step %d: granted %d, %+v, expected %+v", i, granted, level, *step.Expected)
			}
		}
	})
}

func TestDetectorVectors(t *testing.T) {
	type vector struct {
		vectors.Named
		Steps []struct {
			Now       vectors.Nanos `json:"now_ns"`
			Successes uint32        `json:"successes"`
			Failures  uint32        `json:"failures"`
			Expected  struct {
				Trips bool    `json:"trips"`
				Sum   float64 `json:"sum"`
			} `json:"expected"`
		} `json:"steps"`
	}
	vectors.Each(t, "detector", 12, func(t *testing.T, v vector) {
		detector := NewDetector()
		for i, step := range v.Steps {
			trips := detector.Record(step.Successes, step.Failures, Time(step.Now))
			isFar := step.Expected.Sum < 1000 && math.Abs(detector.Sum()-step.Expected.Sum) > 0.01
			if trips != step.Expected.Trips || isFar {
				t.Errorf("step %d: trips %v, sum %f, expected %+v", i, trips, detector.Sum(), step.Expected)
			}
		}
	})
}

func TestClassifyHTTPVectors(t *testing.T) {
	type vector struct {
		vectors.Named
		Status   int         `json:"status"`
		Headers  [][2]string `json:"headers"`
		Wall     int64       `json:"wall_unix_seconds"`
		Expected struct {
			Kind       string         `json:"kind"`
			StatusCode uint32         `json:"status_code"`
			Pushback   *vectors.Nanos `json:"pushback_ns"`
		} `json:"expected"`
	}
	vectors.Each(t, "classify_http", 140, func(t *testing.T, v vector) {
		values := headerValues(v.Headers)
		outcome := HTTPOutcome(v.Status, values["retry-after"], values["date"], v.Wall)
		checkOptional(t, outcome.Pushback, outcome.HasPushback, v.Expected.Pushback)
		if outcome.Kind != kindOf(t, v.Expected.Kind) || outcome.StatusCode != v.Expected.StatusCode || outcome.DoNotRetry {
			t.Errorf("%+v, expected %+v", outcome, v.Expected)
		}
	})
}

func TestClassifyGRPCVectors(t *testing.T) {
	type vector struct {
		vectors.Named
		Code     uint32   `json:"code"`
		Pushback []string `json:"pushback"`
		Expected struct {
			Kind            string         `json:"kind"`
			StatusCode      uint32         `json:"status_code"`
			Pushback        *vectors.Nanos `json:"pushback_ns"`
			RestartsBackoff bool           `json:"restarts_backoff"`
			DoNotRetry      bool           `json:"do_not_retry"`
		} `json:"expected"`
	}
	vectors.Each(t, "classify_grpc", 70, func(t *testing.T, v vector) {
		outcome := GRPCOutcome(v.Code, v.Pushback)
		checkOptional(t, outcome.Pushback, outcome.HasPushback, v.Expected.Pushback)
		if outcome.Kind != kindOf(t, v.Expected.Kind) || outcome.StatusCode != v.Expected.StatusCode ||
			outcome.DoNotRetry != v.Expected.DoNotRetry || outcome.RestartsBackoff != v.Expected.RestartsBackoff {
			t.Errorf("%+v, expected %+v", outcome, v.Expected)
		}
	})
}

func TestOwnWordsVectors(t *testing.T) {
	type vector struct {
		vectors.Named
		Attempt     uint32         `json:"attempt"`
		MaxAttempts uint32         `json:"max_attempts"`
		Safety      string         `json:"safety"`
		Previous    *outcomeVector `json:"previous"`
		TimeLeft    *vectors.Nanos `json:"time_left_ns"`
		Expected    struct {
			Refused *Reason `json:"refused"`
		} `json:"expected"`
	}
	safeties := map[string]bool{"unsafe": false, "idempotent": true, "keyed": true}
	vectors.Each(t, "own_words", 60, func(t *testing.T, v vector) {
		var refused Reason
		if l := left(v.TimeLeft); l.Reaches(0) && l.Time == 0 {
			refused = Deadline
		} else if v.Previous != nil {
			refused = OwnWords(v.Previous.outcome(t), v.Attempt, v.MaxAttempts, lookup(t, safeties, v.Safety))
		}
		expected := Reason("")
		if v.Expected.Refused != nil {
			expected = *v.Expected.Refused
		}
		if refused != expected {
			t.Errorf("%q, expected %q", refused, expected)
		}
	})
}

func TestClampVectors(t *testing.T) {
	type vector struct {
		vectors.Named
		Wait *struct {
			Delay vectors.Nanos  `json:"delay_ns"`
			Left  *vectors.Nanos `json:"time_left_ns"`
		} `json:"wait"`
		Lease *struct {
			Lease vectors.Nanos `json:"lease_ns"`
		} `json:"lease"`
		AskAgain *struct {
			Reason     Reason         `json:"reason"`
			RetryAfter *vectors.Nanos `json:"retry_after_ns"`
			Left       *vectors.Nanos `json:"time_left_ns"`
		} `json:"ask_again"`
		HeldBack *struct {
			KnownClients uint32         `json:"known_clients"`
			Left         *vectors.Nanos `json:"time_left_ns"`
			Sample       float64        `json:"sample"`
		} `json:"held_back"`
		Shut *struct {
			FailedTrials uint32  `json:"failed_trials"`
			Sample       float64 `json:"sample"`
		} `json:"shut"`
		Expected struct {
			Denied Reason         `json:"denied"`
			Wait   *vectors.Nanos `json:"wait_ns"`
			Use    *vectors.Nanos `json:"use_ns"`
			Shut   *vectors.Nanos `json:"shut_ns"`
			Held   *vectors.Nanos `json:"held_ns"`
		} `json:"expected"`
	}
	vectors.Each(t, "clamp", 60, func(t *testing.T, v vector) {
		switch {
		case v.Wait != nil:
			wait, fits := ClampDelay(Nanos(v.Wait.Delay), left(v.Wait.Left))
			checkOptional(t, wait, fits, v.Expected.Wait)
			if fits == (v.Expected.Denied == Deadline) {
				t.Errorf("fits: %v, expected %+v", fits, v.Expected)
			}
		case v.Lease != nil:
			checkOptional(t, LeaseUse(Nanos(v.Lease.Lease)), true, v.Expected.Use)
		case v.AskAgain != nil:
			denial := Denial{Reason: v.AskAgain.Reason, Final: v.AskAgain.RetryAfter == nil}
			if !denial.Final {
				denial.RetryAfter = Nanos(*v.AskAgain.RetryAfter)
			}
			wait, again := AskAgain(&denial, left(v.AskAgain.Left))
			checkOptional(t, wait, again, v.Expected.Wait)
		case v.HeldBack != nil:
			checkOptional(t, HeldBack(v.HeldBack.KnownClients, left(v.HeldBack.Left), v.HeldBack.Sample), true, v.Expected.Held)
		case v.Shut != nil:
			checkOptional(t, ShutFor(v.Shut.FailedTrials, v.Shut.Sample), true, v.Expected.Shut)
		default:
			t.Fatal("a clamp of nothing")
		}
	})
}
