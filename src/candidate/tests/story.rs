//! A fleet of clients in virtual time, on one live record: asks, retries, confirms, repeats,
//! reports, tallies, is silent, and is ordered about, all by one seed.

use holdoff_decision::{
    Ask, Context, Denial, Grant, MadeUnder, Nanos, Outcome, OutcomeKind, Permit, Policy, Previous,
    Priority, Question, Record, Reported, Sample, Tally, Time, acquire,
    operate::{self, Checkpoint},
    record::{Override, OverrideKind},
    report, tally,
};
use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::super::{Before, Happening, Judge, Opening};
use crate::policy::{Overlay, PolicySet};

pub struct Story {
    pub live: Policy,
    pub record: Record,
    pub now: Time,
    pub rng: StdRng,
    /// Candidates that look on, with their policies.
    pub judges: Vec<(Policy, Judge)>,
    pub openings: Vec<Opening>,
    /// Permits that are out: of which caller and attempt, and when the call begins.
    out: Vec<(Permit, u64, u32, bool)>,
    asked_before: Option<Ask>,
    breaker: Checkpoint,
    /// Draws have 32 bits, as those of the service.
    pub coarse: bool,
    /// All that happened, where that is wanted: each with the breaker just before.
    pub heard: Option<Vec<(Checkpoint, Context, Happening)>>,
    /// What happened last, for the message of a test that fails.
    pub last: Option<Happening>,
}

/// How the dependency does.
#[derive(Clone, Copy)]
pub enum Health {
    /// Of a thousand calls so many fail.
    Failing(u32),
    Silent,
}

pub fn policy(document: &str) -> Policy {
    let overlay = Overlay {
        namespace: "default".into(),
        name: "d".into(),
        text: document.into(),
    };
    let set = PolicySet::load(&[], &[overlay]).unwrap();
    (*set.resolve("default", "d").unwrap().0).clone()
}

impl Story {
    pub fn new(live: &str, candidates: &[&str], seed: u64) -> Self {
        let now = Time(1_700_000_000_000_000_000);
        let record = Record::new(1, now);
        let judge = |document: &&str| (policy(document), Judge::beside(&record));
        Self {
            live: policy(live),
            judges: candidates.iter().map(judge).collect(),
            record,
            now,
            rng: StdRng::seed_from_u64(seed),
            openings: Vec::new(),
            out: Vec::new(),
            asked_before: None,
            breaker: operate::checkpoint(&Record::new(1, now), now),
            coarse: false,
            heard: None,
            last: None,
        }
    }

    pub fn pass(&mut self, ms: u64) {
        self.now = self.now + Nanos::from_millis(ms);
    }

    pub fn context(&mut self) -> Context {
        let mut draw = || {
            let coarse = f64::from(self.rng.random::<u32>()) / (1_u64 << 32) as f64;
            if self.coarse {
                coarse
            } else {
                self.rng.random()
            }
        };
        Context {
            now: self.now,
            sample: Sample {
                jitter: draw(),
                spread: draw(),
            },
            restarted: None,
        }
    }

    fn tell(&mut self, happening: &Happening, context: &Context) {
        self.last = Some(happening.clone());
        let before = std::mem::replace(
            &mut self.breaker,
            operate::checkpoint(&self.record, context.now),
        );
        if let Some(heard) = &mut self.heard {
            heard.push((before, *context, happening.clone()));
        }
        for (policy, judge) in &mut self.judges {
            self.openings.extend(judge.take(policy, happening, context));
        }
        for change in self.record.take_changes() {
            for (_, judge) in &mut self.judges {
                judge.note_live(&change, context.now);
            }
        }
    }

    pub fn ask(&mut self, ask: Ask) -> Result<Grant, Denial> {
        let context = self.context();
        let before = Before::of(&self.live, &self.record, ask.caller, &context);
        let answer = acquire(&self.live, &mut self.record, &ask, &context);
        let asked = Happening::Asked {
            ask,
            verdict: answer.verdict,
            previous: answer.previous,
            before,
        };
        self.tell(&asked, &context);
        self.asked_before = Some(ask);
        answer.verdict
    }

    pub fn report(&mut self, permit: Permit, kind: OutcomeKind, reporter: u64) -> Reported {
        let context = self.context();
        let outcome = Outcome::of(kind);
        let result = report(
            &self.live,
            &mut self.record,
            &permit,
            &outcome,
            reporter,
            &context,
        );
        let happening = Happening::Reported {
            permit,
            outcome,
            reporter,
            result,
        };
        self.tell(&happening, &context);
        result
    }

    pub fn tally(&mut self, counts: Tally, reporter: u64) -> Reported {
        let context = self.context();
        let before = Before::of(&self.live, &self.record, reporter, &context);
        let result = tally(&self.live, &mut self.record, &counts, reporter, &context);
        let happening = Happening::Tallied {
            tally: counts,
            reporter,
            result,
            before,
        };
        self.tell(&happening, &context);
        result
    }

    pub fn order(&mut self, happening: Happening) {
        let context = self.context();
        match &happening {
            Happening::Forced(order) => {
                operate::set_override(&mut self.record, order.clone(), self.now);
            }
            Happening::Released => drop(operate::clear_override(&mut self.record, self.now)),
            Happening::Reset => operate::reset(&mut self.record, self.now),
            Happening::HoldCleared => drop(operate::clear_hold(&mut self.record, self.now)),
            _ => self.record.advance(&self.live, &context),
        }
        self.tell(&happening, &context);
    }

    /// One call and its retries, at once.
    pub fn call(&mut self, caller: u64, kinds: &[OutcomeKind]) {
        let mut question = Question::First;
        for (attempt, kind) in (2..).zip(kinds) {
            let Ok(grant) = self.ask(ask(question, caller)) else {
                return;
            };
            if *kind == OutcomeKind::Success {
                self.report(grant.permit, *kind, caller);
                return;
            }
            question = Question::Retry {
                attempt,
                previous: Previous {
                    made_under: MadeUnder::Permit(grant.permit),
                    outcome: Outcome::of(*kind),
                },
            };
        }
        let _ = self.ask(ask(question, caller));
    }

    /// Anything at all, once.
    pub fn anything(&mut self, health: Health) {
        let ms = [0, 1, 7, 60, 400][self.rng.random_range(0..5)];
        self.pass(ms);
        let caller = self.rng.random_range(1..6);
        let kind = self.end(health);
        match self.rng.random_range(0..100) {
            0..35 => self.ask_first(caller),
            35..70 if !self.out.is_empty() => self.end_one(kind),
            70..78 => self.tally_some(health, caller),
            78..82 => {
                if let Some(ask) = self.asked_before {
                    let _ = self.ask(ask);
                }
            }
            82..85 => self.after_epoch(caller, kind),
            85 => self.order_something(),
            86..89 => {
                let question = Question::Hedge { attempt: 1 };
                if let Ok(grant) = self.ask(ask(question, caller)) {
                    self.out.push((grant.permit, caller, 1, false));
                }
            }
            89 => self.pass(3_000),
            90 => self.pass(70_000),
            _ => self.ask_first(caller),
        }
    }

    fn end(&mut self, health: Health) -> Option<OutcomeKind> {
        const FAILURES: [OutcomeKind; 7] = [
            OutcomeKind::Failure,
            OutcomeKind::Failure,
            OutcomeKind::Timeout,
            OutcomeKind::Throttled,
            OutcomeKind::NotSent,
            OutcomeKind::Rejected,
            OutcomeKind::Cancelled,
        ];
        match health {
            Health::Silent => None,
            Health::Failing(share) if self.rng.random_range(0..1_000) < share => {
                Some(FAILURES[self.rng.random_range(0..FAILURES.len())])
            }
            Health::Failing(_) => Some(OutcomeKind::Success),
        }
    }

    fn ask_first(&mut self, caller: u64) {
        let mut question = ask(Question::First, caller);
        if self.rng.random_range(0..3) == 0 {
            question.call = Some(self.rng.random());
            question.time_left = Some(Nanos::from_millis(self.rng.random_range(1..5_000)));
        }
        if let Ok(grant) = self.ask(question) {
            self.out.push((grant.permit, caller, 1, false));
        }
    }

    fn end_one(&mut self, kind: Option<OutcomeKind>) {
        let at = self.rng.random_range(0..self.out.len());
        let (permit, caller, attempt, confirmed) = self.out[at];
        if !confirmed && permit.delay > Nanos::from_secs(1) {
            let question = ask(Question::Confirm(permit), caller);
            match self.ask(question) {
                Ok(grant) => self.out[at] = (grant.permit, caller, attempt, true),
                Err(_) => drop(self.out.swap_remove(at)),
            }
            return;
        }
        self.out.swap_remove(at);
        let Some(kind) = kind else {
            return;
        };
        if kind == OutcomeKind::Success || self.rng.random_range(0..4) == 0 {
            self.report(permit, kind, caller);
            if self.rng.random_range(0..9) == 0 {
                self.report(permit, kind, caller);
            }
            return;
        }
        let mut outcome = Outcome::of(kind);
        if self.rng.random_range(0..12) == 0 {
            outcome.pushback = Some(Nanos::from_millis(self.rng.random_range(1..3_000)));
        }
        let question = Question::Retry {
            attempt: attempt + 1,
            previous: Previous {
                made_under: MadeUnder::Permit(permit),
                outcome,
            },
        };
        if let Ok(grant) = self.ask(ask(question, caller)) {
            self.out.push((grant.permit, caller, attempt + 1, false));
        }
    }

    fn tally_some(&mut self, health: Health, caller: u64) {
        let starts = self.rng.random_range(0..20);
        let mut counts = Tally {
            epoch: self.record.breaker.epoch - u64::from(self.rng.random_range(0..6) == 0),
            first_attempts: starts,
            ..Tally::default()
        };
        for _ in 0..starts {
            match self.end(health) {
                Some(OutcomeKind::Success) => counts.successes += 1,
                Some(OutcomeKind::Timeout) => counts.timeouts += 1,
                Some(OutcomeKind::Throttled) => counts.throttled += 1,
                Some(_) => counts.failures += 1,
                None => {}
            }
        }
        self.tally(counts, caller);
    }

    fn after_epoch(&mut self, caller: u64, kind: Option<OutcomeKind>) {
        let Some(kind) = kind.filter(|kind| *kind != OutcomeKind::Success) else {
            return;
        };
        let epoch = self.record.breaker.epoch - u64::from(self.rng.random_range(0..5) == 0);
        let question = Question::Retry {
            attempt: 2,
            previous: Previous {
                made_under: MadeUnder::Epoch(epoch),
                outcome: Outcome::of(kind),
            },
        };
        let mut question = ask(question, caller);
        question.call = Some(self.rng.random_range(0..50));
        if let Ok(grant) = self.ask(question) {
            self.out.push((grant.permit, caller, 2, false));
        }
    }

    fn order_something(&mut self) {
        let happening = match self.rng.random_range(0..6) {
            0 | 1 => {
                let kinds = [OverrideKind::ForceOpen, OverrideKind::ForceClosed];
                Happening::Forced(Override {
                    kind: kinds[self.rng.random_range(0..2)],
                    owner: "ada".into(),
                    reason: "test".into(),
                    set_at: self.now,
                    expires: Some(self.now + Nanos::from_millis(self.rng.random_range(1..9_000))),
                })
            }
            2 => Happening::Released,
            3 => Happening::Reset,
            4 => Happening::HoldCleared,
            _ => Happening::Advanced,
        };
        self.order(happening);
    }
}

pub fn ask(question: Question, caller: u64) -> Ask {
    Ask {
        question,
        caller,
        service: 0,
        call: None,
        idempotent: true,
        time_left: None,
        priority: Priority::Normal,
        cost: 1,
    }
}
