//! A client without its coordinator: the same rules over what it alone has seen, under the policy
//! that was pushed, with its share of the fleet's floor. What was pushed and refuses stands before
//! them, and what the fleet last refused to all is kept to its own end.

use holdoff_decision::{
    Ask, Context, DenialReason, Grant, MadeUnder, Nanos, Outcome, Permit, Policy, Previous,
    Priority, Question, Record, Sample, Share, Tally, Time, acquire,
    policy::{Breaker, Budget, Calendar, MaxAttempts, Pushback, Ramp, RetryRate},
    report,
    standing::FirstAttempts,
    tally,
};

use super::{Fleet, Made, reports::count};
use crate::{random::Stream, strategy::alone::Decision, world::Ground};

/// What the fleet said is kept no longer than this without being said again.
const REMEMBERED_MAX: u64 = 300_000_000_000;
/// A client sees its own attempts end, so that one which takes long is not silent.
const ATTEMPT_MAX: Nanos = Nanos::from_secs(24 * 3600);
const ONLY_CALLER: u64 = 0;

/// What one client knows itself.
#[derive(Clone, Debug)]
pub struct Lone {
    record: Record,
    /// Since then, and until then, the fleet refuses all.
    refused: (u64, u64),
}

impl Lone {
    pub fn new(now: u64) -> Self {
        Self {
            record: Record::new(1, Time(now)),
            refused: (0, 0),
        }
    }

    /// What the fleet refuses to all.
    pub fn remember(&mut self, reason: DenialReason, retry_after: Option<Nanos>, now: u64) {
        let binds_all = matches!(
            reason,
            DenialReason::ForcedOpen
                | DenialReason::BreakerOpen
                | DenialReason::Held
                | DenialReason::CallerFault
        );
        if binds_all {
            let lasts = retry_after.map_or(REMEMBERED_MAX, |it| it.0.min(REMEMBERED_MAX));
            self.refused = (now, now + lasts);
        }
    }

    /// The fleet grants again.
    pub fn forget(&mut self) {
        self.refused = (0, 0);
    }

    /// For how long the fleet still refuses all.
    fn refused_for(&self, now: u64) -> Option<u64> {
        (now < self.refused.1).then(|| self.refused.1 - now)
    }

    /// The outcome that a question tells, whoever answers it.
    fn take(&mut self, policy: &Policy, previous: &Previous, now: u64) {
        let outcome = &previous.outcome;
        match previous.made_under {
            MadeUnder::Permit(permit) => self.report(policy, &permit, outcome, now),
            MadeUnder::Epoch(epoch) => {
                let context = context(now, Sample::default());
                let mut counts = Tally {
                    epoch,
                    ..Tally::default()
                };
                count(&mut counts, outcome);
                tally(policy, &mut self.record, &counts, ONLY_CALLER, &context);
                self.record.take_changes();
            }
            MadeUnder::EarlierRun(_) | MadeUnder::Unknown => {}
        }
    }

    fn report(&mut self, policy: &Policy, permit: &Permit, outcome: &Outcome, now: u64) {
        let context = context(now, Sample::default());
        report(
            policy,
            &mut self.record,
            permit,
            outcome,
            ONLY_CALLER,
            &context,
        );
        self.record.take_changes();
    }
}

/// The policy of a client on its own, as it follows from what is pushed.
pub fn policy(pushed: &Policy, clients: u32) -> Policy {
    let base = Policy::default();
    Policy {
        retry: pushed.retry.clone(),
        pushback: Pushback {
            scope: base.pushback.scope,
            ..pushed.pushback.clone()
        },
        breaker: Breaker {
            open_for: pushed.breaker.open_for,
            open_multiplier: pushed.breaker.open_multiplier,
            open_max: pushed.breaker.open_max,
            slow_after: pushed.breaker.slow_after,
            permit_ttl: ATTEMPT_MAX,
            ..base.breaker
        },
        // It plans the calls of many.
        ramp: Ramp {
            start: Share::ONE,
            ..base.ramp
        },
        budget: Budget {
            ratio: pushed.budget.ratio.min(Share(10_000_000)),
            ttl: pushed.budget.ttl,
            floor_micros_per_second: pushed.budget.floor_micros_per_second
                / u64::from(clients.max(1)),
            ..base.budget
        },
        calendar: Calendar {
            retry_rate: RetryRate::Off,
            ..base.calendar
        },
        ..base
    }
}

impl Fleet {
    /// The client decides itself.
    pub(super) fn decide_alone(&mut self, ground: &mut Ground<'_>, index: usize) -> Decision {
        ground.measure.counts.decided_alone += 1;
        let (place, who) = self.place(ground, index);
        let now = ground.now;
        let operation = ground.operations[index];
        if !matches!(self.pursuits[place].made, Made::Lone { .. }) {
            // For the coordinator, when it is back.
            self.tell_last(ground, index);
        }
        let question = self.question_here(place, who, operation.attempt(), now);
        let pushed = self.refused_alone(who, operation.attempt(), now);
        if let Some(left) = pushed.or_else(|| self.refused_here(who, now)) {
            let lone = self.sessions[who].lone(now);
            if let Question::Retry { previous, .. } = &question {
                lone.take(&self.lone_policy, previous, now);
            }
            self.pursuits[place].untold = false;
            return self.denied(ground, index, Some(Nanos(left)), false);
        }
        self.pursuits[place].untold = false;
        self.put_here(ground, index, question)
    }

    /// A delay that was granted here is over, and it was so long that all is looked at again.
    pub(super) fn confirm_alone(
        &mut self,
        ground: &mut Ground<'_>,
        index: usize,
        permit: Permit,
    ) -> Decision {
        let (_, who) = self.place(ground, index);
        let attempt = ground.operations[index].attempt();
        let pushed = self.refused_alone(who, attempt, ground.now);
        match pushed.or_else(|| self.refused_here(who, ground.now)) {
            Some(left) => self.denied(ground, index, Some(Nanos(left)), true),
            None => self.put_here(ground, index, Question::Confirm(permit)),
        }
    }

    /// Nobody has answered whether a grant of the coordinator still holds. It does, unless what was
    /// pushed since says that it does not.
    pub(super) fn unconfirmed(&mut self, ground: &mut Ground<'_>, index: usize) -> Decision {
        let (place, who) = self.place(ground, index);
        let attempt = ground.operations[index].attempt();
        let since = self.pursuits[place].epoch;
        let heard = self.heard(who, ground.now);
        match heard.refuses_alone(attempt, since, ground.now) {
            Some(left) => {
                self.give_back(ground, index);
                self.denied(ground, index, Some(Nanos(left)), true)
            }
            None => Decision::Go,
        }
    }

    /// For how long what was pushed refuses a question that is asked alone. More attempts than the
    /// policy allows are refused for that.
    fn refused_alone(&self, who: usize, attempt: u32, now: u64) -> Option<u64> {
        let is_allowed = match self.lone_policy.retry.max_attempts {
            MaxAttempts::Limited(allowed) => attempt <= allowed,
            MaxAttempts::Unlimited => true,
        };
        if !is_allowed || now < self.sessions[who].hears_from {
            return None;
        }
        self.heard(who, now).refuses_alone(attempt, 0, now)
    }

    /// Puts a question to the client's own record.
    fn put_here(&mut self, ground: &mut Ground<'_>, index: usize, question: Question) -> Decision {
        let (place, who) = self.place(ground, index);
        let now = ground.now;
        let ask = Ask {
            question,
            caller: ONLY_CALLER,
            service: ONLY_CALLER,
            call: None,
            idempotent: true,
            time_left: ground.time_left(index).map(Nanos),
            priority: Priority::Normal,
            cost: 1,
        };
        let client = ground.operations[index].client as usize;
        let context = context(now, draw(&mut ground.choice[client]));
        let lone = self.sessions[who].lone(now);
        let answer = acquire(&self.lone_policy, &mut lone.record, &ask, &context);
        lone.record.take_changes();
        match answer.verdict {
            Ok(Grant {
                delay,
                permit,
                confirm,
                ..
            }) => {
                let pursuit = &mut self.pursuits[place];
                pursuit.made = Made::Lone {
                    permit,
                    begun_in: 0,
                };
                pursuit.confirms = confirm && !delay.is_zero();
                self.begins_alone(place, who, now);
                match delay.is_zero() {
                    true => Decision::Go,
                    false => Decision::After(delay.0),
                }
            }
            Err(denial) => {
                let was_granted = matches!(question, Question::Confirm(_));
                self.denied(ground, index, denial.retry_after, was_granted)
            }
        }
    }

    /// What the fleet last refused to all, until first attempts were let go after it.
    fn refused_here(&mut self, who: usize, now: u64) -> Option<u64> {
        let heard = (now >= self.sessions[who].hears_from).then(|| self.heard(who, now));
        let lone = self.sessions[who].lone(now);
        let let_go = heard.filter(|it| it.first_attempts == FirstAttempts::Go);
        if let_go.is_some_and(|it| it.since > lone.refused.0) {
            lone.forget();
        }
        lone.refused_for(now)
    }

    /// An attempt that was decided here belongs to the epoch last heard of when it begins.
    pub(super) fn begins_alone(&mut self, place: usize, who: usize, now: u64) {
        let last = match now < self.sessions[who].hears_from {
            true => 0,
            false => self.heard(who, now).epoch,
        };
        if let Made::Lone { begun_in, .. } = &mut self.pursuits[place].made {
            *begun_in = last;
        }
    }

    /// The question for the client's own record. A first attempt that the fleet let go is unknown
    /// there, and is counted once.
    fn question_here(&mut self, place: usize, who: usize, attempt: u32, now: u64) -> Question {
        if attempt == 1 {
            return Question::First;
        }
        let epoch = self.sessions[who].lone(now).record.breaker.epoch;
        let pursuit = &mut self.pursuits[place];
        let made_under = match pursuit.made {
            Made::Lone { permit, .. } => MadeUnder::Permit(permit),
            Made::Fleet(..) | Made::OnState(_) if attempt == 2 && !pursuit.counted_here => {
                pursuit.counted_here = true;
                MadeUnder::Epoch(epoch)
            }
            Made::Fleet(..) | Made::OnState(_) | Made::Nothing => MadeUnder::Unknown,
        };
        Question::Retry {
            attempt,
            previous: Previous {
                made_under,
                outcome: pursuit.outcome,
            },
        }
    }

    /// An attempt that was decided here has ended.
    pub(super) fn report_here(&mut self, who: usize, permit: &Permit, outcome: &Outcome, now: u64) {
        let lone = self.sessions[who].lone(now);
        lone.report(&self.lone_policy, permit, outcome, now);
    }
}

fn draw(random: &mut Stream) -> Sample {
    Sample {
        jitter: random.unit(),
        spread: random.unit(),
    }
}

fn context(now: u64, sample: Sample) -> Context {
    Context {
        now: Time(now),
        sample,
        restarted: None,
    }
}
