//! `holdoff replicas`: the processes of the service that share a store, and what is wrong with
//! them; and the line about them in `holdoff status`.

use clap::Args;
use holdoff_client::proto::{ListReplicasRequest, ListReplicasResponse, Replica};
use tonic::Code;

use super::{
    Context,
    connection::{Connection, bounded},
    escape::escape,
    exit::{Exit, Failure},
    output::{self, Format, Ink, Tone},
    span,
};

const EXAMPLES: &str = "\
Examples:
  holdoff replicas
  holdoff replicas --output json | jq -r '.replicas[] | select(.troubles != []) | .address'

Exit codes: 0 all are well, 1 something is wrong with one, 2 wrong use, 3 service unreachable.";

/// Shows the replicas that share a store with the one that is asked.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReplicasArgs {}

/// # Errors
/// As the service answers.
pub async fn run(context: &Context, _: ReplicasArgs) -> Result<Exit, Failure> {
    let connection = Connection::open(&context.server).await?;
    let request = bounded(asked(context));
    let mut operator = connection.operator();
    let answer = connection.answer(operator.list_replicas(request)).await?;
    output::print(&match context.format {
        Format::Json => output::json("ListReplicasResponse", &answer),
        Format::Table => list(context.ink, &answer),
    });
    let all_well = (answer.replicas.iter()).all(|replica| replica.troubles.is_empty());
    Ok(if all_well { Exit::Done } else { Exit::No })
}

/// `3 replicas, 1 degraded`; `None`: there is one, and it is well, or the service is older than
/// the question.
///
/// # Errors
/// As the service answers.
pub async fn glance(context: &Context, connection: &Connection) -> Result<Option<String>, Failure> {
    let request = bounded(asked(context));
    let mut operator = connection.operator();
    match operator.list_replicas(request).await {
        Ok(answer) => Ok(words(&answer.into_inner().replicas)),
        Err(status) if status.code() == Code::Unimplemented => Ok(None),
        Err(status) => Err(connection.failure(&status)),
    }
}

fn asked(context: &Context) -> ListReplicasRequest {
    ListReplicasRequest {
        namespace: context.namespace.clone(),
    }
}

fn words(replicas: &[Replica]) -> Option<String> {
    let degraded = degraded(replicas);
    (replicas.len() > 1 || degraded > 0).then(|| counted(replicas.len(), degraded))
}

fn counted(all: usize, degraded: usize) -> String {
    let all = match all {
        1 => "1 replica".to_owned(),
        all => format!("{all} replicas"),
    };
    match degraded {
        0 => all,
        degraded => format!("{all}, {degraded} degraded"),
    }
}

fn degraded(replicas: &[Replica]) -> usize {
    let degraded = replicas.iter().filter(|it| !it.troubles.is_empty());
    degraded.count()
}

/// A line that says it all, then each of them.
pub fn list(ink: Ink, answer: &ListReplicasResponse) -> String {
    let replicas = &answer.replicas;
    let headings = [
        "NAME", "ADDRESS", "VERSION", "RUNS FOR", "SEEN", "DECIDES", "TROUBLES",
    ];
    let now = jiff::Timestamp::now();
    let rows = replicas.iter().map(|replica| {
        let here = if replica.here { " (asked)" } else { "" };
        let troubles = match &replica.troubles[..] {
            [] => "-".to_owned(),
            troubles => escape(&troubles.join("; ")).into_owned(),
        };
        let tone = match replica.troubles.is_empty() {
            true => Tone::Good,
            false => Tone::Bad,
        };
        let cells = vec![
            format!("{}{here}", escape(&replica.name)),
            escape(&replica.address).into_owned(),
            escape(&replica.version).into_owned(),
            runs_for(replica, now),
            match replica.here {
                true => "now".to_owned(),
                false => format!("{} ago", span::human_or_dash(replica.seen_ago.as_ref())),
            },
            escape(&replica.decisions).into_owned(),
            troubles,
        ];
        (tone, cells)
    });
    let summary = counted(replicas.len(), degraded(replicas));
    format!(
        "{summary}.\n\n{}",
        output::table(ink, &headings, rows.collect())
    )
}

fn runs_for(replica: &Replica, now: jiff::Timestamp) -> String {
    let since = replica.since.as_ref().map_or(0, |since| since.seconds);
    let seconds = u64::try_from(now.as_second().saturating_sub(since)).unwrap_or(0);
    span::human(std::time::Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(name: &str, troubles: &[&str]) -> Replica {
        Replica {
            name: name.to_owned(),
            address: "10.0.0.7:7460".to_owned(),
            version: "1.2.3".to_owned(),
            since: Some(prost_types::Timestamp {
                seconds: jiff::Timestamp::now().as_second() - 60,
                nanos: 0,
            }),
            seen_ago: Some(prost_types::Duration {
                seconds: 2,
                nanos: 0,
            }),
            troubles: troubles.iter().map(|&it| it.to_owned()).collect(),
            decisions: "strict".to_owned(),
            ..Replica::default()
        }
    }

    #[test]
    fn one_that_is_well_is_not_worth_a_word() {
        assert_eq!(words(&[replica("a", &[])]), None);
        let degraded = words(&[replica("a", &["the store does not answer"])]);
        assert_eq!(degraded.as_deref(), Some("1 replica, 1 degraded"));
        let all = [replica("a", &[]), replica("b", &["x"]), replica("c", &[])];
        assert_eq!(words(&all).as_deref(), Some("3 replicas, 1 degraded"));
        assert_eq!(words(&all[2..]), None);
    }

    #[test]
    fn what_is_wrong_is_in_the_table_and_hostile_names_are_escaped() {
        let mut hostile = replica("b\u{1b}[31m", &["not heard of for 12 s"]);
        hostile.here = true;
        let replicas = vec![replica("a", &[]), hostile];
        let text = list(Ink::Plain, &ListReplicasResponse { replicas });
        assert!(
            text.starts_with("2 replicas, 1 degraded.\n\nNAME"),
            "{text}"
        );
        assert!(text.contains("not heard of for 12 s"), "{text}");
        assert!(text.contains("(asked)"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
