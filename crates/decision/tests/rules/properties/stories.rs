//! Random stories beside a naive model that keeps every lease, grant and deposit with its
//! time.

use std::collections::{BTreeMap, BTreeSet};

use holdoff_decision::{
    Answer, Ask, DenialReason as R, Grant, MadeUnder, Nanos, Outcome, OutcomeKind, Permit,
    PermitKind, Policy, Previous, Priority, Question, Reported, Sample, State, Tally, Time,
    budget::Empty,
    operate::{clear_hold, clear_override, reset, set_override},
    permit::Facts,
    policy::{AppliesTo, Detect, Mode, RetryRate, WindowSize},
    record::{Override, OverrideKind},
    tickets::Ticket,
    view::View,
    window,
};
use proptest::prelude::*;

use super::events::{Event, event, policy};
use crate::fleet::{Fleet, after, an_ask, secs};

/// What a naive observer remembers.
#[derive(Clone, Debug, Default)]
struct Model {
    /// The latest time that was ever read.
    latest: Time,
    permits: Vec<Permit>,
    known: BTreeSet<u64>,
    /// Live leases by serial, with their ends.
    leases: BTreeMap<u64, Time>,
    /// Reports that were applied.
    applied: BTreeSet<u64>,
    first_attempts: Vec<(Time, u32)>,
    /// Tokens by serial of their permit, in the order they were taken.
    tokens: Vec<(Time, u64)>,
    /// The latest time at which the budget was looked at: there its clock stands.
    budget_at: Time,
    went_back: bool,
    /// Places in the calendar that were promised and not given back: serial, time, whether
    /// its permit is used up.
    places: Vec<(u64, Time, bool)>,
    /// Planned permits of this event.
    planned: Vec<Permit>,
}

impl Model {
    fn tokens_since(&self, span: Nanos) -> u128 {
        let now = self.budget_at;
        self.tokens
            .iter()
            .filter(|(at, _)| now.since(*at) < span)
            .count() as u128
    }

    fn firsts_since(&self, span: Nanos) -> u128 {
        let now = self.budget_at;
        let inside = self
            .first_attempts
            .iter()
            .filter(|(at, _)| now.since(*at) < span);
        inside.map(|(_, count)| u128::from(*count)).sum()
    }

    fn end(&mut self, serial: u64) {
        self.leases.remove(&serial);
    }
}

fn allowed(policy: &Policy, firsts: u128) -> u128 {
    let budget = &policy.budget;
    let floor = u128::from(budget.floor_micros_per_second) * u128::from(budget.ttl.0);
    (u128::from(budget.ratio.0) * firsts + floor / 1_000_000_000) / 1_000_000
}

struct Story {
    fleet: Fleet,
    model: Model,
}

impl Story {
    fn new(policy: Policy) -> Self {
        Self {
            fleet: Fleet::new(policy),
            model: Model::default(),
        }
    }

    fn run(&mut self, event: &Event) {
        let moves = matches!(
            event,
            Event::Forward(_) | Event::Backward(_) | Event::Draw(..)
        );
        if !moves {
            self.model.latest = self.model.latest.max(self.fleet.now);
        }
        let latest = self.model.latest;
        self.model.leases.retain(|_, end| latest < *end);
        let pick = |of: &usize, permits: &Vec<Permit>| match permits.len() {
            0 => None,
            many => Some(permits[of % many]),
        };
        let millis = |left: &Option<u64>| left.map(Nanos::from_millis);
        let now = self.fleet.now;
        match event {
            Event::First {
                caller,
                call,
                left,
                cost,
            } => {
                let ask = Ask {
                    caller: *caller,
                    service: *caller,
                    call: *call,
                    time_left: millis(left),
                    cost: *cost,
                    ..an_ask(Question::First)
                };
                self.ask(ask);
            }
            Event::Retry {
                of,
                attempt,
                outcome,
                call,
                left,
            } => {
                if let Some(permit) = pick(of, &self.model.permits) {
                    let question = Question::Retry {
                        attempt: *attempt,
                        previous: after(permit, *outcome),
                    };
                    let ask = Ask {
                        call: *call,
                        time_left: millis(left),
                        ..an_ask(question)
                    };
                    self.ask(ask);
                }
            }
            Event::RetryOther {
                made_under,
                attempt,
                outcome,
                call,
            } => {
                let permit = self.model.permits.last().copied();
                let made_under = match (made_under, permit) {
                    (0, Some(permit)) => MadeUnder::EarlierRun(permit),
                    (1, _) => MadeUnder::Unknown,
                    (2, _) => MadeUnder::Epoch(self.fleet.epoch().saturating_sub(1)),
                    _ => MadeUnder::Epoch(self.fleet.epoch()),
                };
                let previous = Previous {
                    made_under,
                    outcome: *outcome,
                };
                let question = Question::Retry {
                    attempt: *attempt,
                    previous,
                };
                self.ask(Ask {
                    call: *call,
                    ..an_ask(question)
                });
            }
            Event::Hedge { attempt, call } => {
                self.ask(Ask {
                    call: *call,
                    ..an_ask(Question::Hedge { attempt: *attempt })
                });
            }
            Event::Confirm { of, left } => {
                if let Some(permit) = pick(of, &self.model.permits) {
                    let ask = Ask {
                        time_left: millis(left),
                        ..an_ask(Question::Confirm(permit))
                    };
                    self.ask(ask);
                }
            }
            Event::Report { of, outcome } => {
                if let Some(permit) = pick(of, &self.model.permits) {
                    self.report(permit, *outcome);
                }
            }
            Event::Forged { serial, outcome } => {
                if let Some(permit) = self.model.permits.first()
                    && !self.model.known.contains(serial)
                {
                    let forged = Permit {
                        serial: *serial,
                        expires: Time::MAX,
                        ..*permit
                    };
                    self.report(forged, *outcome);
                }
            }
            Event::Tally(tally, behind) => {
                let epoch = self.fleet.epoch().saturating_sub(*behind);
                self.fleet.tally(Tally { epoch, ..*tally });
                self.budget_clock();
                self.model
                    .first_attempts
                    .push((self.model.budget_at, tally.first_attempts));
            }
            Event::Order { open, lasts } => {
                let order = Override {
                    kind: if *open {
                        OverrideKind::ForceOpen
                    } else {
                        OverrideKind::ForceClosed
                    },
                    owner: "ops".into(),
                    reason: String::new(),
                    set_at: now,
                    expires: lasts.map(|lasts| now + Nanos::from_millis(lasts)),
                };
                set_override(&mut self.fleet.record, order, now);
            }
            Event::ClearOrder => {
                clear_override(&mut self.fleet.record, now);
            }
            Event::Reset => reset(&mut self.fleet.record, now),
            Event::ClearHold => {
                clear_hold(&mut self.fleet.record, now);
            }
            Event::Forward(millis) => self.fleet.now = now + Nanos::from_millis(*millis),
            Event::Backward(millis) => {
                self.model.went_back = true;
                self.fleet.now = Time(now.0.saturating_sub(millis * 1_000_000));
            }
            Event::Reload(seed) => {
                let breaker = &mut self.fleet.policy.breaker;
                breaker.probes = u32::from(seed % 3) + 1;
                breaker.probe_lease = Nanos::from_millis(u64::from(*seed) * 20 + 100);
                breaker.permit_ttl = Nanos::from_millis(u64::from(*seed) * 50 + 100);
                let calendar = &mut self.fleet.policy.calendar;
                match seed % 5 {
                    0 => calendar.slot = Nanos::from_millis(u64::from(*seed) + 1),
                    1 => calendar.retry_rate = RetryRate::PerSecond(f64::from(*seed)),
                    2 => calendar.retry_rate = RetryRate::Auto,
                    3 => calendar.retry_rate = RetryRate::Off,
                    _ => calendar.horizon = Nanos::from_millis(u64::from(*seed) * 10),
                }
                if let Detect::Window(window) = &mut breaker.detect {
                    window.size = WindowSize::Calls(u32::from(*seed));
                }
            }
            Event::Draw(jitter, spread) => {
                self.fleet.sample = Sample {
                    jitter: *jitter,
                    spread: *spread,
                };
            }
        }
        self.watch();
    }

    fn ask(&mut self, ask: Ask) {
        let ask = Ask {
            priority: Priority::ALL[self.model.permits.len() % 3],
            ..ask
        };
        let before = self.fleet.clone();
        let mut twin = self.fleet.clone();
        let answer = self.fleet.ask(ask);
        // Invariant 9.
        assert_eq!(twin.ask(ask), answer);
        assert_eq!(
            format!("{:?}", twin.record),
            format!("{:?}", self.fleet.record)
        );
        self.note_previous(&ask, &answer, &before);
        match answer.verdict {
            Ok(grant) => self.granted(&ask, &answer, &grant, &before),
            Err(_) => self.denied(&ask, &answer, before),
        }
    }

    fn note_previous(&mut self, ask: &Ask, answer: &Answer, before: &Fleet) {
        let Question::Retry { previous, attempt } = ask.question else {
            assert_eq!(answer.previous, None);
            return;
        };
        match previous.made_under {
            MadeUnder::Permit(permit) => {
                self.reported(permit, answer.previous.unwrap(), before.epoch());
            }
            MadeUnder::Epoch(_) => {
                if answer.previous != Some(Reported::Duplicate) && attempt == 2 {
                    self.budget_clock();
                    self.model.first_attempts.push((self.model.budget_at, 1));
                }
            }
            MadeUnder::EarlierRun(_) | MadeUnder::Unknown => {
                assert_ne!(answer.previous, Some(Reported::Ok));
            }
        }
    }

    /// Invariant 7: at most once, and only in its own epoch.
    fn reported(&mut self, permit: Permit, reported: Reported, epoch: u64) {
        if matches!(reported, Reported::Ok | Reported::StaleEpoch) {
            assert!(
                self.model.applied.insert(permit.serial),
                "used twice: {permit:?}"
            );
            assert!(self.model.known.contains(&permit.serial));
            self.model.end(permit.serial);
        }
        if reported == Reported::Ok {
            assert!(
                permit.epoch >= epoch,
                "of another epoch: {permit:?} at {epoch}"
            );
        }
    }

    fn report(&mut self, permit: Permit, outcome: Outcome) {
        let mut before = self.fleet.clone();
        let context = self.fleet.context();
        before.record.advance(&before.policy, &context);
        let reported = self.fleet.report(permit, outcome);
        self.reported(permit, reported, before.epoch());
        if reported != Reported::Ok {
            assert_eq!(
                state_of(&before.view()),
                state_of(&self.fleet.view()),
                "{reported:?}"
            );
        }
        if !self.model.known.contains(&permit.serial) {
            assert_eq!(reported, Reported::Unknown);
        }
    }

    fn granted(&mut self, ask: &Ask, answer: &Answer, grant: &Grant, before: &Fleet) {
        let policy = &self.fleet.policy;
        // Invariant 1.
        if let Some(left) = ask.time_left {
            assert!(grant.delay < left, "{grant:?} in {left}");
        }
        let new = self.model.known.insert(grant.permit.serial);
        if let Question::Confirm(permit) = ask.question
            && permit.serial != grant.permit.serial
        {
            // The token moves to the new permit; the chain of lost answers too.
            let newest = self
                .model
                .tokens
                .iter_mut()
                .find(|(_, serial)| *serial == permit.serial);
            if let Some(token) = newest {
                token.1 = grant.permit.serial;
            }
            self.model.end(permit.serial);
        }
        if !new {
            return;
        }
        self.model.permits.push(grant.permit);
        if grant.permit.kind == PermitKind::Planned {
            self.model.planned.push(grant.permit);
        }
        // Invariant 3: an open breaker grants nothing, a forced-open one never.
        let spared = policy.breaker.applies_to != AppliesTo::All
            && (ask.question == Question::First
                || matches!(ask.question, Question::Confirm(permit) if permit.retry == 0));
        assert_ne!(answer.state, State::ForcedOpen);
        assert!(answer.state != State::Open || spared, "{ask:?} {answer:?}");
        // Invariant 2.
        if grant.probe {
            assert!(grant.delay.is_zero() && grant.permit.kind == PermitKind::Probe);
            let ends = self.fleet.now + policy.breaker.probe_lease;
            self.model.leases.insert(grant.permit.serial, ends);
            let live = self.model.leases.len();
            assert!(live <= policy.breaker.probes as usize, "{live} probes");
        } else if answer.state == State::HalfOpen {
            assert!(spared, "{ask:?} {answer:?}");
        }
        self.charged(ask, grant, before);
    }

    /// Invariants 1 and 5.
    fn charged(&mut self, ask: &Ask, grant: &Grant, before: &Fleet) {
        if !matches!(ask.question, Question::Confirm(_)) {
            self.budget_clock();
        }
        let policy = &self.fleet.policy;
        match ask.question {
            Question::First => self.model.first_attempts.push((self.model.budget_at, 1)),
            Question::Confirm(_) => {}
            Question::Retry { .. } | Question::Hedge { .. } => {
                self.model
                    .tokens
                    .push((self.model.budget_at, grant.permit.serial));
                let firsts = self.model.firsts_since(policy.budget.ttl);
                let granted = self.model.tokens_since(policy.budget.ttl);
                let allowed = allowed(policy, firsts);
                assert!(granted <= allowed, "{granted} retries of {allowed}");
            }
        }
        if let Question::Retry { previous, .. } = ask.question {
            let held = self
                .fleet
                .record
                .held_until()
                .max(before.record.held_until());
            let told = previous.outcome.pushback.is_some() || held > self.fleet.now;
            let planned = policy.calendar.retry_rate != RetryRate::Off;
            let only_backoff =
                !told && policy.rate.is_none() && !planned && before.record.ramp().is_none();
            assert!(
                !only_backoff || grant.delay <= policy.retry.max_delay,
                "{grant:?}"
            );
        }
    }

    /// Invariant 8: but for the outcome that came with it, a denial changes nothing.
    fn denied(&mut self, ask: &Ask, answer: &Answer, mut before: Fleet) {
        let denial = answer.verdict.unwrap_err();
        let context = self.fleet.context();
        let confirms = matches!(ask.question, Question::Confirm(_));
        let refunds = confirms && denial.reason != R::PermitVoid;
        if refunds || denial.reason == R::BudgetExhausted {
            self.budget_clock();
        }
        match ask.question {
            Question::Confirm(permit) if denial.reason != R::PermitVoid => {
                self.model
                    .tokens
                    .retain(|(_, serial)| *serial != permit.serial);
                self.model.end(permit.serial);
                self.forget_void_chain();
                return;
            }
            Question::Retry { previous, .. } => match previous.made_under {
                MadeUnder::Permit(permit) => {
                    before.report(permit, previous.outcome);
                }
                MadeUnder::Epoch(_) => return,
                MadeUnder::EarlierRun(_) | MadeUnder::Unknown => {
                    before.record.advance(&before.policy, &context);
                }
            },
            Question::First | Question::Hedge { .. } | Question::Confirm(_) => {
                before.record.advance(&before.policy, &context);
            }
        }
        let placed = |fleet: &Fleet| View {
            // How many wait decides nothing but when the next one is told to ask again.
            curve: None,
            ..fleet.view()
        };
        assert_eq!(placed(&before), placed(&self.fleet), "{denial:?}");
        for next in [
            Question::First,
            Question::Hedge { attempt: 1 },
            ask.question,
        ] {
            let next = Ask {
                question: next,
                call: None,
                time_left: None,
                ..*ask
            };
            let verdict = |mut fleet: Fleet| {
                let verdict = fleet.ask(next).verdict;
                verdict.map_err(|denial| match denial.reason {
                    R::Recovering | R::CalendarFull => (denial.reason, None),
                    reason => (reason, denial.retry_after),
                })
            };
            assert_eq!(
                verdict(before.clone()),
                verdict(self.fleet.clone()),
                "{denial:?}"
            );
        }
        if let (R::BudgetExhausted, Facts::Budget(Empty::Fleet { .. })) =
            (denial.reason, denial.facts)
        {
            self.is_exact_to_a_bucket();
        }
    }

    /// A confirmation of an old permit may have voided the one that had replaced it.
    fn forget_void_chain(&mut self) {
        let record = &self.fleet.record;
        let applied = &self.model.applied;
        let void = |serial: u64| {
            record.tickets.look(serial) == Ticket::Followed && !applied.contains(&serial)
        };
        let latest = self.model.latest;
        let expired: BTreeSet<u64> = self
            .model
            .permits
            .iter()
            .filter(|permit| permit.expires <= latest)
            .map(|permit| permit.serial)
            .collect();
        self.model
            .tokens
            .retain(|(_, serial)| expired.contains(serial) || !void(*serial));
    }

    /// A refusal for want of a token is right to a bucket.
    fn is_exact_to_a_bucket(&self) {
        if self.model.went_back {
            return;
        }
        let policy = &self.fleet.policy;
        let bucket = policy.budget.ttl.0 / 10;
        let sure = Nanos(policy.budget.ttl.0 - bucket);
        let long = Nanos(policy.budget.ttl.0 + bucket);
        let firsts = self.model.firsts_since(sure);
        let granted = self.model.tokens_since(long);
        assert!(
            granted + 1 > allowed(policy, firsts),
            "{granted} of {}",
            allowed(policy, firsts)
        );
    }

    fn budget_clock(&mut self) {
        self.model.budget_at = self.model.budget_at.max(self.fleet.now);
    }

    /// Invariant 6.
    fn no_slot_is_promised_beyond_its_capacity(&mut self) {
        let (tickets, now) = (&self.fleet.record.tickets, self.fleet.now);
        let is_out = |serial: u64| tickets.look(serial) == Ticket::Unreported;
        let mut planned = std::mem::take(&mut self.model.planned);
        planned.retain(|permit| {
            // A confirmation may give a new permit for the same place.
            let at = permit.issued + permit.delay;
            let kept = self
                .model
                .places
                .iter_mut()
                .find(|(serial, other, used_up)| *other == at && !*used_up && !is_out(*serial));
            kept.map(|place| place.0 = permit.serial).is_none()
        });
        self.model.places.retain_mut(|(serial, at, used_up)| {
            let given_back = !is_out(*serial) && !*used_up && now < *at;
            *used_up |= !is_out(*serial);
            !given_back
        });
        for permit in planned {
            let at = permit.issued + permit.delay;
            self.model.places.push((permit.serial, at, false));
            // A confirmation may keep a place whose time has passed.
            let Some(calendar) = self.fleet.record.calendar() else {
                continue;
            };
            let grid = calendar.grid();
            let slot = at.0 / grid.slot().0;
            let promised = self.model.places.iter();
            let promised = promised
                .filter(|(_, at, _)| at.0 / grid.slot().0 == slot)
                .count() as u64;
            assert!(
                promised <= grid.capacity(slot, Priority::High),
                "{promised} in {slot} of {grid:?}"
            );
        }
    }

    fn watch(&mut self) {
        self.no_slot_is_promised_beyond_its_capacity();
        let view = self.fleet.view();
        let before = format!("{:?}", self.fleet.record);
        let _ = self.fleet.view();
        assert_eq!(
            format!("{:?}", self.fleet.record),
            before,
            "reading changes nothing"
        );
        assert!(view.counts.failures <= view.counts.calls);
        assert!((0.0..=1.0).contains(&view.suspicion));
    }

    /// Invariant 4.
    fn closes_when_healthy(&mut self) {
        clear_override(&mut self.fleet.record, self.fleet.now);
        self.fleet.policy.breaker.mode = Mode::Enforce;
        self.fleet.policy.rate = None;
        self.fleet.sample = Sample::default();
        self.fleet.now = self.fleet.now.max(self.model.latest);
        for _ in 0..200 {
            if matches!(
                self.fleet.record.inner_state(self.fleet.now),
                State::Closed | State::Recovering
            ) {
                return;
            }
            if let Ok(grant) = self.fleet.ask(an_ask(Question::First)).verdict {
                let healthy = Outcome::of(OutcomeKind::Success);
                self.fleet.report(grant.permit, healthy);
            }
            self.fleet.now = self.fleet.now + secs(0.5);
        }
        panic!("stuck: {:?}", self.fleet.record);
    }
}

/// What a report that does not count may not change.
fn state_of(view: &View) -> (State, u64, window::Counts, f32, u64) {
    (
        view.state,
        view.epoch,
        view.counts,
        view.suspicion,
        view.trips,
    )
}

proptest! {
    /// 1 delays end before deadlines, 2 never more probes than `probes`, 3 open grants nothing,
    /// 5 the budget is never exceeded, 7 a report counts once and in its epoch, 8 a denial
    /// consumes nothing, 9 the same inputs give the same answer, 4 and it closes in the end.
    #[test]
    fn every_invariant_holds_in_every_story(
        policy in policy(),
        events in proptest::collection::vec(event(), 1..120),
    ) {
        let mut story = Story::new(policy);
        for event in &events {
            story.run(event);
        }
        story.closes_when_healthy();
    }
}
