//! The table and the card as they are printed. Nothing here asks a service.

use holdoff_client::proto::{
    CheckSummary, DenialCount, DenialReason, Followed, Override, OverrideKind, Reporter,
};

use super::*;

fn wire(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn at() -> jiff::Timestamp {
    jiff::Timestamp::from_second(1_796_066_143).unwrap()
}

fn open() -> Dependency {
    Dependency {
        namespace: "default".into(),
        name: "payments".into(),
        state: BreakerState::Open.into(),
        epoch: 8,
        in_state_for: wire(192),
        open_for: wire(8),
        detail: "12 of 20 calls failed".into(),
        probes_out: 1,
        budget_left: 4,
        first_attempts: 100,
        retries: 16,
        failure_ratio: 0.6,
        slow_ratio: 0.045,
        suspicion: 1.0,
        trips: 2,
        live: true,
        ..Default::default()
    }
}

fn forced() -> Dependency {
    Dependency {
        name: "search\u{1b}[2J".into(),
        state: BreakerState::ForcedOpen.into(),
        in_state_for: wire(60),
        r#override: Some(Override {
            kind: OverrideKind::ForceOpen.into(),
            owner: "alice".into(),
            reason: "migration".into(),
            expires_in: wire(540),
            ..Default::default()
        }),
        detail: "forced by alice: migration".into(),
        ..Default::default()
    }
}

#[test]
fn the_table_shows_each_dependency_on_a_line() {
    let page = ListDependenciesResponse {
        dependencies: vec![forced(), open()],
        next_page_token: "x".into(),
    };
    assert_eq!(
        list(Ink::Plain, "default", at(), page),
        "\
default at 2026-11-30 19:15:43Z: the first 2 dependencies, 1 open, 1 forced-open.

NAME             STATE        SINCE     FAILED        BUDGET  PROBES  OVERRIDE         WHY
payments         open         3 m 12 s  60 % at trip  4       1       -                12 of 20 calls failed
search\\u{1b}[2J  forced-open  1 m       0 %           0       0       alice, 9 m left  forced by alice: migration
The first 2 by name; there are more: --all shows them.
"
    );
    assert_eq!(
        list(
            Ink::Plain,
            "shop",
            at(),
            ListDependenciesResponse::default()
        ),
        "shop at 2026-11-30 19:15:43Z: no dependencies.\n"
    );
}

fn checked(verdict: CheckVerdict) -> Dependency {
    Dependency {
        check: Some(CheckSummary {
            period: wire(10),
            checkers: 12,
            running: 1,
            verdict: verdict.into(),
            age: wire(3),
            failures_in_a_row: 3,
            next_in: wire(2),
        }),
        ..open()
    }
}

#[test]
fn health_checks_are_a_line_of_the_card_and_a_word_in_the_table_where_they_fail() {
    let card_ = card(Ink::Plain, at(), &checked(CheckVerdict::Unhealthy));
    let line = "  health checks   unhealthy; the last result 3.0 s ago, 3 failures in a row; \
                12 checkers every 10 s, 1 running, the next in 2.0 s\n";
    assert!(card_.contains(line), "{card_}");
    let unhealthy = checked(CheckVerdict::Unhealthy);
    assert_eq!(why(&unhealthy), "health checks fail; 12 of 20 calls failed");
    let healthy = checked(CheckVerdict::Healthy);
    assert_eq!(why(&healthy), "12 of 20 calls failed");
    let before = Dependency {
        check: Some(CheckSummary {
            period: wire(10),
            verdict: CheckVerdict::Unknown.into(),
            ..Default::default()
        }),
        ..open()
    };
    let card = card(Ink::Plain, at(), &before);
    let line = "unknown; no result yet; 0 checkers every 10 s, 0 running\n";
    assert!(card.contains(line), "{card}");
}

#[test]
fn the_card_says_all_that_is_known() {
    assert_eq!(
        card(Ink::Plain, at(), &open()),
        "\
payments is open, for 3 m 12 s now, since 2026-11-30 19:12:31Z
  why             12 of 20 calls failed
  first probe in  8.0 s
  failed          60 % of the calls that opened it
  slow            4.5 % of the calls that opened it
  towards a trip  100 %
  retry budget    4 left; 100 first attempts and 16 retries in its window
  out now         1 probe, 0 permits
  opened          2 times
  epoch           8
  namespace       default
"
    );
    let card = card(Ink::Plain, at(), &forced());
    assert!(
        card.contains("override        forced open by alice: migration (9 m left)\n"),
        "{card}"
    );
    assert!(!card.contains('\u{1b}'));
}

/// With all that is only known of one that is followed.
fn followed() -> Dependency {
    let reporter = |instance: &str| Reporter {
        service: "shop\u{1b}[2J".into(),
        instance: instance.into(),
        heard_ago: wire(3),
        granted: 12,
        denied: 4,
        succeeded: 1,
        failed: 11,
    };
    let denied = |reason: DenialReason, count| DenialCount {
        reason: reason.into(),
        count,
    };
    Dependency {
        budget_allowed: 20,
        planned_retries: 29,
        next_planned_in: wire(1),
        denials: vec![
            denied(DenialReason::BreakerOpen, 40),
            denied(DenialReason::BudgetExhausted, 2),
        ],
        refused_instances: 1,
        followed: Some(Followed {
            followed_for: wire(60),
            calendar_part: wire(2),
            calendar: vec![5, 0, 3, 1, 1, 1, 1, 1, 1, 7, 0, 8],
            reporters: (0..12).map(|n| reporter(&n.to_string())).collect(),
        }),
        ..open()
    }
}

#[test]
fn a_budget_is_shown_with_all_of_it_where_there_is_room() {
    let short = |left, allowed| {
        budget_short(&Dependency {
            budget_left: left,
            budget_allowed: allowed,
            ..open()
        })
    };
    assert_eq!(short(4, 24), "4/24");
    assert_eq!(short(0, 100), "0/100");
    assert_eq!(short(1_000, 2_000), "1000");
    assert_eq!(short(4, 0), "4", "of an earlier service");
}

#[test]
fn the_card_of_one_that_is_followed_says_who_asks_and_what_is_planned() {
    let text = card(Ink::Plain, at(), &followed());
    for line in [
        "  retry budget    4 left of 20; 100 first attempts and 16 retries in its window\n",
        "  planned         29 retries, the first in 1.0 s\n",
        "  calendar ahead  5 within 2.0 s, 3 from 4.0 s, 1 from 6.0 s, 1 from 8.0 s, 1 from 10 s, \
         1 from 12 s, 1 from 14 s, 1 from 16 s, 15 later\n",
        "  refused so far  40 BREAKER_OPEN, 2 BUDGET_EXHAUSTED\n",
        "  refused alone   1 instance\n",
        "  reporters       12 instances in the 1 m that it is followed\n",
        "                  shop\\u{1b}[2J/0: 3.0 s ago; 12 granted, 4 refused; 1 succeeded, 11 failed\n",
        "                  and 2 more\n",
    ] {
        assert!(text.contains(line), "{line}\nis not in\n{text}");
    }
    assert!(!text.contains('\u{1b}'));
    assert_eq!(text.matches(" ago; ").count(), 10);
    let unheard = Dependency {
        followed: Some(Followed {
            followed_for: wire(0),
            ..Default::default()
        }),
        ..open()
    };
    let text = card(Ink::Plain, at(), &unheard);
    let line = "  reporters       nobody heard of in the 0 s that it is followed\n";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("calendar ahead"), "{text}");
}
