package holdoff

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/holdoff/holdoff/clients/go/holdoffpb"
	"github.com/holdoff/holdoff/clients/go/internal/scripted"
)

func seconds(n int64) *durationpb.Duration { return &durationpb.Duration{Seconds: n} }

func planned(change func(*pb.PlanCheckResponse, *pb.CheckRun)) *pb.PlanCheckResponse {
	run := &pb.CheckRun{Delay: seconds(0), Timeout: seconds(2), Permit: []byte("permit")}
	said := &pb.PlanCheckResponse{
		Plan: &pb.PlanCheckResponse_Run{Run: run}, Verdict: pb.CheckVerdict_CHECK_VERDICT_UNKNOWN, Period: seconds(30),
	}
	change(said, run)
	return said
}

func TestAPlanThatLeavesOutOrOversteppesIsNoPlanAndNeverNow(t *testing.T) {
	if _, err := readPlan(planned(func(*pb.PlanCheckResponse, *pb.CheckRun) {})); err != nil {
		t.Fatal(err)
	}
	shared := func(s *pb.CheckShared) func(*pb.PlanCheckResponse, *pb.CheckRun) {
		return func(said *pb.PlanCheckResponse, _ *pb.CheckRun) { said.Plan = &pb.PlanCheckResponse_Shared{Shared: s} }
	}
	for name, change := range map[string]func(*pb.PlanCheckResponse, *pb.CheckRun){
		"no plan":          func(said *pb.PlanCheckResponse, _ *pb.CheckRun) { said.Plan = nil },
		"no delay":         func(_ *pb.PlanCheckResponse, run *pb.CheckRun) { run.Delay = nil },
		"no timeout":       func(_ *pb.PlanCheckResponse, run *pb.CheckRun) { run.Timeout = nil },
		"negative delay":   func(_ *pb.PlanCheckResponse, run *pb.CheckRun) { run.Delay = seconds(-1) },
		"delay of a year":  func(_ *pb.PlanCheckResponse, run *pb.CheckRun) { run.Delay = seconds(31_536_000) },
		"timeout of zero":  func(_ *pb.PlanCheckResponse, run *pb.CheckRun) { run.Timeout = seconds(0) },
		"timeout too long": func(_ *pb.PlanCheckResponse, run *pb.CheckRun) { run.Timeout = seconds(3_601) },
		"a huge permit":    func(_ *pb.PlanCheckResponse, run *pb.CheckRun) { run.Permit = make([]byte, 1<<20) },
		"period of zero":   func(said *pb.PlanCheckResponse, _ *pb.CheckRun) { said.Period = seconds(0) },
		"unknown verdict":  func(said *pb.PlanCheckResponse, _ *pb.CheckRun) { said.Verdict = 4 },
		"no time shared":   shared(&pb.CheckShared{Verdict: 1}),
		"unknown shared":   shared(&pb.CheckShared{Verdict: 0, AskAgain: seconds(30)}),
	} {
		if _, err := readPlan(planned(change)); err == nil {
			t.Errorf("%s: it was read", name)
		}
	}
}

func TestTheGridIsThatOfTheAnchorAndALateRunTakesTheNextTime(t *testing.T) {
	begun := time.Now()
	s := schedule{anchor: begun.Add(7 * time.Second), period: 10 * time.Second}
	for now, next := range map[int]int{0: 7, 6: 7, 7: 17, 16: 17, 17: 27, 1_000: 1_007} {
		at := s.after(begun.Add(time.Duration(now) * time.Second)).Sub(begun)
		if at != time.Duration(next)*time.Second {
			t.Errorf("after %d s: %v, expected %d s", now, at, next)
		}
	}
}

func TestWithoutAServiceChecksRunOnTheirOwnGrid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs []time.Time
		checked := alone().Check(t.Context(), "payments", func(ctx context.Context) error {
			runs = append(runs, time.Now())
			if len(runs) == 2 {
				<-ctx.Done()
			}
			return ctx.Err()
		}, CheckPeriod(10*time.Second), CheckTimeout(time.Second), CheckRuns(3))
		if checked.Runs != 3 || checked.LastErr != nil || len(runs) != 3 {
			t.Fatalf("%+v", checked)
		}
		for i := range 2 {
			if apart := runs[i+1].Sub(runs[i]); apart != 10*time.Second {
				t.Errorf("%v apart", apart)
			}
		}
	})
}

func TestTheServicePlansChecksAndHearsTheirResults(t *testing.T) {
	var asked []*pb.PlanCheckRequest
	service := (&scripted.Service{Plan: func(request *pb.PlanCheckRequest) *pb.PlanCheckResponse {
		asked = append(asked, request)
		return planned(func(said *pb.PlanCheckResponse, _ *pb.CheckRun) {
			if len(asked) == 2 {
				said.Plan = &pb.PlanCheckResponse_Shared{Shared: &pb.CheckShared{Verdict: 2, Age: seconds(3), AskAgain: seconds(0)}}
			}
		})
	}}).Start(t)
	client, err := New(WithEndpoints(service.Address), WithTimeout(2*time.Second), WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var findings []Finding
	checked := client.Check(t.Context(), "payments", func(context.Context) error { return errFell },
		CheckRuns(2), OnFinding(func(finding Finding) { findings = append(findings, finding) }))
	if checked.Runs != 2 || !errors.Is(checked.LastErr, errFell) || len(findings) != 3 {
		t.Fatalf("%+v %+v", checked, findings)
	}
	if shared, is := findings[1].(CheckShared); !is || shared.Verdict != Unhealthy || shared.Age != 3*time.Second {
		t.Errorf("%+v", findings[1])
	}
	if ran, is := findings[0].(CheckRan); !is || ran.IsLocal || ran.Fleet != VerdictUnknown {
		t.Errorf("%+v", findings[0])
	}
	if asked[0].GetLastResult() != nil || asked[1].GetLastResult().GetVerdict() != pb.CheckVerdict_CHECK_VERDICT_UNHEALTHY {
		t.Errorf("%v", asked)
	}
}

func TestADependencyWithoutAPlanIsCheckedAndThatIsToldOnce(t *testing.T) {
	service := (&scripted.Service{}).Start(t)
	client, err := New(WithEndpoints(service.Address), WithTimeout(2*time.Second), WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	told := 0
	checked := client.Check(t.Context(), "payments", func(context.Context) error { return nil },
		CheckPeriod(20*time.Millisecond), CheckRuns(3), OnFinding(func(finding Finding) {
			if _, is := finding.(CheckNotPlanned); is {
				told++
			}
		}))
	if checked.Runs != 3 || told != 1 {
		t.Errorf("%+v, told %d times", checked, told)
	}
}
