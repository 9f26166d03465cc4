package session

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/rules"
	"github.com/holdoff/holdoff/clients/go/internal/vectors"
)

// wireDuration may be none.
type wireDuration struct {
	Seconds string `json:"seconds"`
	Nanos   int32  `json:"nanos"`
}

func (d *wireDuration) proto(t *testing.T) *durationpb.Duration {
	if d == nil {
		return nil
	}
	seconds, err := strconv.ParseInt(d.Seconds, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return &durationpb.Duration{Seconds: seconds, Nanos: d.Nanos}
}

// span is a text, or null for none.
func span(n rules.Nanos, isSaid bool) *vectors.Nanos {
	if !isSaid {
		return nil
	}
	value := vectors.Nanos(n)
	return &value
}

func equalSpan(a, b *vectors.Nanos) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

func TestAnswerVectors(t *testing.T) {
	type vector struct {
		vectors.Named
		Attempt  uint32 `json:"attempt"`
		Response struct {
			State int32 `json:"state"`
			Grant *struct {
				Delay          *wireDuration `json:"delay"`
				TTL            *wireDuration `json:"permit_ttl"`
				AttemptTimeout *wireDuration `json:"attempt_timeout"`
				Probe          bool          `json:"probe"`
				Confirm        bool          `json:"confirm"`
				PermitBytes    *int          `json:"permit_bytes"`
			} `json:"grant"`
			Denial *struct {
				Reason     int32         `json:"reason"`
				RetryAfter *wireDuration `json:"retry_after"`
			} `json:"denial"`
		} `json:"response"`
		Expected struct {
			Granted *struct {
				Delay          vectors.Nanos  `json:"delay_ns"`
				TTL            *vectors.Nanos `json:"permit_ttl_ns"`
				Probe          bool           `json:"probe"`
				Confirm        bool           `json:"confirm"`
				AttemptTimeout *vectors.Nanos `json:"attempt_timeout_ns"`
			} `json:"granted"`
			Denied *struct {
				Reason     rules.Reason   `json:"reason"`
				RetryAfter *vectors.Nanos `json:"retry_after_ns"`
			} `json:"denied"`
			NoDecision bool   `json:"no_decision"`
			Stops      string `json:"stops"`
		} `json:"expected"`
	}
	vectors.Each(t, "answer", 90, func(t *testing.T, v vector) {
		response := &pb.AcquireResponse{State: pb.BreakerState(v.Response.State)}
		if said := v.Response.Grant; said != nil {
			bytes := 48
			if said.PermitBytes != nil {
				bytes = *said.PermitBytes
			}
			response.Verdict = &pb.AcquireResponse_Grant{Grant: &pb.Grant{
				Delay: said.Delay.proto(t), PermitTtl: said.TTL.proto(t), AttemptTimeout: said.AttemptTimeout.proto(t),
				Probe: said.Probe, Confirm: said.Confirm, Permit: make([]byte, bytes),
			}}
		}
		if said := v.Response.Denial; said != nil {
			response.Verdict = &pb.AcquireResponse_Denial{Denial: &pb.Denial{
				Reason: pb.DenialReason(said.Reason), RetryAfter: said.RetryAfter.proto(t),
			}}
		}
		grant, denial, err := ReadAnswer(response)
		expected := v.Expected
		switch {
		case errors.Is(err, ErrNoDelay) && v.Attempt > 1:
			if expected.Stops != "UNREADABLE" {
				t.Errorf("stops, expected %+v", expected)
			}
		case err != nil:
			if !expected.NoDecision {
				t.Errorf("no decision (%v), expected %+v", err, expected)
			}
		case denial != nil:
			if expected.Denied == nil || denial.Reason != expected.Denied.Reason ||
				!equalSpan(span(denial.RetryAfter, !denial.Final), expected.Denied.RetryAfter) {
				t.Errorf("%+v, expected %+v", denial, expected.Denied)
			}
		default:
			want := expected.Granted
			if want == nil || grant.Delay != rules.Nanos(want.Delay) || grant.Probe != want.Probe || grant.Confirm != want.Confirm ||
				!equalSpan(span(grant.TTL, grant.TTL > 0), want.TTL) ||
				!equalSpan(span(grant.AttemptTimeout, grant.AttemptTimeout > 0), want.AttemptTimeout) {
				t.Errorf("%+v, expected %+v", grant, want)
			}
		}
	})
}

type policyVector struct {
	MaxAttempts      uint32         `json:"max_attempts"`
	Strategy         int32          `json:"strategy"`
	Jitter           int32          `json:"jitter"`
	Multiplier       vectors.Double `json:"multiplier"`
	JitterProportion vectors.Double `json:"jitter_proportion"`
	BudgetRatio      vectors.Double `json:"budget_ratio"`
	OpenMultiplier   vectors.Double `json:"open_multiplier"`
	InitialDelay     *wireDuration  `json:"initial_delay"`
	MaxDelay         *wireDuration  `json:"max_delay"`
	MinDelay         *wireDuration  `json:"min_delay"`
	MinAttemptTime   *wireDuration  `json:"min_attempt_time"`
	PushbackMax      *wireDuration  `json:"pushback_max"`
	PushbackSpread   *wireDuration  `json:"pushback_spread"`
	BudgetTTL        *wireDuration  `json:"budget_ttl"`
	OpenFor          *wireDuration  `json:"open_for"`
	OpenMax          *wireDuration  `json:"open_max"`
	SlowAfter        *wireDuration  `json:"slow_after"`
	BreakerOff       bool           `json:"breaker_off"`
}

func (v *policyVector) proto(t *testing.T) *pb.ClientPolicy {
	if v == nil {
		return nil
	}
	return &pb.ClientPolicy{
		MaxAttempts: v.MaxAttempts, Strategy: pb.Strategy(v.Strategy), Jitter: pb.Jitter(v.Jitter),
		Multiplier: float64(v.Multiplier), JitterProportion: float64(v.JitterProportion),
		BudgetRatio: float64(v.BudgetRatio), OpenMultiplier: float64(v.OpenMultiplier),
		InitialDelay: v.InitialDelay.proto(t), MaxDelay: v.MaxDelay.proto(t), MinDelay: v.MinDelay.proto(t),
		MinAttemptTime: v.MinAttemptTime.proto(t), PushbackMax: v.PushbackMax.proto(t),
		PushbackSpread: v.PushbackSpread.proto(t), BudgetTtl: v.BudgetTTL.proto(t),
		BreakerOff: v.BreakerOff, OpenFor: v.OpenFor.proto(t), OpenMax: v.OpenMax.proto(t), SlowAfter: v.SlowAfter.proto(t),
	}
}

func TestClientPolicyVectors(t *testing.T) {
	type expected struct {
		MaxAttempts      *uint32       `json:"max_attempts"`
		Strategy         string        `json:"strategy"`
		InitialDelay     vectors.Nanos `json:"initial_delay_ns"`
		Multiplier       float64       `json:"multiplier"`
		MaxDelay         vectors.Nanos `json:"max_delay_ns"`
		MinDelay         vectors.Nanos `json:"min_delay_ns"`
		Jitter           string        `json:"jitter"`
		JitterProportion *float64      `json:"jitter_proportion"`
		MinAttemptTime   vectors.Nanos `json:"min_attempt_time_ns"`
		PushbackMax      vectors.Nanos `json:"pushback_max_ns"`
		PushbackSpread   vectors.Nanos `json:"pushback_spread_ns"`
		BudgetRatio      uint32        `json:"budget_ratio_ppm"`
		BudgetTTL        vectors.Nanos `json:"budget_ttl_ns"`
		OpenFor          vectors.Nanos `json:"open_for_ns"`
		OpenMultiplier   float64       `json:"open_multiplier"`
		OpenMax          vectors.Nanos `json:"open_max_ns"`
		SlowAfter        vectors.Nanos `json:"slow_after_ns"`
		FloorMicros      vectors.Nanos `json:"floor_micros_per_second"`
		BreakerOff       bool          `json:"breaker_off"`
	}
	type vector struct {
		vectors.Named
		Said      *policyVector `json:"said"`
		Allowance *struct {
			RetriesPerSecond vectors.Double `json:"retries_per_second"`
		} `json:"allowance"`
		Expected expected `json:"expected"`
	}
	vectors.Each(t, "client_policy", 160, func(t *testing.T, v vector) {
		var allowance *pb.OfflineAllowance
		if v.Allowance != nil {
			allowance = &pb.OfflineAllowance{RetriesPerSecond: float64(v.Allowance.RetriesPerSecond), KnownClients: 3}
		}
		own := rules.OwnPolicy()
		got := readPolicy(v.Said.proto(t), allowance, &own)
		want := rules.Policy{
			Strategy: map[string]rules.Strategy{"fixed": rules.Fixed, "linear": rules.Linear, "exponential": rules.Exponential}[v.Expected.Strategy],
			Jitter: map[string]rules.Jitter{
				"none": rules.NoJitter, "full": rules.FullJitter, "equal": rules.EqualJitter,
				"proportional": rules.ProportionalJitter, "decorrelated": rules.DecorrelatedJitter,
			}[v.Expected.Jitter],
			InitialDelay: rules.Nanos(v.Expected.InitialDelay), Multiplier: v.Expected.Multiplier,
			MaxDelay: rules.Nanos(v.Expected.MaxDelay), MinDelay: rules.Nanos(v.Expected.MinDelay),
			MinAttemptTime: rules.Nanos(v.Expected.MinAttemptTime),
			PushbackMax:    rules.Nanos(v.Expected.PushbackMax), PushbackSpread: rules.Nanos(v.Expected.PushbackSpread),
			BudgetRatio: rules.PPM(v.Expected.BudgetRatio), BudgetFloorMicros: uint64(v.Expected.FloorMicros),
			BudgetTTL: rules.Nanos(v.Expected.BudgetTTL), OpenFor: rules.Nanos(v.Expected.OpenFor),
			OpenMultiplier: v.Expected.OpenMultiplier, OpenMax: rules.Nanos(v.Expected.OpenMax),
			SlowAfter: rules.Nanos(v.Expected.SlowAfter), BreakerOff: v.Expected.BreakerOff,
		}
		if v.Expected.MaxAttempts != nil {
			want.MaxAttempts = *v.Expected.MaxAttempts
		}
		if v.Expected.JitterProportion != nil {
			want.JitterProportion = *v.Expected.JitterProportion
		}
		if got != want {
			t.Errorf("\n got %+v\nwant %+v", got, want)
		}
	})
}

func TestPushedVectors(t *testing.T) {
	type vector struct {
		vectors.Named
		Update struct {
			State         int32         `json:"state"`
			FirstAttempts int32         `json:"first_attempts"`
			Epoch         uint64        `json:"epoch"`
			ValidFor      *wireDuration `json:"valid_for"`
		} `json:"update"`
		After   vectors.Nanos `json:"after_ns"`
		Waiting *struct {
			GrantedIn uint64 `json:"granted_in"`
			Attempt   uint32 `json:"attempt"`
		} `json:"waiting"`
		Alone *struct {
			Sought string  `json:"sought"`
			Since  *uint64 `json:"since"`
		} `json:"alone"`
		Expected struct {
			Word       string         `json:"word"`
			Epoch      *uint64        `json:"epoch"`
			Reason     rules.Reason   `json:"reason"`
			RetryAfter *vectors.Nanos `json:"retry_after_ns"`
			Dropped    *rules.Reason  `json:"dropped"`
			Confirmed  bool           `json:"confirmed"`
			Refused    *struct {
				Reason     rules.Reason  `json:"reason"`
				RetryAfter vectors.Nanos `json:"retry_after_ns"`
			} `json:"refused"`
		} `json:"expected"`
	}
	vectors.Each(t, "pushed", 174, func(t *testing.T, v vector) {
		synctest.Test(t, func(t *testing.T) {
			own := rules.OwnPolicy()
			clock := newClock(func() time.Duration { return 0 })
			pushed := NewPushed(clock, &own, nil)
			pushed.Store(&pb.Update{
				Dependency: "payments", State: pb.BreakerState(v.Update.State), Epoch: v.Update.Epoch,
				FirstAttempts: pb.FirstAttempts(v.Update.FirstAttempts), ValidFor: v.Update.ValidFor.proto(t),
			})
			time.Sleep(rules.Nanos(v.After).Duration())
			now := clock.Now()
			word, heard := pushed.Of("payments").Word(now)
			if v.Alone != nil {
				attempt := map[string]uint32{"first": 1, "extra": 2}[v.Alone.Sought]
				since := uint64(0)
				if v.Alone.Since != nil {
					since = *v.Alone.Since
				}
				refused, expected := heard.RefusedAlone(attempt, since, now), v.Expected.Refused
				if (refused == nil) != (expected == nil) || refused != nil && (refused.Reason != expected.Reason || refused.RetryAfter != rules.Nanos(expected.RetryAfter)) {
					t.Errorf("refused %+v, expected %+v", refused, expected)
				}
				return
			}
			if v.Waiting != nil {
				dropped := heard.Tripped(v.Waiting.GrantedIn, v.Waiting.Attempt, now)
				if (dropped == nil) != (v.Expected.Dropped == nil) || dropped != nil && dropped.Reason != *v.Expected.Dropped {
					t.Errorf("dropped %+v, expected %v", dropped, v.Expected.Dropped)
				}
				if confirmed := heard.StandsBy(v.Waiting.GrantedIn, now); confirmed != v.Expected.Confirmed {
					t.Errorf("confirmed: %v", confirmed)
				}
				return
			}
			if name := [...]string{Ask: "ask", Go: "go", Refuse: "refuse"}[word]; name != v.Expected.Word {
				t.Fatalf("%s, expected %s", name, v.Expected.Word)
			}
			switch word {
			case Go:
				if heard.Epoch != *v.Expected.Epoch {
					t.Errorf("epoch %d", heard.Epoch)
				}
			case Refuse:
				denial := heard.Denial(now)
				if denial.Reason != v.Expected.Reason || denial.RetryAfter != rules.Nanos(*v.Expected.RetryAfter) {
					t.Errorf("%+v, expected %+v", denial, v.Expected)
				}
			}
		})
	})
}

func TestTallyVectors(t *testing.T) {
	type tally struct {
		Dependency    string        `json:"dependency"`
		Epoch         uint64        `json:"epoch"`
		FirstAttempts uint32        `json:"first_attempts"`
		Successes     uint32        `json:"successes"`
		Failures      uint32        `json:"failures"`
		Timeouts      uint32        `json:"timeouts"`
		Throttled     uint32        `json:"throttled"`
		Rejected      uint32        `json:"rejected"`
		Slow          uint32        `json:"slow"`
		Ignored       uint32        `json:"ignored"`
		LatencySum    vectors.Nanos `json:"latency_sum_ns"`
	}
	type vector struct {
		vectors.Named
		Ended []struct {
			Dependency string         `json:"dependency"`
			Epoch      uint64         `json:"epoch"`
			Kind       string         `json:"kind"`
			Latency    *vectors.Nanos `json:"latency_ns"`
			SlowAfter  vectors.Nanos  `json:"slow_after_ns"`
			// StreamBegins is no attempt.
			StreamBegins bool `json:"stream_begins"`
		} `json:"ended"`
		Expected []tally `json:"expected"`
	}
	type key struct {
		dependency string
		epoch      uint64
	}
	vectors.Each(t, "tally", 15, func(t *testing.T, v vector) {
		reports := NewReports(&Counting{})
		counters := map[key]*Counter{}
		for _, ended := range v.Ended {
			if ended.StreamBegins {
				reports.streamBegins()
				continue
			}
			at := key{ended.Dependency, ended.Epoch}
			if counters[at] == nil {
				counters[at] = newCounter(ended.Dependency, ended.Epoch, 0)
			}
			counters[at].slowAfter.Store(uint64(ended.SlowAfter))
			outcome := rules.Outcome{}
			for kind := rules.Success; kind <= rules.Cancelled; kind++ {
				if kind.String() == ended.Kind {
					outcome.Kind = kind
				}
			}
			if ended.Latency != nil {
				outcome.Latency, outcome.HasLatency = rules.Nanos(*ended.Latency), true
			}
			reports.Tally(&Heard{counter: counters[at]}, &outcome)
		}
		var got []tally
		if taken := reports.take(); taken != nil {
			for _, entry := range taken.entries {
				said := entry.GetTally()
				sum, _, _ := readDuration(said.GetLatencySum())
				got = append(got, tally{
					said.GetDependency(), said.GetEpoch(), said.GetFirstAttempts(), said.GetSuccesses(), said.GetFailures(),
					said.GetTimeouts(), said.GetThrottled(), said.GetRejected(), said.GetSlow(), said.GetIgnored(), vectors.Nanos(sum),
				})
			}
		}
		slices.SortFunc(got, func(a, b tally) int {
			return cmp.Or(cmp.Compare(a.Dependency, b.Dependency), cmp.Compare(a.Epoch, b.Epoch))
		})
		if !slices.Equal(got, v.Expected) {
			t.Errorf("\n got %+v\nwant %+v", got, v.Expected)
		}
	})
}
