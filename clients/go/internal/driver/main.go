// Command driver plays the client's side of the conformance scenarios, as docs/conformance.md says.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdoff/holdoff/clients/go"
)

const farewell = 300 * time.Millisecond

type line struct {
	ID        int      `json:"id"`
	Endpoints []string `json:"endpoints"`
	Control   string   `json:"control"`
	Client    struct {
		Options options `json:"options"`
		Steps   []step  `json:"steps"`
	} `json:"client"`
}

type options struct {
	Service      *string  `json:"service"`
	Instance     *string  `json:"instance"`
	Namespace    string   `json:"namespace"`
	TimeoutMS    *int     `json:"timeout_ms"`
	Follow       []string `json:"follow"`
	OnNoDecision string   `json:"on_no_decision"`
	Mode         string   `json:"mode"`
}

type step struct {
	Do               string   `json:"do"`
	Name             string   `json:"name"`
	WithinMS         *int     `json:"within_ms"`
	MS               int      `json:"ms"`
	EveryMS          *int     `json:"every_ms"`
	ForMS            int      `json:"for_ms"`
	Action           string   `json:"action"`
	Permit           string   `json:"permit"`
	Outcome          *outcome `json:"outcome"`
	Calls            []step   `json:"calls"`
	Times            *int     `json:"times"`
	Dependency       string   `json:"dependency"`
	Function         []entry  `json:"function"`
	TakesMS          int      `json:"takes_ms"`
	Idempotent       bool     `json:"idempotent"`
	DeadlineMS       *int     `json:"deadline_ms"`
	MaxAttempts      *int     `json:"max_attempts"`
	AttemptTimeoutMS *int     `json:"attempt_timeout_ms"`
	Priority         string   `json:"priority"`
	Cost             *uint32  `json:"cost"`
	CallID           string   `json:"call_id"`
	OnDenied         string   `json:"on_denied"`
	Fallback         *string  `json:"fallback"`
	CancelAfterMS    *int     `json:"cancel_after_ms"`

	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
}

type result map[string]any

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	var output sync.Mutex
	var playing sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16*1024*1024)
	for lines.Scan() {
		text := append([]byte(nil), lines.Bytes()...)
		playing.Go(func() {
			answer := answer(text)
			output.Lock()
			defer output.Unlock()
			fmt.Printf("%s\n", answer)
		})
	}
	playing.Wait()
}

func answer(text []byte) []byte {
	var l line
	answer := map[string]any{}
	err := json.Unmarshal(text, &l)
	if err == nil {
		answer["results"], err = play(l)
	}
	answer["id"] = l.ID
	if err != nil {
		delete(answer, "results")
		answer["failed"] = err.Error()
	}
	written, err := json.Marshal(answer)
	if err != nil {
		panic(err)
	}
	return written
}

// player is one scenario.
type player struct {
	client  *holdoff.Client
	control string
	permits map[string]*holdoff.Permit
	results []result
}

func play(l line) ([]result, error) {
	client, err := l.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	p := &player{client: client, control: l.Control, permits: map[string]*holdoff.Permit{}, results: []result{}}
	for _, step := range l.Client.Steps {
		if err := p.step(step); err != nil {
			return nil, err
		}
	}
	for _, permit := range p.permits {
		permit.Release()
	}
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	client.Flush(ctx)
	return p.results, nil
}

func (l line) client() (*holdoff.Client, error) {
	said := l.Client.Options
	if said.Mode == "testing" {
		return holdoff.NewTesting(), nil
	}
	noDecision, known := map[string]holdoff.NoDecision{
		"": holdoff.DecideLocally, "local": holdoff.DecideLocally, "allow": holdoff.AllowFirstAttempts, "deny": holdoff.DenyAll,
	}[said.OnNoDecision]
	if !known {
		return nil, fmt.Errorf("on_no_decision %q", said.OnNoDecision)
	}
	return holdoff.New(
		holdoff.WithEndpoints(l.Endpoints...),
		holdoff.WithService(or(said.Service, "checkout")),
		holdoff.WithInstance(or(said.Instance, "test-1")),
		holdoff.WithNamespace(said.Namespace),
		holdoff.WithTimeout(millis(or(said.TimeoutMS, 50))),
		holdoff.WithFollow(said.Follow...),
		holdoff.WithNoDecision(noDecision),
	)
}

func or[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}

func millis(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func (p *player) step(s step) error {
	within := millis(or(s.WithinMS, 1000))
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var shown result
	var err error
	switch s.Do {
	case "connect":
		shown = result{"done": p.client.Connect(ctx)}
	case "flush":
		shown = result{"done": p.client.Flush(ctx)}
	case "wait":
		time.Sleep(millis(s.MS))
	case "server":
		err = p.askServer(s.Action)
	case "call":
		shown, err = p.calls(s)
	case "parallel":
		err = p.parallel(s.Calls)
	case "acquire":
		options, ctx, cancel := s.options()
		defer cancel()
		permit, denied := p.client.Acquire(ctx, s.Dependency, options...)
		shown = p.keep(ctx, s.Name, permit, denied)
	case "retry":
		permit, told := p.permits[s.Permit], s.Outcome.read()
		delete(p.permits, s.Permit)
		next, denied := permit.Retry(context.Background(), told)
		shown = p.keep(context.Background(), s.Name, next, denied)
	case "report":
		p.permits[s.Permit].Report(s.Outcome.read())
		delete(p.permits, s.Permit)
	case "drop":
		p.permits[s.Permit].Release()
		delete(p.permits, s.Permit)
	case "repeat":
		shown = p.repeat(s)
	case "request":
		shown, err = p.request(s)
	case "until_fleet":
		shown = p.untilFleet(s, within)
	default:
		err = fmt.Errorf("no step %q", s.Do)
	}
	if shown != nil && s.Name != "" {
		shown["name"] = s.Name
		p.results = append(p.results, shown)
	}
	return err
}

func (p *player) parallel(calls []step) error {
	results, errs := make([]result, len(calls)), make([]error, len(calls))
	var running sync.WaitGroup
	for i, call := range calls {
		running.Go(func() { results[i], errs[i] = p.calls(call) })
	}
	running.Wait()
	for i, shown := range results {
		if errs[i] == nil {
			shown["name"] = calls[i].Name
			p.results = append(p.results, shown)
		}
	}
	return errors.Join(errs...)
}

func (p *player) askServer(action string) error {
	conn, err := net.Dial("tcp", p.control)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s\n", action); err != nil {
		return err
	}
	said, err := io.ReadAll(conn)
	if err == nil && string(said) != "done\n" {
		err = fmt.Errorf("the server said %q", said)
	}
	return err
}

func (p *player) keep(ctx context.Context, name string, permit *holdoff.Permit, err error) result {
	if err == nil {
		err = permit.Wait(ctx)
	}
	var denied *holdoff.Denied
	if errors.As(err, &denied) {
		shown := stopped(denied.Denial)
		shown["granted"] = false
		return shown
	}
	p.permits[name] = permit
	return result{"granted": true, "attempt": permit.Attempt(), "probe": permit.IsProbe(), "local": permit.IsLocal()}
}

func (p *player) untilFleet(s step, within time.Duration) result {
	begun := time.Now()
	for time.Since(begun) < within {
		isLocal := true
		err := p.client.Call(context.Background(), s.Dependency, func(_ context.Context, attempt holdoff.Attempt) error {
			isLocal = attempt.IsLocal
			return nil
		})
		if err == nil && !isLocal {
			return result{"back": true, "after_ms": time.Since(begun).Milliseconds()}
		}
		time.Sleep(millis(or(s.EveryMS, 20)))
	}
	return result{"back": false, "after_ms": time.Since(begun).Milliseconds()}
}

// repeat makes calls, one each every_ms, for so long.
func (p *player) repeat(s step) result {
	calls, succeeded, refused := 0, 0, 0
	for begun := time.Now(); time.Since(begun) < millis(s.ForMS); time.Sleep(millis(or(s.EveryMS, 20))) {
		shown := p.call(s)
		calls++
		if shown["value"] != nil {
			succeeded++
		}
		if shown["runs"] == int64(0) {
			refused++
		}
	}
	return result{"calls": calls, "succeeded": succeeded, "refused": refused}
}

// options of a call, and its context.
func (s step) options() ([]holdoff.CallOption, context.Context, context.CancelFunc) {
	options := []holdoff.CallOption{holdoff.ClassifyBy(read)}
	if s.Idempotent {
		options = append(options, holdoff.Idempotent())
	}
	if s.MaxAttempts != nil {
		options = append(options, holdoff.MaxAttempts(*s.MaxAttempts))
	}
	if s.AttemptTimeoutMS != nil {
		options = append(options, holdoff.AttemptTimeout(millis(*s.AttemptTimeoutMS)))
	}
	if s.Cost != nil {
		options = append(options, holdoff.Cost(*s.Cost))
	}
	if s.CallID != "" {
		options = append(options, holdoff.CallID(s.CallID))
	}
	if s.OnDenied == "wait" {
		options = append(options, holdoff.WaitWhenDenied())
	}
	if s.Priority != "" {
		priorities := map[string]holdoff.Priority{"low": holdoff.PriorityLow, "normal": holdoff.PriorityNormal, "high": holdoff.PriorityHigh}
		options = append(options, holdoff.WithPriority(priorities[s.Priority]))
	}
	ctx, cancel := context.WithCancel(context.Background())
	if s.DeadlineMS != nil {
		ctx, cancel = context.WithTimeout(context.Background(), millis(*s.DeadlineMS))
	}
	return options, ctx, cancel
}

// calls are made one after the other.
func (p *player) calls(s step) (result, error) {
	if len(s.Function) == 0 {
		return nil, errors.New("a function does something")
	}
	var last result
	runs, longest := int64(0), int64(0)
	for range or(s.Times, 1) {
		last = p.call(s)
		runs += last["runs"].(int64)
		longest = max(longest, last["total_ms"].(int64))
	}
	last["runs"], last["total_ms"] = runs, longest
	return last, nil
}

func (p *player) call(s step) result {
	options, ctx, cancel := s.options()
	defer cancel()
	begun := time.Now()
	var runs atomic.Int64
	starts := []int64{}
	function := func(ctx context.Context, attempt holdoff.Attempt) (string, error) {
		run := int(runs.Add(1)) - 1
		starts = append(starts, time.Since(begun).Milliseconds())
		return s.Function[min(run, len(s.Function)-1)].run(ctx, s.TakesMS, attempt)
	}
	if s.CancelAfterMS != nil {
		timer := time.AfterFunc(millis(*s.CancelAfterMS), cancel)
		defer timer.Stop()
	}
	var value string
	var err error
	if s.Fallback != nil {
		value, err = holdoff.DoOr(ctx, p.client, s.Dependency, function, func(context.Context, error) (string, error) {
			return *s.Fallback, nil
		}, options...)
	} else {
		value, err = holdoff.Do(ctx, p.client, s.Dependency, function, options...)
	}
	shown := ended(value, err)
	shown["runs"], shown["starts_ms"], shown["total_ms"] = runs.Load(), starts, time.Since(begun).Milliseconds()
	return shown
}

func ended(value string, err error) result {
	var last error
	var denied *holdoff.Denied
	var given *holdoff.Stopped
	var shown result
	switch {
	case err == nil:
		return result{"value": value, "error": nil, "reason": nil, "by": nil, "retry_after_ms": nil}
	case errors.As(err, &given):
		shown, last = stopped(given.Denial), given.Last
	case errors.As(err, &denied):
		shown = stopped(denied.Denial)
	default:
		shown, last = result{}, err
	}
	shown["value"], shown["error"] = nil, nil
	var failure failure
	if errors.As(last, &failure) {
		shown["error"] = failure.Error()
	}
	return shown
}

func stopped(denial holdoff.Denial) result {
	shown := result{"reason": denial.Reason, "by": denial.By, "retry_after_ms": nil}
	if !denial.Final {
		shown["retry_after_ms"] = denial.RetryAfter.Milliseconds()
	}
	return shown
}
