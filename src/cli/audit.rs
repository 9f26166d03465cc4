//! `holdoff audit`: who did what; whether the record is whole is in `verify`.

mod verify;

use std::borrow::Cow;

use clap::{Args, Subcommand};
use holdoff_client::proto::{AuditRecord, ListAuditRequest, ListAuditResponse};

use super::{
    Context,
    connection::{Connection, bounded},
    escape::escape,
    events,
    exit::{Exit, Failure},
    output::{self, Format, Ink, Tone},
    policy::DEFAULTS,
};
use crate::policy::DEFAULT_NAMESPACE;

const EXAMPLES: &str = "\
Examples:
  holdoff audit list
  holdoff audit list --all --output json
  holdoff audit verify

Exit codes: 0 shown, or whole; 1 not whole, or not all could be checked; 2 wrong use, 3 service unreachable.";

/// Who did what.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, subcommand_required = true, arg_required_else_help = true)]
pub struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Show the records, oldest first
    #[command(after_help = EXAMPLES)]
    List(ListArgs),
    /// Check that no record was changed, moved, removed or added, by their chain of hashes
    #[command(after_help = EXAMPLES)]
    Verify,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Show all of them; otherwise the first 100
    #[arg(long)]
    all: bool,
}

/// # Errors
/// As the service answers.
pub async fn run(context: &Context, args: AuditArgs) -> Result<Exit, Failure> {
    let connection = Connection::open(&context.server).await?;
    match args.command {
        AuditCommand::List(args) => {
            let page = read(context, &connection, Reading::List { all: args.all }).await?;
            output::print(&match context.format {
                Format::Json => output::json("ListAuditResponse", &page),
                Format::Table => list(context.ink, &page),
            });
            Ok(Exit::Done)
        }
        AuditCommand::Verify => {
            let page = read(context, &connection, Reading::Verify).await?;
            let namespace = match context.namespace.as_str() {
                "" => DEFAULT_NAMESPACE,
                named => named,
            };
            let verdict = verify::verify(namespace, &page);
            output::print(&match context.format {
                Format::Json => output::pretty(&verdict),
                Format::Table => verify::verified(&verdict),
            });
            Ok(if verdict.whole { Exit::Done } else { Exit::No })
        }
    }
}

/// What is read.
#[derive(Clone, Copy)]
enum Reading {
    List { all: bool },
    Verify,
}

async fn read(
    context: &Context,
    connection: &Connection,
    reading: Reading,
) -> Result<ListAuditResponse, Failure> {
    let mut page = ListAuditResponse::default();
    let all = match reading {
        Reading::List { all } => all,
        Reading::Verify => true,
    };
    loop {
        let request = bounded(ListAuditRequest {
            namespace: context.namespace.clone(),
            page_size: if all { 1_000 } else { 100 },
            // Once, before all pages: what is written while they are read is after its head.
            verify: matches!(reading, Reading::Verify) && page.next_page_token.is_empty(),
            page_token: std::mem::take(&mut page.next_page_token),
        });
        let next = connection
            .answer(connection.operator().list_audit(request))
            .await?;
        page.records.extend(next.records);
        page.chain = page.chain.or(next.chain);
        page.next_page_token = next.next_page_token;
        if !all || page.next_page_token.is_empty() {
            return Ok(page);
        }
    }
}

/// The table.
pub fn list(ink: Ink, page: &ListAuditResponse) -> String {
    if page.records.is_empty() {
        return "No records.\n".to_owned();
    }
    let rows = page.records.iter().map(|record| {
        let cells = vec![
            record.sequence.to_string(),
            events::time(record.time.as_ref()),
            escape(&record.owner).into_owned(),
            escape(&record.action).into_owned(),
            on(record).into_owned(),
            one_line(&record.detail),
        ];
        (Tone::Neutral, cells)
    });
    let headings = ["NO", "TIME", "WHO", "ACTION", "ON", "DETAIL"];
    let mut text = output::table(ink, &headings, rows.collect());
    if !page.next_page_token.is_empty() {
        let shown = page.records.len();
        text.push_str(&format!(
            "The first {shown}; there are more: --all shows them.\n"
        ));
    }
    text
}

/// What it was done to; no name is the namespace's defaults where it was done to a policy.
fn on(record: &AuditRecord) -> Cow<'_, str> {
    let of_policy = ["Policy", "Candidate"]
        .iter()
        .any(|it| record.action.ends_with(it));
    match record.dependency.is_empty() && of_policy {
        true => DEFAULTS.into(),
        false => escape(&record.dependency),
    }
}

/// A document, its lines after one another.
fn one_line(detail: &str) -> String {
    let lines: Vec<_> = detail.trim_end().lines().map(escape).collect();
    lines.join(" ↵ ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sequence: u64) -> AuditRecord {
        AuditRecord {
            sequence,
            time: Some(prost_types::Timestamp {
                seconds: 1_796_066_143,
                nanos: 0,
            }),
            owner: "alice".into(),
            action: "SetOverride".into(),
            namespace: "default".into(),
            dependency: "payments".into(),
            detail: "forced open: INC-421".into(),
            hash: "ab".repeat(32),
            hash_before: "00".repeat(32),
        }
    }

    #[test]
    fn the_table_says_who_did_what() {
        let page = ListAuditResponse {
            records: vec![record(1)],
            ..ListAuditResponse::default()
        };
        assert_eq!(
            list(Ink::Plain, &page),
            "\
NO  TIME                  WHO    ACTION       ON        DETAIL
1   2026-11-30 19:15:43Z  alice  SetOverride  payments  forced open: INC-421
"
        );
    }

    #[test]
    fn a_document_is_one_line_and_the_defaults_have_a_name() {
        let put = AuditRecord {
            action: "PutPolicy".into(),
            dependency: String::new(),
            detail: "retry:\n  max_attempts: 3\n".into(),
            ..record(1)
        };
        let page = ListAuditResponse {
            records: vec![put],
            ..ListAuditResponse::default()
        };
        let text = list(Ink::Plain, &page);
        assert!(
            text.ends_with("PutPolicy  (defaults)  retry: ↵   max_attempts: 3\n"),
            "{text}"
        );
    }
}
