//! One dependency and its callers, with a clock and a draw that the test sets.

use holdoff_decision::{
    Answer, Ask, Context, Denial, DenialReason, Grant, MadeUnder, Nanos, Outcome, OutcomeKind,
    Permit, Policy, Previous, Priority, Question, Record, Reported, Restart, Sample, Share, State,
    Tally, Time, acquire,
    policy::{Detect, Jitter, RetryRate, Window, WindowSize},
    record::Change,
    report, tally,
    view::{View, view},
};

#[derive(Clone, Debug)]
pub struct Fleet {
    pub policy: Policy,
    pub record: Record,
    pub now: Time,
    pub sample: Sample,
    pub restarted: Option<Restart>,
    /// The instance that asks and reports.
    pub caller: u64,
}

pub fn secs(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}

pub fn at(seconds: f64) -> Time {
    Time((seconds * 1e9).round() as u64)
}

/// A count window of ten calls, five of them enough, half of them failing; one probe that
/// closes; no backoff, no budget that would be in the way, no calendar and no ramp.
pub fn plain() -> Policy {
    let mut policy = Policy::default();
    policy.breaker.detect = Detect::Window(Window {
        size: WindowSize::Calls(10),
        min_calls: 5,
        ..Window::default()
    });
    policy.breaker.open_multiplier = 1.0;
    policy.breaker.probe_successes = 1;
    policy.budget.floor_micros_per_second = 1_000_000_000;
    policy.budget.max_caller_share = Share::ONE;
    policy.calendar.retry_rate = RetryRate::Off;
    policy.ramp.start = Share::ONE;
    policy.retry.jitter = Jitter::None;
    policy.retry.initial_delay = Nanos::ZERO;
    policy.retry.max_delay = Nanos::from_secs(10);
    policy
}

pub fn an_ask(question: Question) -> Ask {
    Ask {
        question,
        caller: 1,
        service: 1,
        call: None,
        idempotent: true,
        time_left: None,
        priority: Priority::Normal,
        cost: 1,
    }
}

pub fn after(permit: Permit, outcome: Outcome) -> Previous {
    Previous {
        made_under: MadeUnder::Permit(permit),
        outcome,
    }
}

pub const OK: Outcome = Outcome::of(OutcomeKind::Success);
pub const FAIL: Outcome = Outcome::of(OutcomeKind::Failure);
pub const TIMEOUT: Outcome = Outcome::of(OutcomeKind::Timeout);
pub const IGNORED: Outcome = Outcome::of(OutcomeKind::Ignored);

impl Fleet {
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            record: Record::new(1, Time::ORIGIN),
            now: Time::ORIGIN,
            sample: Sample::default(),
            restarted: None,
            caller: 1,
        }
    }

    pub fn at(&mut self, seconds: f64) -> &mut Self {
        self.now = at(seconds);
        self
    }

    /// From now on this instance asks and reports.
    pub fn by(&mut self, caller: u64) -> &mut Self {
        self.caller = caller;
        self
    }

    pub fn context(&self) -> Context {
        Context {
            now: self.now,
            sample: self.sample,
            restarted: self.restarted,
        }
    }

    pub fn ask(&mut self, ask: Ask) -> Answer {
        let context = self.context();
        acquire(&self.policy, &mut self.record, &ask, &context)
    }

    pub fn first(&mut self) -> Result<Grant, Denial> {
        let caller = self.caller;
        self.ask(Ask {
            caller,
            ..an_ask(Question::First)
        })
        .verdict
    }

    pub fn retry(&mut self, attempt: u32, permit: Permit, outcome: Outcome) -> Answer {
        let previous = after(permit, outcome);
        let caller = self.caller;
        self.ask(Ask {
            caller,
            ..an_ask(Question::Retry { attempt, previous })
        })
    }

    pub fn hedge(&mut self, attempt: u32) -> Result<Grant, Denial> {
        let caller = self.caller;
        self.ask(Ask {
            caller,
            ..an_ask(Question::Hedge { attempt })
        })
        .verdict
    }

    pub fn confirm(&mut self, permit: Permit) -> Result<Grant, Denial> {
        let caller = self.caller;
        self.ask(Ask {
            caller,
            ..an_ask(Question::Confirm(permit))
        })
        .verdict
    }

    pub fn report(&mut self, permit: Permit, outcome: Outcome) -> Reported {
        let context = self.context();
        report(
            &self.policy,
            &mut self.record,
            &permit,
            &outcome,
            self.caller,
            &context,
        )
    }

    pub fn tally(&mut self, count: Tally) -> Reported {
        let context = self.context();
        tally(
            &self.policy,
            &mut self.record,
            &count,
            self.caller,
            &context,
        )
    }

    /// A call that is granted at once and ends at once.
    pub fn call(&mut self, outcome: Outcome) -> Grant {
        let grant = self.first().unwrap();
        self.report(grant.permit, outcome);
        grant
    }

    pub fn calls(&mut self, count: u32, outcome: Outcome) {
        for _ in 0..count {
            self.call(outcome);
        }
    }

    /// Five calls that fail: enough for every policy that is used here.
    pub fn trip(&mut self) {
        let permits: Vec<Permit> = (0..5).map(|_| self.first().unwrap().permit).collect();
        for permit in permits {
            self.report(permit, FAIL);
        }
        assert_eq!(self.state(), State::Open);
    }

    pub fn state(&self) -> State {
        self.record.state(&self.policy, self.now)
    }

    pub fn epoch(&self) -> u64 {
        self.record.breaker.epoch
    }

    pub fn view(&self) -> View {
        view(&self.policy, &self.record, &self.context())
    }

    pub fn transitions(&mut self) -> Vec<(State, State)> {
        let changes = self.record.take_changes();
        changes
            .into_iter()
            .filter_map(|change| match change {
                Change::Transition { from, to, .. } => Some((from, to)),
                Change::Held(_) | Change::Caller(_) => None,
            })
            .collect()
    }
}

pub fn reason(verdict: &Result<Grant, Denial>) -> DenialReason {
    verdict.as_ref().unwrap_err().reason
}

pub fn retry_after(verdict: &Result<Grant, Denial>) -> Option<Nanos> {
    verdict.as_ref().unwrap_err().retry_after
}
