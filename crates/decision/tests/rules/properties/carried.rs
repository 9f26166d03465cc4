//! A record that is carried from process to process as bytes decides what one decides that never
//! left memory; and bytes that nobody wrote do no harm.

use holdoff_decision::{
    Ask, MadeUnder, Nanos, Permit, Policy, Previous, Priority, Question, Record, Sample, Tally,
    Time,
    bytes::Corrupt,
    operate::{clear_hold, clear_override, reset, set_override},
    policy::Detect,
    record::{Override, OverrideKind},
    view::view,
};
use proptest::prelude::*;

use super::events::{Event, event, policy};
use crate::fleet::{Fleet, after, an_ask};

pub(crate) fn written(record: &Record) -> Vec<u8> {
    let mut out = Vec::new();
    record.write(&mut out);
    out
}

/// Plays one event and says, as text, all that came of it.
fn play(fleet: &mut Fleet, permits: &mut Vec<Permit>, event: &Event) -> String {
    let millis = |left: &Option<u64>| left.map(Nanos::from_millis);
    let pick = |of: &usize, permits: &[Permit]| permits.get(of % permits.len().max(1)).copied();
    let now = fleet.now;
    let mut ask = |fleet: &mut Fleet, ask: Ask| {
        let priority = Priority::ALL[permits.len() % 3];
        let answer = fleet.ask(Ask { priority, ..ask });
        permits.extend(answer.verdict.ok().map(|grant| grant.permit));
        format!("{answer:?}")
    };
    match event {
        Event::First {
            caller,
            call,
            left,
            cost,
        } => ask(
            fleet,
            Ask {
                caller: *caller,
                service: *caller,
                call: *call,
                time_left: millis(left),
                cost: *cost,
                ..an_ask(Question::First)
            },
        ),
        Event::Retry {
            of,
            attempt,
            outcome,
            call,
            left,
        } => match pick(of, permits) {
            Some(permit) => {
                let previous = after(permit, *outcome);
                let attempt = *attempt;
                let (call, time_left) = (*call, millis(left));
                let question = Question::Retry { attempt, previous };
                let retry = Ask {
                    call,
                    time_left,
                    ..an_ask(question)
                };
                let priority = Priority::ALL[permits.len() % 3];
                let answer = fleet.ask(Ask { priority, ..retry });
                permits.extend(answer.verdict.ok().map(|grant| grant.permit));
                format!("{answer:?}")
            }
            None => String::new(),
        },
        Event::RetryOther {
            attempt,
            outcome,
            call,
            ..
        } => {
            let previous = Previous {
                made_under: MadeUnder::Epoch(fleet.epoch()),
                outcome: *outcome,
            };
            let attempt = *attempt;
            let question = Question::Retry { attempt, previous };
            ask(
                fleet,
                Ask {
                    call: *call,
                    ..an_ask(question)
                },
            )
        }
        Event::Hedge { attempt, call } => ask(
            fleet,
            Ask {
                call: *call,
                ..an_ask(Question::Hedge { attempt: *attempt })
            },
        ),
        Event::Confirm { of, .. } => match pick(of, permits) {
            Some(permit) => {
                let answer = fleet.ask(an_ask(Question::Confirm(permit)));
                permits.extend(answer.verdict.ok().map(|grant| grant.permit));
                format!("{answer:?}")
            }
            None => String::new(),
        },
        Event::Report { of, outcome } => match pick(of, permits) {
            Some(permit) => format!("{:?}", fleet.report(permit, *outcome)),
            None => String::new(),
        },
        Event::Forged { .. } | Event::Reload(_) => String::new(),
        Event::Tally(tally, behind) => {
            let epoch = fleet.epoch().saturating_sub(*behind);
            format!("{:?}", fleet.tally(Tally { epoch, ..*tally }))
        }
        Event::Order { open, lasts } => {
            let order = Override {
                kind: match open {
                    true => OverrideKind::ForceOpen,
                    false => OverrideKind::ForceClosed,
                },
                owner: "ops".into(),
                reason: "maintenance – ß".into(),
                set_at: now,
                expires: lasts.map(|lasts| now + Nanos::from_millis(lasts)),
            };
            set_override(&mut fleet.record, order, now);
            String::new()
        }
        Event::ClearOrder => format!("{:?}", clear_override(&mut fleet.record, now)),
        Event::Reset => {
            reset(&mut fleet.record, now);
            String::new()
        }
        Event::ClearHold => format!("{:?}", clear_hold(&mut fleet.record, now)),
        Event::Forward(millis) => {
            fleet.now = now + Nanos::from_millis(*millis);
            String::new()
        }
        Event::Backward(millis) => {
            fleet.now = Time(now.0.saturating_sub(millis * 1_000_000));
            String::new()
        }
        Event::Draw(jitter, spread) => {
            (fleet.sample.jitter, fleet.sample.spread) = (*jitter, *spread);
            String::new()
        }
    }
}

fn all_of(fleet: &mut Fleet) -> String {
    let changes = fleet.record.take_changes();
    let shown = view(&fleet.policy, &fleet.record, &fleet.context());
    format!("{changes:?} {shown:?}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// At any point of any story: written and read back it is the same record, in its bytes and
    /// in all that it will ever say.
    #[test]
    fn a_record_carried_as_bytes_decides_as_one_that_was_not(
        policy in policy(),
        events in proptest::collection::vec(event(), 1..120),
    ) {
        let mut whole = Fleet::new(policy);
        whole.now = Time(1_700_000_000_000_000_000);
        whole.record = Record::new(1, whole.now);
        let mut carried = whole.clone();
        let (mut of_whole, mut of_carried) = (Vec::new(), Vec::new());
        for event in &events {
            let bytes = written(&carried.record);
            carried.record = Record::read(&bytes).expect("it was written");
            prop_assert_eq!(&written(&carried.record), &bytes);
            prop_assert_eq!(
                play(&mut whole, &mut of_whole, event),
                play(&mut carried, &mut of_carried, event)
            );
            prop_assert_eq!(all_of(&mut whole), all_of(&mut carried));
            prop_assert_eq!(written(&whole.record), written(&carried.record));
        }
    }

    /// The core is small, and reads as a record with the same state, leases, override, hold and
    /// budget.
    #[test]
    fn the_core_is_a_record_of_at_most_a_kilobyte(
        policy in policy(),
        events in proptest::collection::vec(event(), 1..120),
    ) {
        let mut fleet = Fleet::new(policy);
        fleet.now = Time(1_700_000_000_000_000_000);
        fleet.record = Record::new(1, fleet.now);
        let mut permits = Vec::new();
        for event in &events {
            play(&mut fleet, &mut permits, event);
            fleet.record.take_changes();
            let mut core = Vec::new();
            fleet.record.write_core(&mut core);
            prop_assert!(core.len() <= 1_024, "{} bytes", core.len());
            let read = Record::read(&core).expect("it was written");
            let mut again = Vec::new();
            read.write(&mut again);
            prop_assert_eq!(&again, &core);
            prop_assert_eq!(read.breaker.epoch, fleet.record.breaker.epoch);
            prop_assert_eq!(
                read.state(&fleet.policy, fleet.now) == holdoff_decision::State::Recovering
                    || fleet.record.state(&fleet.policy, fleet.now)
                        == holdoff_decision::State::Recovering
                    || read.state(&fleet.policy, fleet.now)
                        == fleet.record.state(&fleet.policy, fleet.now),
                true
            );
            let held = fleet.record.breaker.probes_out(fleet.now);
            prop_assert_eq!(read.breaker.probes_out(fleet.now), held);
            prop_assert_eq!(read.order(), fleet.record.order());
            prop_assert_eq!(read.held_until(), fleet.record.held_until());
            let from = Time::ORIGIN;
            prop_assert_eq!(
                read.budget.level(&fleet.policy.budget, from, fleet.now),
                fleet.record.budget.level(&fleet.policy.budget, from, fleet.now)
            );
        }
    }

    /// Bytes that were changed on the way are refused, or read as a record that exactly these
    /// bytes are the form of; and no rule panics on it.
    #[test]
    fn changed_bytes_are_refused_or_harmless(
        policy in policy(),
        events in proptest::collection::vec(event(), 20..80),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..4_u8), 1..4),
        then in proptest::collection::vec(event(), 10..40),
    ) {
        let mut fleet = Fleet::new(policy);
        fleet.now = Time(1_700_000_000_000_000_000);
        fleet.record = Record::new(1, fleet.now);
        let mut permits = Vec::new();
        for event in &events {
            play(&mut fleet, &mut permits, event);
            fleet.record.take_changes();
        }
        let mut bytes = written(&fleet.record);
        for (at, byte, how) in edits {
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => bytes.truncate(at + 1),
                _ => bytes[at] ^= 1 << (byte % 8),
            }
        }
        if let Ok(read) = Record::read(&bytes) {
            prop_assert_eq!(written(&read), bytes);
            fleet.record = read;
            for event in &then {
                play(&mut fleet, &mut permits, event);
                all_of(&mut fleet);
            }
        }
    }

    #[test]
    fn any_bytes_are_refused_or_the_one_form_of_a_record(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        starts in any::<bool>(),
    ) {
        let mut bytes = bytes;
        if starts {
            let begin = written(&Record::new(7, Time(1_700_000_000_000_000_000)));
            bytes.splice(0..0, begin);
        }
        if let Ok(read) = Record::read(&bytes) {
            prop_assert_eq!(written(&read), bytes);
        }
    }
}

/// A story that leaves something in every part, so that the form of each is pinned.
fn rich(detect: Detect) -> Fleet {
    let mut policy = Policy::default();
    policy.breaker.detect = detect;
    policy.breaker.applies_to = holdoff_decision::policy::AppliesTo::Auto;
    policy.breaker.probes = 2;
    policy.rate = Some(holdoff_decision::policy::Rate {
        per_second: 1000.0,
        burst: 100,
        max_wait: Nanos::ZERO,
        per_caller: true,
    });
    let mut fleet = Fleet::new(policy);
    fleet.now = Time(1_700_000_000_000_000_000);
    fleet.record = Record::new(3, fleet.now);
    fleet.sample = Sample {
        jitter: 0.25,
        spread: 0.5,
    };
    fleet
}

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules/records.txt");

/// The form of a record is a contract between versions that run beside each other.
#[test]
fn the_form_of_a_record_changes_only_with_its_version() {
    let window = holdoff_decision::policy::Window::default();
    let mut lines = vec![format!(
        "new {}",
        hex(&written(&rich(Detect::Adaptive).record))
    )];
    for (name, detect) in [
        ("adaptive", Detect::Adaptive),
        ("window", Detect::Window(window)),
    ] {
        let mut fleet = rich(detect);
        let mut permits = Vec::new();
        let fail = crate::fleet::FAIL;
        for step in 0..40_u64 {
            let caller = step % 3;
            let first = Event::First {
                caller,
                call: Some(step),
                left: None,
                cost: 1,
            };
            play(&mut fleet, &mut permits, &first);
            let outcome = match step % 4 {
                0 => crate::fleet::OK,
                _ => fail,
            };
            let event = match step % 5 {
                4 => Event::Report {
                    of: step as usize,
                    outcome,
                },
                _ => Event::Retry {
                    of: step as usize,
                    attempt: 2,
                    outcome: fail,
                    call: None,
                    left: None,
                },
            };
            play(&mut fleet, &mut permits, &event);
            play(&mut fleet, &mut permits, &Event::Forward(40));
            fleet.record.take_changes();
            if step % 10 == 9 {
                lines.push(format!("{name}-{step} {}", hex(&written(&fleet.record))));
            }
        }
        play(&mut fleet, &mut permits, &Event::Forward(11_000));
        play(
            &mut fleet,
            &mut permits,
            &Event::First {
                caller: 1,
                call: None,
                left: None,
                cost: 1,
            },
        );
        play(
            &mut fleet,
            &mut permits,
            &Event::Order {
                open: true,
                lasts: Some(9_000),
            },
        );
        fleet.record.hold_until(fleet.now + Nanos::from_secs(3));
        fleet.record.take_changes();
        lines.push(format!("{name}-probing {}", hex(&written(&fleet.record))));
    }
    let made = lines.join("\n") + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(GOLDEN, &made).unwrap();
    }
    let kept = std::fs::read_to_string(GOLDEN).unwrap_or_default();
    assert!(
        made == kept,
        "bless tests/rules/records.txt, and raise the version of the form"
    );
    for line in kept.lines() {
        let (name, bytes) = line.split_once(' ').unwrap();
        let bytes = unhex(bytes);
        let read = Record::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(written(&read), bytes, "{name}");
    }
}

#[test]
fn a_later_version_is_told_from_what_is_corrupt() {
    let mut bytes = written(&Record::new(1, Time(5)));
    bytes[0] = 2;
    assert_eq!(Record::read(&bytes).unwrap_err(), Corrupt::Version(2));
    assert_eq!(Record::read(&[]).unwrap_err(), Corrupt::Ended);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(digits).collect()
}
