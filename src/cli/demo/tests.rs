use std::time::Duration;

use holdoff_client::proto::{BreakerState, Dependency, Event, EventKind};

use super::{
    counts::{Counts, No},
    course::Phase,
    screen::{Shown, screen},
    story::{Lesson, Story},
};
use crate::cli::output::Ink;

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn event(kind: EventKind) -> Event {
    Event {
        kind: kind.into(),
        detail: "5 failures in a row".into(),
        ..Event::default()
    }
}

fn refused(count: u64) -> Counts {
    Counts {
        denied: [(No::BreakerOpen, count)].into(),
        ..Counts::default()
    }
}

#[test]
fn a_lesson_is_seen_only_when_it_has_happened() {
    let mut story = Story::default();
    let told = story.look(at(0), Phase::Well, &refused(0));
    assert_eq!(told.len(), 1, "that it is well, once: {told:?}");
    assert!(story.look(at(1), Phase::Well, &refused(100)).is_empty());
    assert!(story.seen.is_empty(), "refused before any trip: {story:?}");

    let told = story.event(at(10), &event(EventKind::Tripped), &refused(100));
    assert!(told.is_some_and(|told| told.text.contains("5 failures in a row")));
    assert!(story.look(at(11), Phase::Well, &refused(104)).is_empty());
    let told = story.look(at(12), Phase::Well, &refused(105));
    assert!(told[0].text.contains("5 calls were refused"), "{told:?}");
    assert!(
        story.look(at(13), Phase::Well, &refused(200)).is_empty(),
        "once a trip"
    );

    story.event(at(14), &event(EventKind::Probing), &refused(200));
    story.event(at(15), &event(EventKind::Recovered), &refused(200));
    assert!(!story.seen.contains(&Lesson::Ramp));
    story.event(at(16), &event(EventKind::RampEnded), &refused(200));
    assert_eq!(story.unseen(), ["hold", "calendar"]);
}

#[test]
fn the_calendar_is_seen_when_those_that_were_held_have_different_places() {
    let due = |places: &[u64]| Counts {
        due: places.iter().map(|ms| Duration::from_millis(*ms)).collect(),
        ..Counts::default()
    };
    for (places, is_seen) in [
        (vec![34_000, 34_100, 34_200, 34_300, 34_305], true),
        (vec![34_000; 10], false),
        (vec![34_000, 34_100], false),
        (vec![1_000, 1_100, 1_200, 1_300, 1_400, 1_500], false),
    ] {
        let mut story = Story::default();
        story.event(at(32), &event(EventKind::Held), &due(&places));
        story.look(at(33), Phase::Throttling, &due(&places));
        assert!(!story.seen.contains(&Lesson::Calendar), "too early");
        story.look(at(37), Phase::Well, &due(&places));
        assert_eq!(
            story.seen.contains(&Lesson::Calendar),
            is_seen,
            "{places:?}"
        );
    }
}

#[test]
fn the_screen_shows_where_it_is_and_how_all_is() {
    let mut story = Story::default();
    let told = story.event(at(10), &event(EventKind::Tripped), &Counts::default());
    let then = story.event(at(10), &event(EventKind::Probing), &Counts::default());
    let told: Vec<_> = told.into_iter().chain(then).collect();
    let dependency = Dependency {
        state: BreakerState::Open.into(),
        open_for: Some(prost_types::Duration {
            seconds: 2,
            nanos: 0,
        }),
        trips: 1,
        budget_left: 20,
        ..Dependency::default()
    };
    let counts = Counts {
        calls: 812,
        succeeded: 700,
        given_up: 112,
        retries: 9,
        due: vec![Duration::from_millis(12_050); 3],
        ..refused(40)
    };
    let shown = |rows| {
        let shown = Shown {
            age: at(12),
            grpc: "127.0.0.1:7460",
            dashboard: Some("127.0.0.1:7461"),
            clients: 40,
            phase: Phase::Down,
            dependency: Some(&dependency),
            reached_per_second: 0,
            counts: &counts,
            story: &story,
            told: &told,
            rows,
        };
        screen(Ink::Plain, &shown)
    };
    let text = shown(24);
    assert_eq!(
        text,
        "\
holdoff demo, 12 s: a flaky dependency and its callers. Ctrl-C ends it.

  dashboard   http://127.0.0.1:7461/ (open it in a browser)
  service     gRPC on 127.0.0.1:7460
  dependency  payments is down, no call is answered; 0 calls/s reach it
  breaker     open, first probe in 2.0 s; trips: 1, budget: 20 retries
  fleet       40 clients: 812 calls, 700 succeeded, 112 given up
  attempts    9 retries, 0 probes
  refused     breaker open 40
  calendar    ▃······································· next 4 s, 3 attempts
  seen        [x] trip [ ] refusal [x] probe [ ] ramp [ ] hold [ ] calendar

 10.0 s  TRIP. The breaker opens for the whole fleet (5 failures in a row).
 10.0 s  PROBE. Half-open: one caller of the fleet may try one call; the others
         go on being refused.
"
    );
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?} columns:\n{text}");
    // What has no room is the oldest sentence, and never the head.
    let all: Vec<&str> = text.lines().collect();
    for rows in 0..all.len() {
        let fewer = shown(rows);
        let fewer: Vec<&str> = fewer.lines().collect();
        assert_eq!(fewer[..12], all[..12]);
        assert!(fewer.len() == 12 || fewer.len() < rows, "{fewer:?}");
        assert!(all.ends_with(&fewer[12..]));
    }
}
