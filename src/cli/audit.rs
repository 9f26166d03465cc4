//! `holdoff audit`: who did what, and whether the record is whole.

use std::borrow::Cow;

use clap::{Args, Subcommand};
use holdoff_client::proto::{AuditRecord, ListAuditRequest, ListAuditResponse};
use sha2::{Digest, Sha256};

use super::{
    Context,
    connection::{Connection, bounded},
    escape::escape,
    events,
    exit::{Exit, Failure},
    hex,
    output::{self, Format, Ink, Tone},
    policy::DEFAULTS,
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
    #[command(after_help = EXAMPLES)]
    List(ListArgs),
    /// Check that no record was changed or moved, by their chain of hashes
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

/// What a check of the record found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    pub whole: bool,
    pub records: usize,
    /// Records whose hash was computed again and holds.
    pub checked: usize,
    /// Records after one that is not in this list: of another namespace, or too old to be
    /// kept. Their hash covers what cannot be seen here.
    pub unchecked: usize,
    /// The first thing that is wrong.
    pub problem: Option<String>,
    /// The newest record: keep both elsewhere, and a later list can be held against them.
    pub last_sequence: u64,
    pub last_hash: Option<String>,
}

/// Follows the chain of hashes, and does so here rather than let the service vouch for
/// itself.
pub fn verify(records: &[AuditRecord]) -> Verdict {
    let mut verdict = Verdict {
        whole: true,
        records: records.len(),
        checked: 0,
        unchecked: 0,
        problem: None,
        last_sequence: records.last().map_or(0, |record| record.sequence),
        last_hash: records
            .last()
            .map(|record| escape(&record.hash).into_owned()),
    };
    let mut before: (u64, String) = (0, "00".repeat(32));
    for record in records {
        match follows(&before, record) {
            Ok(true) => verdict.checked += 1,
            Ok(false) => verdict.unchecked += 1,
            Err(problem) => {
                verdict.whole = false;
                verdict.problem = Some(problem);
                break;
            }
        }
        before = (record.sequence, record.hash.clone());
    }
    verdict
}

/// Whether the record could be held against the one before it.
fn follows(before: &(u64, String), record: &AuditRecord) -> Result<bool, String> {
    let number = record.sequence;
    if number <= before.0 {
        return Err(format!("record {number} comes after record {}", before.0));
    }
    if record.hash.len() != 64 || hex::read(&record.hash).is_none() {
        return Err(format!("record {number}: its hash is no SHA-256"));
    }
    if number != before.0 + 1 {
        return Ok(false);
    }
    let expected = hex::read(&before.1).map(|before| chained(&before, record));
    if expected.as_deref() == Some(record.hash.as_str()) {
        return Ok(true);
    }
    Err(format!(
        "record {number} is not what was written, or does not follow record {}",
        before.0
    ))
}

/// The hash of a record after the hash before it; see `durable` for the formula.
fn chained(before: &[u8], record: &AuditRecord) -> String {
    let mut hasher = Sha256::new();
    put(&mut hasher, b"holdoff audit 1");
    put(&mut hasher, before);
    hasher.update(record.sequence.to_le_bytes());
    hasher.update(millis(record).to_le_bytes());
    let texts = [
        &record.owner,
        &record.action,
        &record.namespace,
        &record.dependency,
        &record.detail,
    ];
    for text in texts {
        put(&mut hasher, text.as_bytes());
    }
    hex::write(&hasher.finalize())
}

fn put(hasher: &mut Sha256, part: &[u8]) {
    hasher.update((part.len() as u64).to_le_bytes());
    hasher.update(part);
}

fn millis(record: &AuditRecord) -> u64 {
    let time = record.time.unwrap_or_default();
    let seconds = u64::try_from(time.seconds).unwrap_or(0);
    let millis = u64::try_from(time.nanos / 1_000_000).unwrap_or(0);
    seconds.saturating_mul(1_000).saturating_add(millis)
}

/// The verdict in words.
pub fn verified(verdict: &Verdict) -> String {
    if let Some(problem) = &verdict.problem {
        return format!("Not whole: {problem}.\n");
    }
    let mut text = format!(
        "Whole: {} records, {} of them held",
        verdict.records, verdict.checked
    );
    text.push_str(" against the one before.\n");
    if verdict.unchecked > 0 {
        let n = verdict.unchecked;
        text.push_str(&format!(
            "{n} come after a record of another namespace, or one too old to be kept.\n"
        ));
    }
    if let Some(hash) = &verdict.last_hash {
        text.push_str(&format!(
            "The newest is record {}: {hash}\n",
            verdict.last_sequence
        ));
    }
    text
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
    fn a_document_is_one_line_and_the_defaults_have_a_name() {
        let put = AuditRecord {
            action: "PutPolicy".into(),
            dependency: String::new(),
            detail: "retry:\n  max_attempts: 3\n".into(),
            ..record(1)
        };
        let page = ListAuditResponse {
            records: vec![put],
            next_page_token: String::new(),
        };
        let text = list(Ink::Plain, &page);
        assert!(
            text.ends_with("PutPolicy  (defaults)  retry: ↵   max_attempts: 3\n"),
            "{text}"
        );
    }

    /// As a service would send what it recorded.
    async fn recorded(details: &[&str]) -> Vec<AuditRecord> {
        use crate::durable::{AuditEntry, Change, Durable, PermitKey, Start};
        let opened = Durable::in_memory(Start {
            wall_now: std::time::UNIX_EPOCH,
            fresh_permit_key: PermitKey([0; 16]),
        });
        let mut records = Vec::new();
        for detail in details {
            let entry = AuditEntry {
                time: std::time::UNIX_EPOCH + std::time::Duration::from_millis(1_796_066_143_250),
                owner: "alice".into(),
                action: "SetOverride".into(),
                namespace: "default".into(),
                dependency: "payments".into(),
                detail: (*detail).to_owned(),
            };
            let stored = opened
                .durable
                .commit(Change::RecordOnly, entry)
                .await
                .unwrap();
            records.push(AuditRecord {
                sequence: stored.sequence,
                time: Some(prost_types::Timestamp {
                    seconds: i64::try_from(stored.time_ms / 1_000).unwrap(),
                    nanos: i32::try_from(stored.time_ms % 1_000).unwrap() * 1_000_000,
                }),
                detail: stored.detail.clone(),
                hash: stored.hash.to_string(),
                ..record(1)
            });
        }
        records
    }

    #[tokio::test]
    async fn what_the_service_recorded_is_whole() {
        let records = recorded(&["one", "two", "three"]).await;
        let verdict = verify(&records);
        assert_eq!(
            (verdict.whole, verdict.checked, verdict.unchecked),
            (true, 3, 0)
        );
        let text = verified(&verdict);
        assert!(
            text.starts_with(
                "Whole: 3 records, 3 of them held against the one before.\nThe newest is record 3: "
            ),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_changed_removed_or_moved_record_is_found() {
        let records = recorded(&["one", "two", "three"]).await;
        let mut changed = records.clone();
        changed[1].detail.push('!');
        let text = verified(&verify(&changed));
        assert_eq!(
            text,
            "Not whole: record 2 is not what was written, or does not follow record 1.\n"
        );
        let mut moved = records.clone();
        moved.swap(1, 2);
        assert!(!verify(&moved).whole);
        let mut removed = records;
        removed.remove(1);
        let verdict = verify(&removed);
        assert_eq!(
            (verdict.whole, verdict.unchecked),
            (true, 1),
            "it may be another namespace's"
        );
        assert!(verified(&verdict).contains("1 come after a record of another namespace"));
    }

    #[test]
    fn a_hash_that_is_none_is_not_whole() {
        let cut = AuditRecord {
            hash: "ab".into(),
            ..record(1)
        };
        assert_eq!(
            verified(&verify(&[cut])),
            "Not whole: record 1: its hash is no SHA-256.\n"
        );
    }
}
