//! `holdoff status`: the fleet in a table, or one dependency on a card.

use std::time::Duration;

use clap::Args;
use holdoff_client::proto::{
    BreakerState, CheckVerdict, Dependency, GetDependencyRequest, ListDependenciesRequest,
    ListDependenciesResponse,
};

use super::{
    Context,
    connection::{Connection, bounded},
    escape::escape,
    exit::{Exit, Failure},
    output::{self, Format, Ink, Tone},
    replicas, span, words,
};

mod numbers;
#[cfg(test)]
mod tests;

pub use numbers::{budget, budget_short, calendar, denials, planned, refused_alone, reporters};

const EXAMPLES: &str = "\
Examples:
  holdoff status
  holdoff status payments
  holdoff status --prefix openai: --state open --all
  holdoff status --output json | jq -r '.dependencies[] | select(.failureRatio > 0.1) | .name'

Exit codes: 0 shown (whatever the state), 1 no such dependency, 2 wrong use, 3 service unreachable.";

/// Shows the fleet now, or one dependency.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusArgs {
    /// Show this one alone, with all that is known of it
    dependency: Option<String>,
    /// Show all of them; otherwise the first 100
    #[arg(long, conflicts_with = "dependency")]
    all: bool,
    /// Only names that begin so
    #[arg(long, conflicts_with = "dependency")]
    prefix: Option<String>,
    /// Only these states; may be given more than once
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with = "dependency")]
    state: Vec<StateArg>,
}

/// A state, as it is written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StateArg {
    Closed,
    Open,
    HalfOpen,
    Recovering,
    ForcedOpen,
    ForcedClosed,
}

impl From<StateArg> for BreakerState {
    fn from(state: StateArg) -> Self {
        match state {
            StateArg::Closed => Self::Closed,
            StateArg::Open => Self::Open,
            StateArg::HalfOpen => Self::HalfOpen,
            StateArg::Recovering => Self::Recovering,
            StateArg::ForcedOpen => Self::ForcedOpen,
            StateArg::ForcedClosed => Self::ForcedClosed,
        }
    }
}

/// # Errors
/// As the service answers.
pub async fn run(context: &Context, args: StatusArgs) -> Result<Exit, Failure> {
    let connection = Connection::open(&context.server).await?;
    match args.dependency {
        Some(name) => one(context, &connection, name).await,
        None => many(context, &connection, args).await,
    }
}

async fn one(context: &Context, connection: &Connection, name: String) -> Result<Exit, Failure> {
    let request = bounded(GetDependencyRequest {
        namespace: context.namespace.clone(),
        dependency: name,
        follow: true,
    });
    let mut operator = connection.operator();
    let answer = connection.answer(operator.get_dependency(request)).await?;
    let Some(dependency) = answer.dependency else {
        return Err(Failure::No("the service knows nothing of it".to_owned()));
    };
    output::print(&shown(context, &dependency));
    Ok(Exit::Done)
}

/// One dependency in the format that was asked for; overrides print it too.
pub fn shown(context: &Context, dependency: &Dependency) -> String {
    match context.format {
        Format::Json => output::json("Dependency", dependency),
        Format::Table => card(context.ink, jiff::Timestamp::now(), dependency),
    }
}

async fn many(
    context: &Context,
    connection: &Connection,
    args: StatusArgs,
) -> Result<Exit, Failure> {
    let states: Vec<i32> = args
        .state
        .iter()
        .map(|&state| BreakerState::from(state).into())
        .collect();
    let mut page = ListDependenciesResponse::default();
    loop {
        let request = bounded(ListDependenciesRequest {
            namespace: context.namespace.clone(),
            page_size: if args.all { 1_000 } else { 100 },
            page_token: std::mem::take(&mut page.next_page_token),
            name_prefix: args.prefix.clone().unwrap_or_default(),
            states: states.clone(),
        });
        let mut operator = connection.operator();
        let next = connection
            .answer(operator.list_dependencies(request))
            .await?;
        page.dependencies.extend(next.dependencies);
        page.next_page_token = next.next_page_token;
        if !args.all || page.next_page_token.is_empty() {
            break;
        }
    }
    output::print(&match context.format {
        Format::Json => output::json("ListDependenciesResponse", &page),
        Format::Table => {
            let now = jiff::Timestamp::now();
            let list = list(context.ink, &context.namespace, now, page);
            match replicas::glance(context, connection).await? {
                Some(replicas) => format!("{replicas} (holdoff replicas).\n{list}"),
                None => list,
            }
        }
    });
    Ok(Exit::Done)
}

/// A line that says it all, then the table: the worst first, so that what is pasted from its
/// top into an incident channel is what matters.
pub fn list(
    ink: Ink,
    namespace: &str,
    now: jiff::Timestamp,
    mut page: ListDependenciesResponse,
) -> String {
    let summary = summary(namespace, now, &page);
    if page.dependencies.is_empty() {
        return summary;
    }
    // By name, as they come, within a state.
    page.dependencies.sort_by_key(rank);
    let headings = [
        "NAME", "STATE", "SINCE", "FAILED", "BUDGET", "PROBES", "OVERRIDE", "WHY",
    ];
    let rows = page.dependencies.iter().map(|d| {
        let cells = vec![
            escape(&d.name).into_owned(),
            state_word(d),
            span::human_or_dash(d.in_state_for.as_ref()),
            match is_of_trip(d) {
                true => format!("{} at trip", failed(d)),
                false => failed(d),
            },
            budget_short(d),
            d.probes_out.to_string(),
            override_short(d),
            why(d),
        ];
        (tone(d), cells)
    });
    let mut text = summary + "\n" + &output::table(ink, &headings, rows.collect());
    if !page.next_page_token.is_empty() {
        let shown = page.dependencies.len();
        text.push_str(&format!(
            "The first {shown} by name; there are more: --all shows them.\n"
        ));
    }
    text
}

/// `default at 2026-11-30 19:15:43Z: 3 dependencies, 1 open, 2 closed.`
fn summary(namespace: &str, now: jiff::Timestamp, page: &ListDependenciesResponse) -> String {
    let all = &page.dependencies;
    let more = if page.next_page_token.is_empty() {
        ""
    } else {
        "the first "
    };
    let many = match all.len() {
        0 => "no dependencies".to_owned(),
        1 => "1 dependency".to_owned(),
        n => format!("{n} dependencies"),
    };
    let mut states: Vec<(u8, i32, usize)> = Vec::new();
    for d in all {
        match states.iter_mut().find(|(_, state, _)| *state == d.state) {
            Some((_, _, count)) => *count += 1,
            None => states.push((state_rank(d.state()), d.state, 1)),
        }
    }
    states.sort_unstable();
    let counts = states
        .iter()
        .map(|(_, state, count)| format!(", {count} {}", words::state(*state)));
    let (namespace, time) = (escape(namespace), utc(now));
    format!(
        "{namespace} at {time}: {more}{many}{}.\n",
        counts.collect::<String>()
    )
}

/// As `holdoff events` writes times.
fn utc(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

fn rank(d: &Dependency) -> u8 {
    let troubled = d.held_for.is_some() || is_unhealthy(d);
    match d.state() {
        BreakerState::Closed if troubled => 5,
        state => state_rank(state),
    }
}

fn state_rank(state: BreakerState) -> u8 {
    match state {
        BreakerState::Open => 0,
        BreakerState::ForcedOpen => 1,
        BreakerState::HalfOpen => 2,
        BreakerState::Recovering => 3,
        BreakerState::ForcedClosed => 4,
        BreakerState::Closed => 6,
        BreakerState::Unspecified => 7,
    }
}

/// The card.
pub fn card(ink: Ink, now: jiff::Timestamp, d: &Dependency) -> String {
    let title = format!(
        "{} is {}",
        escape(&d.name),
        ink.paint(tone(d), &state_word(d))
    );
    let since = d.in_state_for.as_ref();
    let since = since.map_or_else(String::new, |span| {
        let span = span::from_wire(span);
        let began = now.checked_sub(span).map(utc);
        let began = began.map_or_else(|_| String::new(), |at| format!(", since {at}"));
        format!(", for {} now{began}", span::human(span))
    });
    let which = match is_of_trip(d) {
        true => "the calls that opened it",
        false => "the last calls",
    };
    let mut pairs = vec![
        ("why", escape(&d.detail).into_owned()),
        ("first probe in", span_or_empty(d.open_for.as_ref())),
        ("override", override_long(d)),
        ("held for", span_or_empty(d.held_for.as_ref())),
        ("failed", format!("{} of {which}", failed(d))),
        ("slow", format!("{} of {which}", share(d.slow_ratio))),
        ("towards a trip", share(d.suspicion)),
        ("retry budget", budget(d)),
        ("planned", planned(d)),
        ("calendar ahead", calendar(d)),
        ("refused so far", denials(d)),
        (
            "out now",
            format!(
                "{}, {}",
                counted(u64::from(d.probes_out), "probe"),
                counted(d.permits_out, "permit")
            ),
        ),
        ("refused alone", refused_alone(d)),
        ("health checks", checks(d)),
        ("opened", times(d.trips)),
        ("epoch", d.epoch.to_string()),
        ("in shadow mode", shadow(d)),
        ("namespace", escape(&d.namespace).into_owned()),
        (
            "calls",
            if d.live {
                String::new()
            } else {
                "none yet".to_owned()
            },
        ),
    ];
    let heard = reporters(d);
    pairs.extend(heard.into_iter().enumerate().map(|(at, line)| {
        let label = if at == 0 { "reporters" } else { "" };
        (label, line)
    }));
    format!("{title}{since}\n{}", output::card(&pairs))
}

/// Nothing where the policy plans no checks.
pub fn checks(d: &Dependency) -> String {
    let Some(check) = &d.check else {
        return String::new();
    };
    let ago = check.age.as_ref().map_or_else(
        || "no result yet".to_owned(),
        |age| format!("the last result {} ago", span::human(span::from_wire(age))),
    );
    let failed = match check.failures_in_a_row {
        0 => String::new(),
        1 => ", which was a failure".to_owned(),
        n => format!(", {n} failures in a row"),
    };
    let next = check.next_in.as_ref().map_or_else(String::new, |next| {
        format!(", the next in {}", span::human(span::from_wire(next)))
    });
    format!(
        "{}; {ago}{failed}; {} every {}, {} running{next}",
        words::verdict(check.verdict),
        counted(u64::from(check.checkers), "checker"),
        span::human_or_dash(check.period.as_ref()),
        check.running,
    )
}

pub fn is_unhealthy(d: &Dependency) -> bool {
    let check = d.check.as_ref();
    check.is_some_and(|check| check.verdict() == CheckVerdict::Unhealthy)
}

pub fn state_word(d: &Dependency) -> String {
    words::state(d.state)
}

pub fn tone(d: &Dependency) -> Tone {
    match d.state() {
        BreakerState::Closed if d.held_for.is_some() || is_unhealthy(d) => Tone::Watch,
        BreakerState::Closed => Tone::Good,
        BreakerState::Open | BreakerState::ForcedOpen => Tone::Bad,
        BreakerState::HalfOpen | BreakerState::Recovering | BreakerState::ForcedClosed => {
            Tone::Watch
        }
        BreakerState::Unspecified => Tone::Neutral,
    }
}

pub fn why(d: &Dependency) -> String {
    let held = d.held_for.as_ref().map(span::from_wire);
    let held = held.filter(|span| *span > Duration::ZERO);
    let mut why = Vec::new();
    why.extend(held.map(|span| format!("held for {}", span::human(span))));
    why.extend(is_unhealthy(d).then(|| "health checks fail".to_owned()));
    why.push(escape(&d.detail).into_owned());
    why.join("; ")
}

fn override_short(d: &Dependency) -> String {
    d.r#override.as_ref().map_or_else(
        || "-".to_owned(),
        |order| {
            let ends = order.expires_in.as_ref().map_or_else(String::new, |left| {
                format!(", {} left", span::human(span::from_wire(left)))
            });
            format!("{}{ends}", escape(&order.owner))
        },
    )
}

pub fn override_long(d: &Dependency) -> String {
    d.r#override.as_ref().map_or_else(String::new, |order| {
        let ends = order.expires_in.as_ref().map_or_else(
            || "until it is released".to_owned(),
            |left| format!("{} left", span::human(span::from_wire(left))),
        );
        format!(
            "{} by {}: {} ({ends})",
            words::override_kind(order.kind),
            escape(&order.owner),
            escape(&order.reason),
        )
    })
}

pub fn shadow(d: &Dependency) -> String {
    match d.shadow_state() {
        BreakerState::Unspecified => String::new(),
        BreakerState::Closed
        | BreakerState::Open
        | BreakerState::HalfOpen
        | BreakerState::Recovering
        | BreakerState::ForcedOpen
        | BreakerState::ForcedClosed => format!("it would be {}", words::state(d.shadow_state)),
    }
}

fn span_or_empty(span: Option<&prost_types::Duration>) -> String {
    span.map_or_else(String::new, |span| span::human(span::from_wire(span)))
}

pub fn times(count: u64) -> String {
    match count {
        0 => "never".to_owned(),
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}

pub fn counted(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    }
}

/// Whether the shares are those of the calls that opened the breaker: it is not closed.
pub fn is_of_trip(d: &Dependency) -> bool {
    let breaker = match d.shadow_state() {
        BreakerState::Unspecified => d.state(),
        shadowed => shadowed,
    };
    matches!(breaker, BreakerState::Open | BreakerState::HalfOpen)
}

/// The share of the calls that failed. A breaker that nothing is known to have opened was opened
/// before this service began to count, or by what another replica was told.
pub fn failed(d: &Dependency) -> String {
    let is_known = d.failure_ratio > 0.0 || d.slow_ratio > 0.0;
    match is_of_trip(d) && !is_known {
        true => "-".to_owned(),
        false => share(d.failure_ratio),
    }
}

/// A share as a percentage; whole ones from ten up.
pub fn share(ratio: f64) -> String {
    let percent = (ratio * 100.0).clamp(0.0, 100.0);
    if percent >= 10.0 || percent == 0.0 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}
