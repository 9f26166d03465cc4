//! `holdoff audit`: who did what, and whether the record is whole.

use clap::{Args, Subcommand};
use holdoff_client::proto::{AuditRecord, ListAuditRequest, ListAuditResponse};

use super::{
    Context,
    connection::{Connection, bounded},
    escape::escape,
    events,
    exit::{Exit, Failure},
    output::{self, Format, Ink, Tone},
};

const EXAMPLES: &str = "\
Examples:
  holdoff audit list
  holdoff audit list --all --output json
  holdoff audit verify

Exit codes: 0 shown, or whole; 1 the record is not whole; 2 wrong use, 3 service unreachable.";

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
    List(ListArgs),
    /// Check that no record is missing, repeated or out of order
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
            let page = read(context, &connection, args.all).await?;
            output::print(&match context.format {
                Format::Json => output::json("ListAuditResponse", &page),
                Format::Table => list(context.ink, &page),
            });
            Ok(Exit::Done)
        }
        AuditCommand::Verify => {
            let page = read(context, &connection, true).await?;
            let verdict = verify(&page.records);
            output::print(&match context.format {
                Format::Json => output::pretty(&verdict),
                Format::Table => verified(&verdict),
            });
            Ok(if verdict.whole { Exit::Done } else { Exit::No })
        }
    }
}

async fn read(
    context: &Context,
    connection: &Connection,
    all: bool,
) -> Result<ListAuditResponse, Failure> {
    let mut page = ListAuditResponse::default();
    loop {
        let request = bounded(ListAuditRequest {
            namespace: context.namespace.clone(),
            page_size: if all { 1_000 } else { 100 },
            page_token: std::mem::take(&mut page.next_page_token),
        });
        let next = connection
            .answer(connection.operator().list_audit(request))
            .await?;
        page.records.extend(next.records);
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
            escape(&record.dependency).into_owned(),
            escape(&record.detail).into_owned(),
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

/// What a check of the record found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    pub whole: bool,
    pub records: usize,
    /// The first thing that is wrong.
    pub problem: Option<String>,
    /// The last record's hash: keep it elsewhere, and a later record can be held against it.
    pub last_hash: Option<String>,
}

/// Looks at the order of the records and the form of their hashes.
pub fn verify(records: &[AuditRecord]) -> Verdict {
    let mut before = None;
    let mut problem = None;
    for record in records {
        problem = problem.or_else(|| wrong(before, record));
        before = Some(record.sequence);
    }
    Verdict {
        whole: problem.is_none(),
        records: records.len(),
        problem,
        last_hash: records
            .last()
            .map(|record| escape(&record.hash).into_owned()),
    }
}

fn wrong(before: Option<u64>, record: &AuditRecord) -> Option<String> {
    let number = record.sequence;
    let hash = &record.hash;
    if before.is_some_and(|before| number <= before) {
        return Some(format!(
            "record {number} comes after record {}",
            before.unwrap_or(0)
        ));
    }
    if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Some(format!("record {number}: its hash is no SHA-256"));
    }
    None
}

/// The verdict in words.
pub fn verified(verdict: &Verdict) -> String {
    match &verdict.problem {
        Some(problem) => format!("Not whole: {problem}.\n"),
        None => format!(
            "Whole: {} records in order; the last hash is {}.\n",
            verdict.records,
            verdict.last_hash.as_deref().unwrap_or("none")
        ),
    }
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
        }
    }

    #[test]
    fn the_table_says_who_did_what() {
        let page = ListAuditResponse {
            records: vec![record(1)],
            next_page_token: String::new(),
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
    fn records_out_of_order_are_not_whole() {
        assert!(verify(&[record(1), record(2)]).whole);
        let verdict = verify(&[record(2), record(2)]);
        assert_eq!(
            verified(&verdict),
            "Not whole: record 2 comes after record 2.\n"
        );
        let cut = AuditRecord {
            hash: "ab".into(),
            ..record(1)
        };
        assert!(!verify(&[cut]).whole);
    }
}
