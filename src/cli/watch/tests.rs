//! The screen as text; in files of their own the keys as laws, and hostile texts.

mod hostile;
mod keys;

use std::time::Duration;

use holdoff_client::proto::{
    BreakerState, CheckSummary, CheckVerdict, DenialCount, DenialReason, Dependency, Event,
    EventKind, Followed, Override, OverrideKind, PolicyValue, Reporter, WatchDependenciesResponse,
    watch_dependencies_response::Change,
};
use ratatui::{
    Terminal,
    backend::TestBackend,
    crossterm::event::{KeyCode, KeyEvent, KeyModifiers},
    style::{Color, Modifier},
};

use super::{
    dialog::{Action, Field, Order},
    lines,
    model::{Filter, Model, Now, Over, Seen, Sort},
    update::{Effect, Input, Told, update},
    view::view,
};
use crate::cli::{escape::is_unprintable, output::Ink};

/// 2026-11-30 19:15:43Z, and so much later.
fn after(millis: u64) -> Now {
    let elapsed = Duration::from_millis(millis);
    let wall = jiff::Timestamp::from_second(1_796_066_143).unwrap() + elapsed;
    Now { elapsed, wall }
}

fn wire(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn named(name: &str, state: BreakerState) -> Dependency {
    Dependency {
        namespace: "default".into(),
        name: name.into(),
        state: state.into(),
        epoch: 7,
        in_state_for: wire(192),
        detail: "12 of 20 calls failed".into(),
        budget_left: 4,
        first_attempts: 100,
        retries: 16,
        failure_ratio: if state == BreakerState::Closed {
            0.0
        } else {
            0.6
        },
        calls_per_second: 42.0,
        active_instances: 3,
        live: true,
        ..Default::default()
    }
}

fn fleet() -> Vec<Dependency> {
    vec![
        named("mail", BreakerState::Closed),
        Dependency {
            open_for: wire(8),
            ..named("payments", BreakerState::Open)
        },
        Dependency {
            r#override: Some(Override {
                kind: OverrideKind::ForceClosed.into(),
                owner: "alice".into(),
                reason: "breaker is wrong".into(),
                expires_in: wire(540),
                ..Default::default()
            }),
            ..named("search", BreakerState::ForcedClosed)
        },
        Dependency {
            held_for: wire(30),
            ..named("openai:gpt", BreakerState::Closed)
        },
    ]
}

fn tripped(name: &str) -> Event {
    Event {
        sequence: 4,
        time: Some(prost_types::Timestamp {
            seconds: 1_796_065_951,
            nanos: 0,
        }),
        kind: EventKind::Tripped.into(),
        namespace: "default".into(),
        dependency: name.into(),
        from: BreakerState::Closed.into(),
        to: BreakerState::Open.into(),
        epoch: 7,
        detail: "12 of 20 calls failed".into(),
        owner: String::new(),
        ..Event::default()
    }
}

fn told(model: &mut Model, told: Told, now: Now) {
    assert_eq!(update(model, Input::Told(told), now), None);
}

/// One that has heard of these, all at once, a second after the start.
fn heard(all: Vec<Dependency>, width: u16, height: u16) -> Model {
    let server = "http://127.0.0.1:7460".to_owned();
    let namespace = "default".to_owned();
    let mut model = Model::new(server, namespace, Ink::Plain, after(0), (width, height));
    let now = after(1_000);
    told(&mut model, Told::Begun, now);
    for d in all {
        told(&mut model, Told::Dependency(Box::new(d)), now);
    }
    told(&mut model, Told::Synced, now);
    update(&mut model, Input::Tick, now);
    model
}

fn press(model: &mut Model, code: KeyCode) -> Option<Effect> {
    let now = model.now;
    update(
        model,
        Input::Key(KeyEvent::new(code, KeyModifiers::NONE)),
        now,
    )
}

fn type_(model: &mut Model, text: &str) {
    for c in text.chars() {
        assert_eq!(press(model, KeyCode::Char(c)), None, "{c}");
    }
}

fn drawn(model: &Model) -> Terminal<TestBackend> {
    let backend = TestBackend::new(model.width, model.height);
    let mut terminal = Terminal::new(backend).unwrap();
    terminal.draw(|frame| view(model, frame)).unwrap();
    terminal
}

fn text(model: &Model) -> String {
    let terminal = drawn(model);
    let buffer = terminal.backend().buffer();
    let lines = buffer.content.chunks(buffer.area.width.into());
    let line = |cells: &[ratatui::buffer::Cell]| {
        let line: String = cells.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    };
    lines.map(line).collect()
}

#[test]
fn the_list_shows_the_worst_first_with_why_and_what_is_left() {
    assert_eq!(
        text(&heard(fleet(), 80, 14)),
        "\
holdoff default at http://127.0.0.1:7460                          live 19:15:44Z
■ 1 open  ◇ 1 forced-closed  ● 2 closed                         by trouble first
STATE           NAME                 SINCE FAILED BUDGET WHY
■ open          payments          3 m 12 s  60 %*      4 probe in 8.0 s; 12 of …
◇ forced-closed search            3 m 12 s   60 %      4 9 m left; breaker is w…
● closed        openai:gpt        3 m 12 s    0 %      4 held for 30 s; 12 of 2…
● closed        mail              3 m 12 s    0 %      4 12 of 20 calls failed






Enter page  / search  f filter  s sort  e events  o c r R h act  ? help  q quit
"
    );
}

#[test]
fn spans_go_on_while_the_service_is_heard_and_stand_still_where_it_is_not() {
    let mut model = heard(fleet(), 80, 20);
    update(&mut model, Input::Tick, after(4_000));
    assert!(text(&model).contains("probe in 5.0 s"), "{}", text(&model));
    update(&mut model, Input::Tick, after(60_000));
    let stale = text(&model);
    assert!(
        stale.contains("STALE, as of 19:15:44Z: no answer"),
        "{stale}"
    );
    assert!(stale.contains("probe in 8.0 s"), "{stale}");
    told(&mut model, Told::Numbers(Vec::new()), after(61_000));
    assert!(text(&model).contains("live 19:16:44Z"), "{}", text(&model));
}

#[test]
fn a_service_that_says_nothing_is_stale_within_five_seconds() {
    let mut model = heard(fleet(), 80, 20);
    // Beats are a second apart, and the last may have come just before the service went.
    update(&mut model, Input::Tick, after(1_000 + 4_000));
    assert!(model.is_stale());
    let mut lost = heard(fleet(), 80, 20);
    told(
        &mut lost,
        Told::Lost("connection refused".into()),
        after(1_100),
    );
    let text = text(&lost);
    assert!(text.contains("reconnecting: connection refused"), "{text}");
}

#[test]
fn what_a_new_listing_leaves_out_is_gone() {
    let mut model = heard(fleet(), 80, 20);
    told(&mut model, Told::Begun, after(2_000));
    told(
        &mut model,
        Told::Dependency(Box::new(named("mail", BreakerState::Closed))),
        after(2_000),
    );
    assert_eq!(model.rows.len(), 4, "until it is whole");
    told(&mut model, Told::Synced, after(2_000));
    assert_eq!(model.rows.len(), 1);
}

#[test]
fn a_page_says_all_that_is_known_of_one() {
    let mut model = heard(fleet(), 100, 60);
    told(
        &mut model,
        Told::Event(Box::new(tripped("payments")), 0),
        after(1_000),
    );
    told(
        &mut model,
        Told::Event(Box::new(tripped("mail")), 2),
        after(1_000),
    );
    let effect = press(&mut model, KeyCode::Enter);
    assert_eq!(effect, Some(Effect::ReadPolicy("payments".into())));
    let value = PolicyValue {
        field: "retry.max_attempts".into(),
        value: "3".into(),
        origin: "built-in".into(),
    };
    told(
        &mut model,
        Told::Policy("payments".into(), Ok(vec![value])),
        after(1_000),
    );
    let now = fleet().remove(1);
    told(&mut model, Told::Numbers(vec![now]), after(1_000));
    let shown = text(&model);
    for part in [
        "■ payments is open, for 3 m 12 s now",
        "why             12 of 20 calls failed",
        "first probe in  8.0 s",
        "calls           42.0 a second, of 3 instances; usually -",
        "retry budget    4 left; 100 first attempts and 16 retries in its window",
        "of them         60 % failed, 0 % slow of those that opened it; 0 % of a trip",
        "calls/s         42.0      █",
        "2026-11-30 19:12:31Z  tripped            payments  closed → open",
        "retry.max_attempts  3  built-in",
        "········██████████",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!shown.contains("tripped            mail"), "{shown}");
    press(&mut model, KeyCode::Esc);
    press(&mut model, KeyCode::Char('e'));
    assert!(
        text(&model).contains("── events (2 missed) ─"),
        "{}",
        text(&model)
    );
}

#[test]
fn a_page_says_who_asks_what_is_planned_and_what_was_refused() {
    let mut model = heard(fleet(), 100, 60);
    press(&mut model, KeyCode::Enter);
    assert_eq!(model.seen(), Seen::Page("payments".into()));
    let now = Dependency {
        budget_allowed: 20,
        planned_retries: 9,
        next_planned_in: wire(1),
        denials: vec![DenialCount {
            reason: DenialReason::BreakerOpen.into(),
            count: 40,
        }],
        followed: Some(Followed {
            followed_for: wire(60),
            calendar_part: wire(2),
            calendar: vec![8, 0, 1],
            reporters: vec![Reporter {
                service: "shop".into(),
                instance: "shop-1".into(),
                heard_ago: wire(3),
                granted: 12,
                failed: 11,
                ..Default::default()
            }],
        }),
        ..fleet().remove(1)
    };
    told(&mut model, Told::Numbers(vec![now]), after(1_000));
    // A change that is pushed has less in it, and takes none of that away.
    let pushed = Box::new(fleet().remove(1));
    told(&mut model, Told::Dependency(pushed), after(1_100));
    let shown = text(&model);
    for part in [
        "── Calendar ahead ─",
        "2.0 s a bar     █ ▁",
        "retries         8 within 2.0 s, 1 from 4.0 s",
        "── Reporters ─",
        "1 instance in the 1 m that it is followed",
        "shop/shop-1: 3.0 s ago; 12 granted, 0 refused; 0 succeeded, 11 failed",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    press(&mut model, KeyCode::Esc);
    assert!(matches!(model.seen(), Seen::Lines(names) if names.len() == 4));
}

#[test]
fn ten_thousand_are_sorted_once_a_draw_and_only_the_screen_is_asked_about() {
    let all = (0..10_000)
        .map(|n| named(&format!("d{n:05}"), BreakerState::Closed))
        .collect();
    let mut model = heard(all, 80, 24);
    assert_eq!((model.order.len(), model.visible().len()), (10_000, 17));
    press(&mut model, KeyCode::Char('G'));
    assert_eq!(model.visible().last().unwrap(), "d09999");
    press(&mut model, KeyCode::Char('g'));
    assert_eq!(model.visible()[0], "d00000");
    let before = model.order.clone();
    let worse = named("d05000", BreakerState::Open);
    told(&mut model, Told::Dependency(Box::new(worse)), after(1_100));
    assert_eq!(model.order, before, "what is told is not sorted one by one");
    update(&mut model, Input::Tick, after(1_200));
    assert_eq!(&*model.order[0], "d05000");
}

#[test]
fn without_colour_no_cell_has_one_and_with_it_some_have() {
    let coloured = |ink| {
        let mut model = heard(fleet(), 80, 24);
        model.ink = ink;
        let terminal = drawn(&model);
        let cells = terminal.backend().buffer().content.iter();
        cells
            .filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
            .count()
    };
    assert_eq!(coloured(Ink::Plain), 0);
    assert!(coloured(Ink::Coloured) > 80);
    let chosen = drawn(&heard(fleet(), 80, 24));
    let cell = &chosen.backend().buffer()[(0, 3)];
    assert!(
        cell.modifier.contains(Modifier::REVERSED),
        "the chosen line is seen without it"
    );
}

#[test]
fn without_a_terminal_a_change_is_a_line() {
    let line = |change| {
        let message = WatchDependenciesResponse {
            change: Some(change),
        };
        lines::line(after(0).wall, &message)
    };
    assert_eq!(
        line(Change::Dependency(fleet().remove(1))),
        "2026-11-30 19:15:43Z  payments  open, for 3 m 12 s now: probe in 8.0 s; 12 of 20 calls failed\n"
    );
    assert_eq!(
        line(Change::Removed("a\u{1b}b".into())),
        "2026-11-30 19:15:43Z  a\\u{1b}b  gone\n"
    );
    assert_eq!(line(Change::Synced(true)), "");
}
