//! `holdoff ask`: one question, and its answer in words. For people who want to know what
//! a client would be told, and for scripts that only need a yes or a no.

use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use holdoff_client::proto::{
    AcquireRequest, AcquireResponse, Caller, Denial, GetDependencyRequest, Grant, Outcome,
    OutcomeKind, Previous, Priority, ReportReason, Safety, acquire_response::Verdict,
    previous::MadeUnder,
};

use super::{
    Context,
    connection::{Connection, bounded},
    escape::escape,
    exit::{Exit, Failure},
    hex,
    output::{self, Format, Ink, Tone},
    span, words,
};

const EXAMPLES: &str = "\
Examples:
  holdoff ask payments
  holdoff ask payments --attempt 2 --previous failure --idempotent --time-left 2s
  holdoff ask openai:gpt --attempt 2 --previous throttled --pushback 20s --idempotent
  holdoff ask payments --output json | jq -r .grant.delay

Exit codes: 0 granted, 1 denied, 2 wrong use, 3 service unreachable.";

/// Asks once whether an attempt may be made, and explains the answer.
///
/// The question is a real one: a grant takes what a client's would (a place, a token, a
/// probe), and --previous counts as an outcome. The permit is not reported afterwards.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AskArgs {
    /// What is to be called
    dependency: String,
    /// 1 for the first call, 2 for its first retry, and so on
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    attempt: u32,
    /// How the attempt before ended; needed from attempt 2 on
    #[arg(long, value_enum)]
    previous: Option<PreviousArg>,
    /// Executing it twice is the same as once
    #[arg(long)]
    idempotent: bool,
    /// It carries a key by which the dependency tells a repetition
    #[arg(long)]
    keyed: bool,
    /// How long the caller will wait, to the end of the attempt
    #[arg(long, value_name = "DURATION", value_parser = span::parse)]
    time_left: Option<Duration>,
    /// The wait that the dependency asked for (Retry-After)
    #[arg(long, value_name = "DURATION", value_parser = span::parse, requires = "previous")]
    pushback: Option<Duration>,
    /// A second copy of an attempt that is still running
    #[arg(long, conflicts_with = "previous")]
    hedge: bool,
    /// The permit of the attempt before, in hexadecimal
    #[arg(long, value_name = "HEX", value_parser = permit, requires = "previous")]
    permit: Option<Bytes>,
    /// What the caller is
    #[arg(long, value_name = "NAME", default_value = "holdoff-cli")]
    service: String,
    /// Which process of it
    #[arg(long, value_name = "NAME", default_value = "")]
    instance: String,
    /// Who goes first when there is not room for all
    #[arg(long, value_enum, default_value_t = PriorityArg::Normal)]
    priority: PriorityArg,
    /// What it takes from the rate limit
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    cost: u32,
    /// The same for all attempts of one call
    #[arg(long, value_name = "ID", default_value = "")]
    call_id: String,
}

/// How an attempt ended, as it is written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PreviousArg {
    Success,
    Failure,
    Timeout,
    NotSent,
    Throttled,
    Rejected,
    Ignored,
    Cancelled,
}

/// A priority, as it is written on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PriorityArg {
    Low,
    Normal,
    High,
}

impl From<PreviousArg> for OutcomeKind {
    fn from(previous: PreviousArg) -> Self {
        match previous {
            PreviousArg::Success => Self::Success,
            PreviousArg::Failure => Self::Failure,
            PreviousArg::Timeout => Self::Timeout,
            PreviousArg::NotSent => Self::NotSent,
            PreviousArg::Throttled => Self::Throttled,
            PreviousArg::Rejected => Self::Rejected,
            PreviousArg::Ignored => Self::Ignored,
            PreviousArg::Cancelled => Self::Cancelled,
        }
    }
}

impl From<PriorityArg> for Priority {
    fn from(priority: PriorityArg) -> Self {
        match priority {
            PriorityArg::Low => Self::Low,
            PriorityArg::Normal => Self::Normal,
            PriorityArg::High => Self::High,
        }
    }
}

/// # Errors
/// As the service answers.
pub async fn run(context: &Context, args: AskArgs) -> Result<Exit, Failure> {
    if args.attempt > 1 && args.previous.is_none() && !args.hedge {
        return Err(Failure::Usage(format!(
            "--attempt {}: needs --previous, how the attempt before ended",
            args.attempt
        )));
    }
    let connection = Connection::open(&context.server).await?;
    let question = question(context, &connection, args).await?;
    let mut coordinator = connection.coordinator();
    let answer = connection
        .answer(coordinator.acquire(bounded(question.clone())))
        .await?;
    output::print(&match context.format {
        Format::Json => output::json("AcquireResponse", &answer),
        Format::Table => explain(context.ink, &question, &answer),
    });
    match answer.verdict {
        Some(Verdict::Grant(_)) => Ok(Exit::Done),
        Some(Verdict::Denial(_)) => Ok(Exit::No),
        None => Err(Failure::Unreachable {
            server: context.server.to_string(),
            cause: "the answer decides nothing that this version understands".to_owned(),
        }),
    }
}

async fn question(
    context: &Context,
    connection: &Connection,
    args: AskArgs,
) -> Result<AcquireRequest, Failure> {
    let previous = match args.previous {
        None => None,
        Some(kind) => Some(Previous {
            made_under: match args.permit {
                Some(permit) => Some(MadeUnder::Permit(permit)),
                None => epoch(context, connection, &args.dependency)
                    .await?
                    .map(MadeUnder::Epoch),
            },
            outcome: Some(Outcome {
                kind: OutcomeKind::from(kind).into(),
                pushback: args.pushback.map(span::to_wire),
                ..Outcome::default()
            }),
        }),
    };
    let safety = match (args.keyed, args.idempotent) {
        (true, _) => Safety::Keyed,
        (false, true) => Safety::Idempotent,
        (false, false) => Safety::Unsafe,
    };
    Ok(AcquireRequest {
        namespace: context.namespace.clone(),
        dependency: args.dependency,
        caller: Some(Caller {
            service: args.service,
            instance: args.instance,
        }),
        attempt: args.attempt,
        safety: safety.into(),
        time_left: args.time_left.map(span::to_wire),
        previous,
        confirm: Bytes::new(),
        priority: Priority::from(args.priority).into(),
        hedge: args.hedge,
        cost: args.cost,
        call_id: args.call_id,
    })
}

/// The epoch that holds now: without a permit the attempt before was made on what is
/// known to everyone. `None`: nobody has called the dependency yet, so there was no attempt before.
async fn epoch(
    context: &Context,
    connection: &Connection,
    dependency: &str,
) -> Result<Option<u64>, Failure> {
    let request = bounded(GetDependencyRequest {
        namespace: context.namespace.clone(),
        dependency: dependency.to_owned(),
        ..Default::default()
    });
    match connection
        .answer(connection.operator().get_dependency(request))
        .await
    {
        Ok(answer) => Ok(answer.dependency.filter(|it| it.live).map(|it| it.epoch)),
        Err(Failure::No(_)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// The answer in words.
pub fn explain(ink: Ink, question: &AcquireRequest, answer: &AcquireResponse) -> String {
    let what = format!(
        "attempt {} on {}",
        question.attempt,
        escape(&question.dependency)
    );
    let (title, mut pairs) = match &answer.verdict {
        Some(Verdict::Grant(grant)) => granted(ink, &what, grant),
        Some(Verdict::Denial(denial)) => denied(ink, &what, denial),
        None => (format!("No decision on {what}."), Vec::new()),
    };
    pairs.push((
        "state",
        format!("{}, epoch {}", words::state(answer.state), answer.epoch),
    ));
    pairs.push(("outcome before", counted(question, answer)));
    if answer.degraded {
        pairs.push(("degraded", "decided without the shared store".to_owned()));
    }
    format!("{title}\n{}", output::card(&pairs))
}

type Lines = Vec<(&'static str, String)>;

fn granted(ink: Ink, what: &str, grant: &Grant) -> (String, Lines) {
    let delay = grant
        .delay
        .as_ref()
        .map(span::from_wire)
        .unwrap_or_default();
    let when = if delay.is_zero() {
        "now".to_owned()
    } else {
        format!("after waiting {}", span::human(delay))
    };
    let title = format!("{}: {what}, {when}.", ink.paint(Tone::Good, "Granted"));
    let mut pairs = vec![("permit", hex::write(&grant.permit))];
    if let Some(ttl) = &grant.permit_ttl {
        pairs.push(("report within", span::human(span::from_wire(ttl))));
    }
    if grant.probe {
        pairs.push((
            "probe",
            "yes: it tests a dependency that is thought broken".to_owned(),
        ));
    }
    if grant.confirm {
        pairs.push((
            "confirm",
            "yes: ask again with this permit just before the call".to_owned(),
        ));
    }
    if let Some(limit) = &grant.attempt_timeout {
        pairs.push((
            "let it take",
            format!("at most {}", span::human(span::from_wire(limit))),
        ));
    }
    (title, pairs)
}

fn denied(ink: Ink, what: &str, denial: &Denial) -> (String, Lines) {
    let reason = words::reason(denial.reason);
    let title = format!("{}: {what}: {reason}.", ink.paint(Tone::Bad, "Denied"));
    let again = denial.retry_after.as_ref().map_or_else(
        || "no: the answer is final".to_owned(),
        |after| format!("in {}", span::human(span::from_wire(after))),
    );
    let pairs = vec![
        ("why", escape(&denial.detail).into_owned()),
        ("ask again", again),
    ];
    (title, pairs)
}

fn counted(question: &AcquireRequest, answer: &AcquireResponse) -> String {
    let is_named = (question.previous.as_ref()).is_some_and(|it| it.made_under.is_some());
    let why = match answer.previous_result() {
        ReportReason::Unspecified => return String::new(),
        ReportReason::Ok => return "counted".to_owned(),
        ReportReason::Duplicate => "it was told before",
        ReportReason::StaleEpoch => "it began before the breaker last changed",
        ReportReason::Expired => "its permit has ended",
        ReportReason::UnknownPermit if is_named => "no such permit is known",
        ReportReason::UnknownPermit => {
            return "not counted: nothing is known of this dependency, so of no attempt before; \
                    ask for attempt 1 first"
                .to_owned();
        }
    };
    format!(
        "not counted: {} ({why})",
        words::report(answer.previous_result)
    )
}

fn permit(text: &str) -> Result<Bytes, String> {
    let bytes = hex::read(text).filter(|bytes| !bytes.is_empty());
    bytes
        .map(Bytes::from)
        .ok_or_else(|| "is no hexadecimal text of whole bytes".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(attempt: u32) -> AcquireRequest {
        AcquireRequest {
            dependency: "payments".into(),
            attempt,
            ..Default::default()
        }
    }

    fn wire(seconds: i64, nanos: i32) -> Option<prost_types::Duration> {
        Some(prost_types::Duration { seconds, nanos })
    }

    #[test]
    fn a_grant_says_when_and_what_to_do() {
        let answer = AcquireResponse {
            verdict: Some(Verdict::Grant(Grant {
                delay: wire(1, 250_000_000),
                permit: Bytes::from_static(&[0xca, 0x0f]),
                permit_ttl: wire(60, 0),
                confirm: true,
                ..Default::default()
            })),
            state: 1,
            epoch: 3,
            previous_result: 1,
            ..Default::default()
        };
        assert_eq!(
            explain(Ink::Plain, &asked(2), &answer),
            "\
Granted: attempt 2 on payments, after waiting 1.2 s.
  permit          ca0f
  report within   1 m
  confirm         yes: ask again with this permit just before the call
  state           closed, epoch 3
  outcome before  counted
"
        );
    }

    #[test]
    fn a_denial_says_why_and_when_to_ask_again() {
        let denial = |retry_after| AcquireResponse {
            verdict: Some(Verdict::Denial(Denial {
                reason: 10,
                retry_after,
                detail: "open for 7.2 s more\u{7}".into(),
            })),
            state: 2,
            epoch: 4,
            previous_result: 3,
            ..Default::default()
        };
        assert_eq!(
            explain(Ink::Plain, &asked(2), &denial(wire(7, 400_000_000))),
            "\
Denied: attempt 2 on payments: BREAKER_OPEN.
  why             open for 7.2 s more\\u{7}
  ask again       in 7.4 s
  state           open, epoch 4
  outcome before  not counted: STALE_EPOCH (it began before the breaker last changed)
"
        );
        let last = explain(Ink::Plain, &asked(2), &denial(None));
        assert!(
            last.contains("ask again       no: the answer is final\n"),
            "{last}"
        );
    }

    #[tokio::test]
    async fn a_yes_is_exit_0_and_a_no_is_exit_1() {
        let context = Context::for_test(&super::super::fake::Fake::default().serve().await);
        let ask = async |line: &str| {
            let command = <AskArgs as Args>::augment_args(clap::Command::new("ask"));
            let matches = command.get_matches_from(line.split(' '));
            let args = <AskArgs as clap::FromArgMatches>::from_arg_matches(&matches).unwrap();
            run(&context, args).await
        };
        assert_eq!(ask("ask payments").await.unwrap(), Exit::Done);
        assert_eq!(ask("ask no-payments").await.unwrap(), Exit::No);
        let with_permit = "ask d --attempt 2 --previous failure --permit 010203";
        assert_eq!(ask(with_permit).await.unwrap(), Exit::Done);
        assert_eq!(ask("ask d --attempt 2").await.unwrap_err().code(), 2);
    }
}
