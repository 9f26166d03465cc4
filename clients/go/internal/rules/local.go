package rules

const (
	probeLease     = 5 * Second
	probeSpread    = 2 * Second
	proven         = 2 // successes of probes that close
	healthyReset   = 60 * Second
	levelMax       = 64
	confirmAbove   = Second
	rememberedMost = ValidMax
)

// Strictness is how much of the rules binds.
type Strictness uint8

// The ways to be alone.
const (
	// AllRules bind.
	AllRules Strictness = iota
	// OwnRecord binds, and nothing that the service denied: it has let this attempt go.
	OwnRecord
	// RetriesOnly: no breaker, no evidence, and nothing that the service said.
	RetriesOnly
)

// Local is what one process knows of one dependency while it decides alone: the service's own rules,
// with less evidence. It is not safe for concurrent use.
type Local struct {
	breaker breaker
	budget  Budget
	told    told
}

// NewLocal knows nothing.
func NewLocal(now Time) *Local {
	return &Local{breaker: newBreaker(now)}
}

func hasBreaker(p *Policy, strictness Strictness) bool {
	return strictness != RetriesOnly && !p.BreakerOff
}

// told is what the service last denied for all.
type told struct {
	reason       Reason
	detail       string
	since, until Time
}

// Permit remembers under what a local attempt is made. It belongs to the record that granted it.
type Permit struct {
	epoch uint64
	at    Time
	delay Nanos
	// retry is 0 for a first attempt.
	retry   uint32
	isTaken bool
	isVoid  bool
	isProbe bool
	// leaseEnds is that of a probe.
	leaseEnds Time
}

// Draws are two numbers in [0, 1).
type Draws struct{ Jitter, Spread float64 }

// Question asks for an attempt.
type Question struct {
	// Attempt is 1-based.
	Attempt uint32
	// Previous is how the attempt before ended; nil for the first.
	Previous *Outcome
	// MadeUnder is what that was granted as; nil: the service had let it go.
	MadeUnder *Permit
	// IsCounted: an earlier question has counted a first attempt that the service had let go.
	IsCounted  bool
	Safe       bool
	Left       Left
	Strictness Strictness
}

// Grant is a yes, after a delay.
type Grant struct {
	Permit  *Permit
	Delay   Nanos
	Probe   bool
	Confirm bool
	// Lease is a probe's.
	Lease Nanos
}

// Ask answers by the first rule that denies. A denial changes nothing but the outcome it was told.
func (l *Local) Ask(p *Policy, q *Question, now Time, draws Draws) (Grant, *Denial) {
	retry, before := l.takePrevious(p, q, now)
	if q.Strictness == AllRules {
		if denial := l.heed(now); denial != nil {
			return Grant{}, denial
		}
	}
	if q.Previous != nil {
		if reason := OwnWords(q.Previous, q.Attempt, p.MaxAttempts, q.Safe); reason != "" {
			return Grant{}, &Denial{Reason: reason, Final: true}
		}
	}
	isProbe := false
	if hasBreaker(p, q.Strictness) {
		var denial *Denial
		if isProbe, denial = l.breaker.admits(now, draws.Spread); denial != nil {
			return Grant{}, denial
		}
	}
	delay, denial := wait(p, q, retry, before, isProbe, draws)
	if denial != nil {
		return Grant{}, denial
	}
	if q.Left.Reaches(delay.Add(p.MinAttemptTime)) {
		return Grant{}, &Denial{Reason: Deadline, Final: true}
	}
	if q.Previous == nil {
		l.budget.Deposit(p, 1, now)
	} else if denial := l.spend(p, now); denial != nil {
		return Grant{}, denial
	}
	permit := &Permit{at: now, delay: delay, retry: retry}
	grant := Grant{Permit: permit, Delay: delay, Confirm: delay > confirmAbove}
	l.commit(permit, isProbe, &grant, now)
	return grant, nil
}

// Note takes the outcome that a question tells, and answers nothing: the service has said before what
// the answer is.
func (l *Local) Note(p *Policy, q *Question, now Time) { l.takePrevious(p, q, now) }

// Confirm looks at a granted attempt again, at the end of its delay. Denied, the permit is void and
// its token returns.
func (l *Local) Confirm(p *Policy, permit *Permit, left Left, strictness Strictness, now Time, draws Draws) (Grant, *Denial) {
	isProbe, denial := l.confirmable(permit, left, p, strictness, now, draws)
	if denial != nil {
		if permit.retry > 0 && !permit.isVoid {
			l.budget.Refund(p, permit.at, now)
		}
		permit.isVoid = true
		return Grant{}, denial
	}
	grant := Grant{Permit: permit}
	if hasLease := permit.isProbe && now < permit.leaseEnds; hasLease {
		grant.Probe, grant.Lease = true, now.Until(permit.leaseEnds)
	} else {
		l.commit(permit, isProbe, &grant, now)
	}
	return grant, nil
}

func (l *Local) confirmable(permit *Permit, left Left, p *Policy, strictness Strictness, now Time, draws Draws) (bool, *Denial) {
	if permit.isVoid || permit.isTaken {
		return false, &Denial{Reason: PermitVoid, Final: true}
	}
	isProbe := false
	if strictness == AllRules {
		if denial := l.heed(now); denial != nil {
			return false, denial
		}
	}
	hasLease := permit.isProbe && now < permit.leaseEnds
	if hasBreaker(p, strictness) && !hasLease {
		var denial *Denial
		if isProbe, denial = l.breaker.admits(now, draws.Spread); denial != nil {
			return false, denial
		}
	}
	if left.Reaches(p.MinAttemptTime) {
		return false, &Denial{Reason: Deadline, Final: true}
	}
	return isProbe, nil
}

// Report says how an attempt ended; once, however often it is said.
func (l *Local) Report(p *Policy, permit *Permit, outcome *Outcome, strictness Strictness, now Time) {
	if permit.isTaken || permit.isVoid {
		return
	}
	permit.isTaken = true
	hadLease := l.breaker.endLease(permit, now)
	if hasBreaker(p, strictness) && permit.epoch == l.breaker.epoch && (!permit.isProbe || hadLease) {
		l.breaker.take(p, outcome, hadLease, now)
	}
}

// Told keeps what the service denied for all, until its own end, five minutes at most.
func (l *Local) Told(denial *Denial, now Time) {
	switch denial.Reason {
	case BreakerOpen, ForcedOpen, Held, CallerFault:
	default:
		return
	}
	lasts := rememberedMost
	if !denial.Final {
		lasts = min(denial.RetryAfter, rememberedMost)
	}
	l.told = told{reason: denial.Reason, detail: denial.Detail, since: now, until: now.Add(lasts)}
}

// LetGo: the service grants again.
func (l *Local) LetGo(now Time) { l.letGo(func(Time) bool { return true }, now) }

// LetGoAt: the service let first attempts go at that time.
func (l *Local) LetGoAt(at, now Time) { l.letGo(func(since Time) bool { return at > since }, now) }

// letGo: what the service denied before is over, and so is what this process's own breaker, which knew
// less, made of the failures before.
func (l *Local) letGo(isBefore func(since Time) bool, now Time) {
	if l.told.reason != "" && isBefore(l.told.since) {
		l.told = told{}
	}
	if l.breaker.phase != closed && isBefore(l.breaker.since) {
		l.breaker.level = 0
		l.breaker.enter(closed, now)
	}
}

func (l *Local) heed(now Time) *Denial {
	if l.told.reason == "" || now >= l.told.until {
		l.told = told{}
		return nil
	}
	return &Denial{Reason: l.told.reason, RetryAfter: now.Until(l.told.until), Detail: l.told.detail}
}

// takePrevious takes the outcome before, whatever the answer will be, and returns the number of this
// retry and the delay before the last one.
func (l *Local) takePrevious(p *Policy, q *Question, now Time) (retry uint32, before Nanos) {
	if q.Previous == nil {
		return 0, 0
	}
	if q.MadeUnder != nil {
		l.Report(p, q.MadeUnder, q.Previous, q.Strictness, now)
		retry, before = q.MadeUnder.retry, q.MadeUnder.delay
	} else {
		if q.Attempt == 2 && !q.IsCounted {
			l.budget.Deposit(p, 1, now)
			if hasBreaker(p, q.Strictness) {
				l.breaker.take(p, q.Previous, false, now)
			}
		}
		retry = max(q.Attempt, 2) - 2
	}
	if q.Previous.HasPushback && q.Previous.RestartsBackoff {
		return 1, before
	}
	return sum32(retry, 1), before
}

// wait is the delay before the attempt: the backoff's, never below a pushback.
func wait(p *Policy, q *Question, retry uint32, before Nanos, isProbe bool, draws Draws) (Nanos, *Denial) {
	if q.Previous == nil {
		return 0, nil
	}
	pushback := q.Previous.Pushback
	if !q.Previous.HasPushback {
		pushback = 0
	}
	spread := pushback.Add(p.PushbackSpread.Part(draws.Spread))
	switch {
	case pushback > p.PushbackMax:
		return 0, &Denial{Reason: PushbackTooLong, RetryAfter: spread}
	case isProbe && pushback > 0:
		return 0, &Denial{Reason: Held, RetryAfter: spread}
	case isProbe:
		return 0, nil
	}
	delay := Delay(p, retry, before, draws.Jitter)
	if pushback > 0 && pushback >= delay {
		return spread, nil
	}
	return delay, nil
}

func (l *Local) spend(p *Policy, now Time) *Denial {
	level := l.budget.Level(p, now)
	if level.Retries >= level.Allowed {
		return &Denial{Reason: BudgetExhausted, Final: true}
	}
	l.budget.Withdraw(p, now)
	return nil
}

// commit puts a permit into the present epoch, as a probe where the breaker asks for one.
func (l *Local) commit(permit *Permit, isProbe bool, grant *Grant, now Time) {
	if isProbe {
		l.breaker.lease(permit, now)
		grant.Probe, grant.Lease = true, probeLease
	}
	permit.epoch = l.breaker.epoch
}
