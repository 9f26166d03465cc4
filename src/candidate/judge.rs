//! A record under the candidate, fed with what happened under the live policy.
//!
//! Each attempt that the live policy decided is put to the candidate as its own question, at the
//! same time and with the same draw. What it says is compared, never told. Three rules keep its
//! state what it would be:
//!
//! - A call that the candidate would have refused testifies to nothing in it.
//! - A call that only the candidate would have let through was never made, so nothing is known
//!   of its end: the token and the place that it took stay taken, a probe's lease returns, and
//!   its silence is not held against the dependency.
//! - A permit that the live policy gave before the judge began is the candidate's own: it begins
//!   as a copy of the live record, as a promotion at that moment would.

use holdoff_decision::{
    Ask, Context, Denial, DenialReason, Grant, MadeUnder, Outcome, OutcomeKind, Permit, Policy,
    Previous, Question, Record, Reported, Tally, Time, acquire, operate,
    record::Change,
    report,
    standing::{FirstAttempts, standing_of},
    tally,
};

use super::{
    happening::{Before, Happening},
    numbers::{Class, End, Numbers, Opening},
    pending::{Call, Pending, Verdict},
};

/// No epoch is so high: what is of another epoch than the present one.
pub(super) const ANOTHER_EPOCH: u64 = u64::MAX;

/// No serial is so high: that of a permit which the candidate's record does not know.
const NEVER_GIVEN: u64 = 1 << 63;

/// See the module.
#[derive(Clone, Debug)]
pub struct Judge {
    pub(super) record: Record,
    pending: Pending,
    /// Permits of the live policy with a lower serial are the candidate's as well.
    begun: u64,
    pub(super) numbers: Numbers,
}

impl Judge {
    /// Begins where the live policy is.
    pub fn beside(live: &Record) -> Self {
        let mut record = live.clone();
        // They were told.
        drop(record.take_changes());
        Self {
            begun: record.tickets.next_serial(),
            record,
            pending: Pending::default(),
            numbers: Numbers::default(),
        }
    }

    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Counts from here on; the state stays. Calls that are under way are counted no more.
    pub fn count_anew(&mut self) {
        self.numbers = Numbers::default();
        self.pending.end_all();
    }

    /// Begins again from another record, after a time of which nothing is known. What was
    /// counted stays.
    pub fn begin_again(&mut self, record: Record) {
        self.begun = record.tickets.next_serial();
        self.record = record;
        self.pending = Pending::default();
    }

    /// The candidate's state.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Takes one thing that happened. Returns the opening that it brought about under the
    /// candidate.
    pub fn take(
        &mut self,
        policy: &Policy,
        happening: &Happening,
        context: &Context,
    ) -> Option<Opening> {
        self.numbers.note_time(context.now);
        self.expire(context.now);
        match happening {
            Happening::Asked {
                ask,
                verdict,
                previous,
                before,
            } => self.asked(policy, ask, verdict, *previous, before, context),
            Happening::Reported {
                permit,
                outcome,
                reporter,
                result,
            } => self.reported(policy, permit, outcome, *reporter, *result, context),
            Happening::Tallied {
                tally,
                reporter,
                result,
                before,
            } => self.tallied(policy, tally, *reporter, (*result, before.went), context),
            Happening::Forced(order) => {
                operate::set_override(&mut self.record, order.clone(), context.now);
            }
            Happening::Released => drop(operate::clear_override(&mut self.record, context.now)),
            Happening::Reset => operate::reset(&mut self.record, context.now),
            Happening::HoldCleared => drop(operate::clear_hold(&mut self.record, context.now)),
            Happening::Advanced => self.record.advance(policy, context),
        }
        self.note_openings(context.now)
    }

    /// Notes what changed in the live record.
    pub fn note_live(&mut self, change: &Change, now: Time) {
        if let Change::Transition { cause, .. } = change {
            self.numbers.live.openings.note(*cause, now);
        }
    }

    fn note_openings(&mut self, now: Time) -> Option<Opening> {
        if !self.record.has_changes() {
            return None;
        }
        let openings = &mut self.numbers.candidate.openings;
        let changes = self.record.take_changes();
        let opened = changes.iter().filter_map(|change| match change {
            Change::Transition { cause, .. } => openings.note(*cause, now),
            Change::Held(_) | Change::Caller(_) => None,
        });
        opened.last()
    }

    fn expire(&mut self, now: Time) {
        while let Some(call) = self.pending.expire(now) {
            self.numbers.forgotten += u64::from(matches!(
                call,
                Call {
                    verdict: Verdict::Refused(_),
                    ended: false,
                    ..
                }
            ));
        }
    }

    fn asked(
        &mut self,
        policy: &Policy,
        ask: &Ask,
        live: &Result<Grant, Denial>,
        previous: Option<Reported>,
        before: &Before,
        context: &Context,
    ) {
        // Not a matter of the policy, and it changed nothing.
        let void = matches!(
            live,
            Err(denial) if matches!(denial.reason, DenialReason::Duplicate | DenialReason::PermitVoid)
        );
        let question = match ask.question {
            _ if void => None,
            Question::Confirm(permit) => match self.verdict_of(&permit) {
                Some(Verdict::Granted(own)) => Some(Question::Confirm(own)),
                Some(Verdict::Refused(reason)) => {
                    self.pending.forget(permit.serial);
                    if let Ok(grant) = live {
                        self.note(&grant.permit, Verdict::Refused(reason));
                    }
                    None
                }
                None => None,
            },
            Question::Retry {
                attempt,
                previous: made,
            } => {
                let made_under =
                    self.made_under(policy, ask.caller, &made, previous, before, context);
                let outcome = made.outcome;
                Some(Question::Retry {
                    attempt,
                    previous: Previous {
                        made_under,
                        outcome,
                    },
                })
            }
            other @ (Question::First | Question::Hedge { .. }) => Some(other),
        };
        let Some(question) = question else {
            self.record.advance(policy, context);
            return;
        };
        let per_caller = policy.rate.as_ref().is_some_and(|rate| rate.per_caller);
        let own = Ask {
            question,
            service: if per_caller { ask.service } else { 0 },
            ..*ask
        };
        let issued = self.record.tickets.next_serial();
        let answer = acquire(policy, &mut self.record, &own, context);
        let repeated = match (ask.question, live) {
            (Question::Confirm(_), _) | (_, Err(_)) => false,
            (_, Ok(grant)) => grant.permit.serial < before.next_serial,
        };
        if repeated {
            // It was counted when it was answered first.
            if let Ok(grant) = answer.verdict
                && grant.permit.serial >= issued
            {
                self.let_unknown(&grant.permit);
            }
            return;
        }
        if let Question::Confirm(permit) = ask.question {
            self.confirmed(&permit, live, &answer.verdict);
        } else {
            self.compare(Class::of(&ask.question), live, &answer.verdict);
        }
    }

    /// What the attempt before was made under, in the candidate's own permits and epochs. Its
    /// outcome is joined here.
    fn made_under(
        &mut self,
        policy: &Policy,
        caller: u64,
        made: &Previous,
        live: Option<Reported>,
        before: &Before,
        context: &Context,
    ) -> MadeUnder {
        match made.made_under {
            MadeUnder::EarlierRun(_) | MadeUnder::Unknown => made.made_under,
            MadeUnder::Permit(permit) => {
                let verdict = self.verdict_of(&permit);
                self.join(&permit, &made.outcome, live);
                match verdict {
                    Some(Verdict::Granted(own)) => MadeUnder::Permit(own),
                    Some(Verdict::Refused(_)) => MadeUnder::Unknown,
                    // It is void under both; only the number and the delay of its retry count.
                    None if context.now >= permit.expires => MadeUnder::Permit(Permit {
                        serial: permit.serial | NEVER_GIVEN,
                        ..permit
                    }),
                    None => {
                        self.take_evidence(policy, &made.outcome, caller, live, context);
                        MadeUnder::Unknown
                    }
                }
            }
            MadeUnder::Epoch(_) => match live {
                Some(Reported::Ok) => {
                    self.record.advance(policy, context);
                    let end = End::of(made.outcome.kind);
                    self.numbers.live.grant(Class::First, 1);
                    self.numbers.live.end(end, 1);
                    match self.refusal_of_pushed(policy, caller, before.went, context) {
                        Some(reason) => {
                            self.numbers.candidate.refuse(Class::First, 1);
                            self.numbers.refuse(reason, Class::First, 1);
                            self.numbers.end_refused(reason, end, 1);
                            MadeUnder::Unknown
                        }
                        None => {
                            self.numbers.candidate.grant(Class::First, 1);
                            self.numbers.candidate.end(end, 1);
                            MadeUnder::Epoch(self.record.breaker.epoch)
                        }
                    }
                }
                Some(Reported::Duplicate) => MadeUnder::Epoch(self.record.breaker.epoch),
                Some(Reported::StaleEpoch | Reported::Expired | Reported::Unknown) | None => {
                    MadeUnder::Epoch(ANOTHER_EPOCH)
                }
            },
        }
    }

    /// Why clients would not have made first attempts on the candidate's pushed state; `None`:
    /// they would, or did so against the live one too.
    pub(super) fn refusal_of_pushed(
        &self,
        policy: &Policy,
        caller: u64,
        went: bool,
        context: &Context,
    ) -> Option<DenialReason> {
        use holdoff_decision::State;
        let standing = standing_of(policy, &self.record, caller, context);
        if !went || standing.first_attempts != FirstAttempts::Refuse {
            return None;
        }
        let held = context.now < self.record.held_until();
        Some(match standing.state {
            State::ForcedOpen => DenialReason::ForcedOpen,
            _ if held => DenialReason::Held,
            State::Open => DenialReason::BreakerOpen,
            State::HalfOpen => DenialReason::ProbeInProgress,
            State::Closed | State::Recovering | State::ForcedClosed => DenialReason::CallerFault,
        })
    }

    fn reported(
        &mut self,
        policy: &Policy,
        permit: &Permit,
        outcome: &Outcome,
        reporter: u64,
        live: Reported,
        context: &Context,
    ) {
        let verdict = self.verdict_of(permit);
        self.join(permit, outcome, Some(live));
        match verdict {
            Some(Verdict::Granted(own)) => {
                report(policy, &mut self.record, &own, outcome, reporter, context);
            }
            Some(Verdict::Refused(_)) => self.record.advance(policy, context),
            None => {
                self.record.advance(policy, context);
                self.take_evidence(policy, outcome, reporter, Some(live), context);
            }
        }
    }

    fn verdict_of(&self, permit: &Permit) -> Option<Verdict> {
        match self.pending.find(permit.serial) {
            Some(call) => Some(call.verdict),
            None if permit.serial < self.begun => Some(Verdict::Granted(*permit)),
            None => None,
        }
    }

    /// Counts how a call ended, once, and for whom.
    fn join(&mut self, permit: &Permit, outcome: &Outcome, live: Option<Reported>) {
        // Otherwise it was reported before, or comes too late to be believed.
        if !matches!(live, Some(Reported::Ok | Reported::StaleEpoch)) {
            return;
        }
        let call = self.pending.find(permit.serial);
        if call.is_some_and(|call| call.ended) {
            return;
        }
        let end = End::of(outcome.kind);
        self.numbers.live.end(end, 1);
        match call.map(|call| call.verdict) {
            Some(Verdict::Refused(reason)) => self.numbers.end_refused(reason, end, 1),
            Some(Verdict::Granted(_)) | None => self.numbers.candidate.end(end, 1),
        }
        let succeeded = outcome.kind == OutcomeKind::Success;
        self.pending.end(permit.serial, succeeded);
    }

    /// The outcome of a call of which no more is known here than that it was made.
    fn take_evidence(
        &mut self,
        policy: &Policy,
        outcome: &Outcome,
        reporter: u64,
        live: Option<Reported>,
        context: &Context,
    ) {
        if live != Some(Reported::Ok) {
            return;
        }
        let one = |kind| u32::from(outcome.kind == kind);
        let slow = policy.breaker.slow_after;
        let was_slow = outcome
            .latency
            .is_some_and(|took| !slow.is_zero() && took >= slow);
        let counts = Tally {
            epoch: self.record.breaker.epoch,
            first_attempts: 0,
            successes: one(OutcomeKind::Success),
            failures: one(OutcomeKind::Failure) + one(OutcomeKind::NotSent),
            timeouts: one(OutcomeKind::Timeout),
            throttled: one(OutcomeKind::Throttled),
            rejected: one(OutcomeKind::Rejected),
            slow: u32::from(was_slow),
            ignored: one(OutcomeKind::Ignored) + one(OutcomeKind::Cancelled),
            latency_sum: outcome.latency.unwrap_or_default(),
        };
        tally(policy, &mut self.record, &counts, reporter, context);
    }

    fn compare(&mut self, class: Class, live: &Result<Grant, Denial>, own: &Result<Grant, Denial>) {
        let numbers = &mut self.numbers;
        match live {
            Ok(_) => numbers.live.grant(class, 1),
            Err(_) => numbers.live.refuse(class, 1),
        }
        match own {
            Ok(_) => numbers.candidate.grant(class, 1),
            Err(_) => numbers.candidate.refuse(class, 1),
        }
        match (live, own) {
            (Ok(live), Ok(own)) => {
                numbers.shift(live.delay, own.delay);
                self.note(&live.permit, Verdict::Granted(own.permit));
            }
            (Ok(live), Err(own)) => {
                numbers.refuse(own.reason, class, 1);
                self.note(&live.permit, Verdict::Refused(own.reason));
            }
            (Err(live), Ok(own)) => {
                numbers.let_go(live.reason, class);
                self.let_unknown(&own.permit);
            }
            (Err(live), Err(own)) => numbers.other_reason += u64::from(live.reason != own.reason),
        }
    }

    /// A confirmation is no attempt of its own: only a change of mind counts.
    fn confirmed(
        &mut self,
        permit: &Permit,
        live: &Result<Grant, Denial>,
        own: &Result<Grant, Denial>,
    ) {
        let class = Class::of(&Question::Confirm(*permit));
        self.pending.forget(permit.serial);
        match (live, own) {
            (Ok(live), Ok(own)) => self.note(&live.permit, Verdict::Granted(own.permit)),
            (Ok(live), Err(own)) => {
                self.numbers.refuse(own.reason, class, 1);
                self.numbers.candidate.refuse(class, 1);
                self.note(&live.permit, Verdict::Refused(own.reason));
            }
            (Err(live), Ok(own)) => {
                self.numbers.live.refuse(class, 1);
                self.numbers.let_go(live.reason, class);
                self.let_unknown(&own.permit);
            }
            (Err(live), Err(own)) => {
                self.numbers.live.refuse(class, 1);
                self.numbers.candidate.refuse(class, 1);
                self.numbers.other_reason += u64::from(live.reason != own.reason);
            }
        }
    }

    fn note(&mut self, live: &Permit, verdict: Verdict) {
        if let Some(gone) = self.pending.note(live, verdict) {
            match gone.verdict {
                Verdict::Granted(permit) => self.let_unknown(&permit),
                Verdict::Refused(_) => self.numbers.forgotten += u64::from(!gone.ended),
            }
        }
    }

    /// Nobody will say how this call ended. Its lease returns, if it probes: a call that is really
    /// made takes it next.
    pub(super) fn let_unknown(&mut self, permit: &Permit) {
        let now = self.record.touched;
        self.record.tickets.settle(permit.serial);
        self.record.breaker.end_lease(permit.serial, now);
    }
}
