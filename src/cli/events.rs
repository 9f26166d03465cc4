//! `holdoff events`: what happened, one line each, fit for an incident channel. Times are
//! UTC and to the second, since people in several places read them.

use std::time::Duration;

use clap::Args;
use holdoff_client::proto::{
    BreakerState, Event, EventKind, ListEventsRequest, ListEventsResponse, WatchEventsRequest,
    WatchEventsResponse,
};
use prost_types::Timestamp;

use super::{
    Context,
    connection::{Connection, bounded},
    escape::escape,
    exit::{Exit, Failure},
    output::{self, Format, Ink, Reader, Tone},
    policy::DEFAULTS,
    span, words,
};

const EXAMPLES: &str = "\
Examples:
  holdoff events --since 1h
  holdoff events --dependency payments --since 30m
  holdoff events --follow
  holdoff events --follow --output json | jq -r .event.detail

Exit codes: 0 shown, or the following was ended by Ctrl-C or by whoever read it; 2 wrong use, 3 service unreachable or gone.";

/// Shows what happened, oldest first.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct EventsArgs {
    /// Of the last so long; without it, all that is remembered
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    since: Option<Duration>,
    /// Go on and show events as they come
    #[arg(long, short)]
    follow: bool,
    /// Only of this dependency
    #[arg(long)]
    dependency: Option<String>,
    /// At most so many, the newest of them; 1 to 1000
    #[arg(long, value_name = "NUMBER", default_value_t = 100, conflicts_with = "follow",
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
}

/// # Errors
/// As the service answers.
pub async fn run(context: &Context, args: EventsArgs) -> Result<Exit, Failure> {
    let connection = Connection::open(&context.server).await?;
    if args.follow {
        return follow(context, &connection, args).await;
    }
    let request = bounded(ListEventsRequest {
        namespace: context.namespace.clone(),
        dependency: args.dependency.unwrap_or_default(),
        since: args.since.map(span::to_wire),
        page_size: args.limit,
    });
    let answer = connection
        .answer(connection.operator().list_events(request))
        .await?;
    output::print(&match context.format {
        Format::Json => output::json("ListEventsResponse", &answer),
        Format::Table => list(context.ink, &context.namespace, args.limit, &answer),
    });
    Ok(Exit::Done)
}

async fn follow(
    context: &Context,
    connection: &Connection,
    args: EventsArgs,
) -> Result<Exit, Failure> {
    // No deadline on the stream: it is meant to last.
    let asked = WatchEventsRequest {
        namespace: context.namespace.clone(),
        dependency: args.dependency.unwrap_or_default(),
        since: args.since.map(span::to_wire),
    };
    let mut operator = connection.operator();
    let mut events = connection.answer(operator.watch_events(asked)).await?;
    let mut reader = Reader::There;
    while reader == Reader::There {
        tokio::select! {
            next = events.message() => match next {
                Ok(Some(message)) => reader = output::stream(&match context.format {
                    Format::Json => output::json_line("WatchEventsResponse", &message),
                    Format::Table => followed(context.ink, &message),
                }),
                Ok(None) => return Err(gone(context)),
                Err(status) => return Err(connection.failure(&status)),
            },
            () = output::unread() => break,
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    Ok(Exit::Done)
}

fn gone(context: &Context) -> Failure {
    Failure::Unreachable {
        server: context.server.to_string(),
        cause: "the service ended the stream".to_owned(),
    }
}

/// A line that says it all, then each of them, oldest first and in columns.
pub fn list(ink: Ink, namespace: &str, limit: u32, answer: &ListEventsResponse) -> String {
    let all = &answer.events;
    let widths = Widths {
        name: all
            .iter()
            .map(|event| name(event).chars().count())
            .max()
            .unwrap_or(0)
            .min(40),
        states: all
            .iter()
            .map(|event| states(event).chars().count())
            .max()
            .unwrap_or(0),
    };
    let lines = all.iter().map(|event| columns(ink, event, widths));
    summary(namespace, limit, all) + &lines.collect::<String>()
}

/// `default: 3 events, 2026-11-30 19:15:43Z to 2026-11-30 19:20:00Z: 2 tripped, 1 reset.`
fn summary(namespace: &str, limit: u32, all: &[Event]) -> String {
    let namespace = escape(namespace);
    let (Some(first), Some(last)) = (all.first(), all.last()) else {
        return format!("{namespace}: no events.\n");
    };
    let mut kinds: Vec<(i32, usize)> = Vec::new();
    for event in all {
        match kinds.iter_mut().find(|(kind, _)| *kind == event.kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((event.kind, 1)),
        }
    }
    // The most of them first; among equals as they came.
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, count)| format!("{count} {}", words::event(*kind)))
        .collect();
    let many = match all.len() {
        1 => "1 event".to_owned(),
        n if n >= limit as usize => format!("the newest {n} events (--limit)"),
        n => format!("{n} events"),
    };
    let (first, last) = (time(first.time.as_ref()), time(last.time.as_ref()));
    let when = if first == last {
        first
    } else {
        format!("{first} to {last}")
    };
    format!("{namespace}: {many}, {when}: {}.\n\n", kinds.join(", "))
}

/// One that came, after a word on those that were lost.
pub fn followed(ink: Ink, message: &WatchEventsResponse) -> String {
    let lost = match message.missed {
        0 => String::new(),
        1 => "(1 event was missed here)\n".to_owned(),
        n => format!("({n} events were missed here)\n"),
    };
    lost + &message
        .event
        .as_ref()
        .map(|event| line(ink, event))
        .unwrap_or_default()
}

/// One event.
pub fn line(ink: Ink, event: &Event) -> String {
    columns(ink, event, Widths::default())
}

/// Of the columns that differ in width from event to event.
#[derive(Clone, Copy, Default)]
struct Widths {
    name: usize,
    states: usize,
}

fn columns(ink: Ink, event: &Event, widths: Widths) -> String {
    let what = ink.paint(tone(event), &format!("{:<17}", words::event(event.kind)));
    let mut text = format!("{}  {what}", time(event.time.as_ref()));
    for (cell, width) in [(name(event), widths.name), (states(event), widths.states)] {
        if !cell.is_empty() || width > 0 {
            text.push_str(&format!("  {cell:<width$}"));
        }
    }
    if !event.detail.is_empty() {
        text.push_str(&format!("  {}", escape(&event.detail)));
    }
    if !event.owner.is_empty() {
        text.push_str(&format!("  (by {})", escape(&event.owner)));
    }
    if event.pending {
        text.push_str("  (the store is away: not in the fleet's order yet)");
    }
    text.trim_end().to_owned() + "\n"
}

fn name(event: &Event) -> String {
    match event.dependency.is_empty() && is_of_entry(event) {
        true => DEFAULTS.to_owned(),
        false => escape(&event.dependency).into_owned(),
    }
}

fn states(event: &Event) -> String {
    match event.from == event.to {
        true => String::new(),
        false => format!("{} → {}", words::state(event.from), words::state(event.to)),
    }
}

/// Whether it is of one entry of the policies, so that no name means the defaults.
fn is_of_entry(event: &Event) -> bool {
    matches!(
        event.kind(),
        EventKind::PolicyPut
            | EventKind::PolicyDeleted
            | EventKind::CandidatePut
            | EventKind::CandidateDropped
            | EventKind::CandidatePromoted
    )
}

/// `2026-11-30 19:15:43Z`.
pub fn time(at: Option<&Timestamp>) -> String {
    at.and_then(|at| jiff::Timestamp::new(at.seconds, at.nanos).ok())
        .map_or_else(
            || "-".to_owned(),
            |at| at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        )
}

pub fn tone(event: &Event) -> Tone {
    match event.kind() {
        EventKind::CheckUnhealthy => return Tone::Bad,
        EventKind::CheckHealthy => return Tone::Good,
        // The others are coloured by the state they end in.
        _ => {}
    }
    match event.to() {
        BreakerState::Open | BreakerState::ForcedOpen => Tone::Bad,
        BreakerState::HalfOpen | BreakerState::ForcedClosed => Tone::Watch,
        BreakerState::Closed | BreakerState::Recovering => Tone::Good,
        BreakerState::Unspecified => Tone::Neutral,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tripped() -> Event {
        Event {
            sequence: 4,
            time: Some(Timestamp {
                seconds: 1_796_066_143,
                nanos: 0,
            }),
            kind: EventKind::Tripped.into(),
            namespace: "default".into(),
            dependency: "payments".into(),
            from: BreakerState::Closed.into(),
            to: BreakerState::Open.into(),
            epoch: 7,
            detail: "12 of 20 calls failed".into(),
            owner: String::new(),
            ..Event::default()
        }
    }

    #[test]
    fn an_event_is_one_line_to_paste() {
        let reset = Event {
            kind: EventKind::Reset.into(),
            from: 0,
            to: 0,
            detail: "forged\nline".into(),
            owner: "bob".into(),
            ..tripped()
        };
        let answer = ListEventsResponse {
            events: vec![tripped(), reset],
        };
        assert_eq!(
            list(Ink::Plain, "default", 100, &answer),
            "\
default: 2 events, 2026-11-30 19:15:43Z: 1 tripped, 1 reset.

2026-11-30 19:15:43Z  tripped            payments  closed → open  12 of 20 calls failed
2026-11-30 19:15:43Z  reset              payments                 forged\\nline  (by bob)
"
        );
        assert_eq!(
            list(Ink::Plain, "shop", 100, &ListEventsResponse::default()),
            "shop: no events.\n"
        );
    }

    #[test]
    fn a_candidate_of_the_defaults_is_named_so() {
        let put = Event {
            kind: EventKind::CandidatePut.into(),
            dependency: String::new(),
            ..tripped()
        };
        assert!(line(Ink::Plain, &put).contains("candidate put      (defaults)"));
    }

    #[test]
    fn a_follower_is_told_what_it_missed() {
        let message = WatchEventsResponse {
            event: Some(tripped()),
            missed: 3,
        };
        let text = followed(Ink::Plain, &message);
        assert!(
            text.starts_with("(3 events were missed here)\n2026-"),
            "{text}"
        );
    }
}
