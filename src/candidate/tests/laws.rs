//! What a judge promises.

use holdoff_decision::{DenialReason, Nanos, OutcomeKind, Record, Tally};

use super::story::{Health, Story};

use OutcomeKind::{Failure, Success};

const OPENS_AT_FIVE: &str = "breaker: {window: 10, min_calls: 5, min_reporters: 1, open_for: 10s}";
const NEVER_OPENS: &str = "breaker: {mode: off}";

/// Policies whose rules differ as much as they can.
const POLICIES: [&str; 7] = [
    "{}",
    OPENS_AT_FIVE,
    "breaker: {window: 2s, min_calls: 3, applies_to: retries, probes: 2, probe_lease: 1s}\nretry: {max_attempts: 5}",
    "rate: {per_second: 20, burst: 5, max_wait: 1s, per_caller: true}\npushback: {scope: dependency}",
    "breaker: {applies_to: auto, open_for: 1s, permit_ttl: 2s}\nbudget: {ratio: 0, floor_per_second: 1}",
    "retry: {initial_delay: 2s, jitter: none, strategy: fixed}\ncalendar: {retry_rate: 3}",
    "breaker: {mode: shadow, window: 10, min_calls: 5}\ncalendar: {retry_rate: off}",
];

/// A record without what it remembers of questions: a permit that is void in both has other
/// names there.
fn seen(record: &Record) -> String {
    let (breaker, budget) = (&record.breaker, &record.budget);
    let (tickets, throughput) = (&record.tickets, &record.throughput);
    let rare = (
        record.calendar(),
        record.ramp(),
        record.held_until(),
        record.order(),
    );
    let touched = record.touched;
    format!("{breaker:?} {budget:?} {tickets:?} {throughput:?} {rare:?} {touched:?}")
}

fn health(step: usize) -> Health {
    match [20, 600, 1_000, 0, 300, 50].get(step / 150 % 7) {
        Some(failing) => Health::Failing(*failing),
        None => Health::Silent,
    }
}

fn tell(story: &mut Story, steps: usize) {
    for step in 0..steps {
        story.anything(health(step));
    }
}

#[test]
fn a_candidate_that_says_what_the_live_policy_says_differs_in_nothing() {
    for document in POLICIES {
        for seed in 0..12 {
            let mut story = Story::new(document, &[document], seed);
            for step in 0..3_000 {
                story.anything(health(step));
                let (_, judge) = &story.judges[0];
                assert!(
                    judge.numbers().agree(),
                    "seed {seed}, step {step} of {document}: after {:#?}",
                    story.last
                );
            }
            assert_eq!(
                seen(story.judges[0].1.record()),
                seen(&story.record),
                "seed {seed} of {document}"
            );
        }
    }
}

#[test]
fn a_judge_that_begins_late_differs_in_nothing_either() {
    for document in POLICIES {
        let mut story = Story::new(document, &[], 77);
        tell(&mut story, 700);
        let judge = super::super::Judge::beside(&story.record);
        story.judges.push((story.live.clone(), judge));
        tell(&mut story, 2_000);
        let numbers = story.judges[0].1.numbers();
        assert!(numbers.agree(), "{document}: {numbers:#?}");
    }
}

/// Whatever the two policies are, every attempt is on exactly one side of each, and no call
/// ends more often than it was made.
#[test]
fn what_two_policies_do_otherwise_adds_up() {
    for live in POLICIES {
        for (seed, candidate) in (100..).zip(POLICIES) {
            let mut story = Story::new(live, &[candidate], seed);
            tell(&mut story, 2_000);
            let numbers = story.judges[0].1.numbers();
            let (refused, let_through) = (numbers.refused_in_all(), numbers.let_through_in_all());
            let context = format!("{live} against {candidate}: {numbers:#?}");
            assert!(
                refused.succeeded + refused.failed <= refused.attempts(),
                "{context}"
            );
            assert_eq!(
                (let_through.succeeded, let_through.failed),
                (0, 0),
                "{context}"
            );
            let (live, own) = (&numbers.live, &numbers.candidate);
            assert_eq!(
                live.succeeded,
                own.succeeded + refused.succeeded,
                "{context}"
            );
            assert_eq!(live.failed, own.failed + refused.failed, "{context}");
        }
    }
}

#[test]
fn a_story_told_twice_gives_the_same_numbers() {
    let told = || {
        let mut story = Story::new("{}", &[OPENS_AT_FIVE], 5);
        tell(&mut story, 2_000);
        story.judges.remove(0).1.numbers().clone()
    };
    assert_eq!(told(), told());
}

#[test]
fn what_the_candidate_would_have_refused_is_counted_with_how_it_ended() {
    let mut story = Story::new(NEVER_OPENS, &[OPENS_AT_FIVE], 1);
    for _ in 0..5 {
        story.call(1, &[Failure]);
        story.pass(10);
    }
    assert_eq!(story.openings.len(), 1, "told once");
    for kind in [Success, Success, Success, Failure] {
        story.call(1, &[kind]);
    }
    let numbers = story.judges[0].1.numbers();
    let (reason, refused) = numbers.refused().last().unwrap();
    assert_eq!(reason, DenialReason::BreakerOpen);
    // The retries of the last outage calls were refused too.
    assert_eq!(refused.first_attempts, 4);
    assert_eq!((refused.succeeded, refused.failed), (3, 1));
    assert_eq!(numbers.candidate.openings.opened, 1);
    assert_eq!(numbers.live.openings.opened, 0);
}

#[test]
fn what_only_the_candidate_would_have_let_through_has_no_end() {
    let mut story = Story::new(OPENS_AT_FIVE, &[NEVER_OPENS], 1);
    for _ in 0..9 {
        story.call(1, &[Failure, Failure]);
        story.pass(10);
    }
    let numbers = story.judges[0].1.numbers();
    let through = numbers.let_through_in_all();
    assert!(through.first_attempts >= 4, "{numbers:#?}");
    assert_eq!((through.succeeded, through.failed), (0, 0));
    assert_eq!(numbers.live.openings.opened, 1);
    assert_eq!(numbers.candidate.openings.opened, 0);
}

#[test]
fn a_call_that_was_never_made_is_not_held_against_the_dependency() {
    let mut story = Story::new(OPENS_AT_FIVE, &["breaker: {permit_ttl: 1s}"], 1);
    for _ in 0..3 {
        story.call(1, &[Failure]);
    }
    story.order(super::super::Happening::Forced(
        holdoff_decision::record::Override {
            kind: holdoff_decision::record::OverrideKind::ForceOpen,
            owner: "ada".into(),
            reason: String::new(),
            set_at: story.now,
            expires: None,
        },
    ));
    story.order(super::super::Happening::Reset);
    for _ in 0..100 {
        story.call(1, &[Failure]);
        story.pass(100);
    }
    assert_eq!(story.judges[0].1.numbers().candidate.openings.opened, 0);
}

#[test]
fn a_candidate_recovers_by_the_calls_that_the_live_policy_makes() {
    let mut story = Story::new(NEVER_OPENS, &[OPENS_AT_FIVE], 3);
    for _ in 0..5 {
        story.call(1, &[Failure]);
    }
    story.pass(10_500);
    for _ in 0..40 {
        story.call(1, &[Success]);
        story.pass(200);
    }
    let (policy, judge) = &story.judges[0];
    let state = judge.record().state(policy, story.now);
    assert_eq!(state, holdoff_decision::State::Closed);
}

#[test]
fn a_probe_that_was_never_made_does_not_keep_the_candidate_from_recovering() {
    let strict = "budget: {ratio: 0, floor_per_second: 0}\nbreaker: {mode: off}";
    let opens = "breaker: {window: 10, min_calls: 5, min_reporters: 1, open_for: 1s, probe_lease: 60s, spread: 0s}";
    let mut story = Story::new(strict, &[opens], 3);
    let mut permits = Vec::new();
    for _ in 0..9 {
        let first = super::story::ask(holdoff_decision::Question::First, 1);
        permits.push(story.ask(first).unwrap().permit);
    }
    let last = permits.pop().unwrap();
    for permit in permits {
        story.report(permit, Failure, 1);
    }
    story.pass(1_500);
    // The retry would be the probe, and the live budget has no token for it.
    let previous = holdoff_decision::Previous {
        made_under: holdoff_decision::MadeUnder::Permit(last),
        outcome: holdoff_decision::Outcome::of(Failure),
    };
    let retry = holdoff_decision::Question::Retry {
        attempt: 2,
        previous,
    };
    assert!(story.ask(super::story::ask(retry, 1)).is_err());
    assert_eq!(story.judges[0].1.numbers().let_through_in_all().retries, 1);
    for _ in 0..2 {
        story.call(1, &[Success]);
    }
    assert_eq!(
        story.judges[0].1.record().breaker.phase,
        holdoff_decision::breaker::Phase::Closed
    );
}

#[test]
fn tallied_first_attempts_are_refused_by_an_open_candidate_and_probe_a_half_open_one() {
    let mut story = Story::new(NEVER_OPENS, &[OPENS_AT_FIVE], 3);
    let sum = |story: &Story, successes, failures| Tally {
        epoch: story.record.breaker.epoch,
        first_attempts: successes + failures,
        successes,
        failures,
        ..Tally::default()
    };
    story.tally(sum(&story, 0, 8), 1);
    assert_eq!(story.openings.len(), 1);
    story.pass(100);
    story.tally(sum(&story, 30, 10), 1);
    let refused = story.judges[0].1.numbers().refused_in_all();
    assert_eq!(refused.first_attempts, 40);
    assert_eq!((refused.succeeded, refused.failed), (30, 10));
    story.pass(10_500);
    for _ in 0..20 {
        story.tally(sum(&story, 10, 0), 1);
        story.pass(1_000);
    }
    let (policy, judge) = &story.judges[0];
    assert_eq!(
        judge.record().state(policy, story.now),
        holdoff_decision::State::Closed
    );
}

#[test]
fn longer_delays_are_told_from_shorter_ones() {
    let fixed = |delay| {
        format!(
            "retry: {{strategy: fixed, jitter: none, initial_delay: {delay}}}\ncalendar: {{retry_rate: off}}"
        )
    };
    let (slow, quick) = (fixed("500ms"), fixed("10ms"));
    let mut story = Story::new(&fixed("100ms"), &[&slow, &quick], 1);
    story.call(1, &[Failure, Failure]);
    let [slow, quick] = [0, 1].map(|at: usize| story.judges[at].1.numbers().clone());
    assert_eq!((slow.later.attempts, slow.sooner.attempts), (2, 0));
    assert_eq!(slow.later.together, Nanos::from_millis(800));
    assert_eq!((quick.later.attempts, quick.sooner.attempts), (0, 2));
}

#[test]
fn the_table_of_permits_is_bounded_and_what_is_forgotten_is_counted() {
    let mut story = Story::new("{}", &["rate: {per_second: 0.001, burst: 1}"], 1);
    let first = super::story::ask(holdoff_decision::Question::First, 1);
    for _ in 0..6_000 {
        let _ = story.ask(first);
    }
    let forgotten = |story: &Story| story.judges[0].1.numbers().forgotten;
    assert_eq!(
        forgotten(&story),
        5_999 - 4_096,
        "all but the first were refused"
    );
    story.pass(200_000);
    let _ = story.ask(first);
    assert_eq!(forgotten(&story), 5_999);
}
