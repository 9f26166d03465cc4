//! A disk that refuses to write: nothing half-done, checkpoints kept, back by itself.

use std::{path::Path, process::Command, sync::Arc};

use tempfile::tempdir;

use super::*;
use crate::durable::{DurableError, OpenError, directory::refused, disk::DiskHealth};

const SOON: Duration = Duration::from_millis(2);
const MINUTE: Duration = Duration::from_secs(60);

fn open_on(path: &Path, health: &Arc<DiskHealth>) -> Durable {
    Durable::open_watched(path, start_at(noon()), health.clone(), SOON)
        .unwrap()
        .durable
}

/// The writer tries again within milliseconds, on its own thread.
async fn recovered(durable: &Durable) {
    while durable.degraded() {
        tokio::task::yield_now().await;
    }
}

async fn set(durable: &Durable, name: &str) -> Result<u64, DurableError> {
    let record = durable
        .commit(set_override(name), entry("SetOverride", name))
        .await;
    record.map(|record| record.sequence)
}

#[tokio::test]
async fn a_full_disk_refuses_changes_keeps_checkpoints_and_recovers_by_itself() {
    let home = tempdir().unwrap();
    let health = Arc::<DiskHealth>::default();
    let durable = open_on(home.path(), &health);
    assert_eq!(set(&durable, "before").await, Ok(1));

    health.faults.full.store(true, Ordering::SeqCst);
    let refused = set(&durable, "during").await;
    assert!(
        matches!(refused, Err(DurableError::Unavailable { .. })),
        "{refused:?}"
    );
    assert!(durable.degraded());
    assert_eq!(
        set(&durable, "during").await,
        refused,
        "at once, not after another try"
    );
    for epoch in 1..=100 {
        durable.checkpoint(key("x"), breaker(BreakerPhase::Open, epoch, MINUTE));
        durable.checkpoint(key("y"), breaker(BreakerPhase::Open, epoch, MINUTE));
    }
    assert!(matches!(
        durable.flushed().await,
        Err(DurableError::Unavailable { .. })
    ));
    assert!(matches!(
        durable.audit_page(None, 0, 1).await,
        Err(DurableError::Unavailable { .. })
    ));

    health.faults.full.store(false, Ordering::SeqCst);
    recovered(&durable).await;
    durable.flushed().await.unwrap();
    assert_eq!(set(&durable, "after").await, Ok(2));
    assert_eq!(durable.audit_verify("default").await.unwrap().broken, None);
    durable.close(noon()).await.unwrap();

    let state = open(home.path()).state;
    let names: Vec<_> = state.overrides.iter().map(|(key, _)| &*key.name).collect();
    assert_eq!(names, ["after", "before"]);
    assert_eq!(state.breakers.len(), 2);
    assert!(state.breakers.iter().all(|(_, saved)| saved.epoch == 100));
}

#[tokio::test]
async fn a_change_refused_by_a_failed_sync_is_taken_back_and_the_file_is_replaced() {
    let home = tempdir().unwrap();
    let health = Arc::<DiskHealth>::default();
    let durable = open_on(home.path(), &health);
    set(&durable, "kept").await.unwrap();
    durable
        .commit(
            Change::PutPolicy(key("p"), policy("old")),
            entry("PutPolicy", "p"),
        )
        .await
        .unwrap();
    let before = inode(home.path());

    health.faults.syncs_fail.store(true, Ordering::SeqCst);
    let change = Change::PutPolicy(key("p"), policy("new"));
    assert!(
        durable
            .commit(change, entry("PutPolicy", "p"))
            .await
            .is_err()
    );
    health.faults.syncs_fail.store(false, Ordering::SeqCst);
    recovered(&durable).await;
    assert_ne!(
        inode(home.path()),
        before,
        "a file that failed to sync is not trusted again"
    );
    assert_eq!(set(&durable, "later").await, Ok(3));
    assert_eq!(
        durable
            .audit_page(Some("default"), 0, 10)
            .await
            .unwrap()
            .len(),
        3
    );
    drop(durable);

    let Opened { durable, state } = open(home.path());
    assert_eq!(state.policies, [(key("p"), policy("old"))]);
    assert_eq!(state.overrides.len(), 2);
    assert_eq!(durable.audit_verify("default").await.unwrap().broken, None);
}

fn inode(home: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(home.join("holdoff.redb")).unwrap().ino()
}

/// The disk fails from its nth operation on, for every n a write has, and for some past it.
#[tokio::test]
async fn wherever_a_write_fails_the_change_is_there_exactly_if_it_was_acknowledged() {
    let home = tempdir().unwrap();
    let health = Arc::<DiskHealth>::default();
    let mut durable = open_on(home.path(), &health);
    let (mut kept, mut refusals) = (Vec::new(), 0);
    for failing in 1..=14 {
        let name = format!("d{failing:02}");
        let at = health.faults.operations.load(Ordering::SeqCst) + failing;
        health.faults.fail_from.store(at, Ordering::SeqCst);
        let answer = set(&durable, &name).await;
        let trip = breaker(BreakerPhase::Open, failing, MINUTE);
        durable.checkpoint(key("x"), trip);
        health.faults.fail_from.store(0, Ordering::SeqCst);
        match answer {
            Ok(sequence) => {
                kept.push(name);
                assert_eq!(sequence, kept.len() as u64);
            }
            Err(_) => refusals += 1,
        }
        recovered(&durable).await;
        drop(durable);
        let state = open(home.path()).state;
        let found: Vec<_> = state
            .overrides
            .iter()
            .map(|(key, _)| key.name.to_string())
            .collect();
        assert_eq!(found, kept, "the disk failed at operation {failing}");
        assert_eq!(state.audit_head.sequence, kept.len() as u64);
        assert_eq!(state.breakers, [(key("x"), trip)]);
        durable = open_on(home.path(), &health);
    }
    assert!(
        refusals >= 3 && !kept.is_empty(),
        "{refusals} refused, {} kept",
        kept.len()
    );
}

#[tokio::test]
async fn a_stop_in_trouble_says_so_and_loses_only_what_was_never_acknowledged() {
    let home = tempdir().unwrap();
    let health = Arc::<DiskHealth>::default();
    let durable = open_on(home.path(), &health);
    set(&durable, "before").await.unwrap();
    health.faults.full.store(true, Ordering::SeqCst);
    durable.checkpoint(key("x"), breaker(BreakerPhase::Open, 1, MINUTE));
    let stopped = durable.close(noon()).await;
    assert!(
        matches!(stopped, Err(DurableError::Unavailable { .. })),
        "{stopped:?}"
    );
    let state = open(home.path()).state;
    assert_eq!((state.overrides.len(), state.breakers.len()), (1, 0));
    assert!(state.last_write.is_some_and(|last| !last.clean));
}

#[test]
fn a_start_on_a_full_disk_is_refused_and_the_next_one_finds_everything() {
    let home = tempdir().unwrap();
    let health = Arc::<DiskHealth>::default();
    health.faults.full.store(true, Ordering::SeqCst);
    let first = Durable::open_watched(home.path(), start_at(noon()), health.clone(), SOON);
    assert!(matches!(first, Err(OpenError::Disk { .. })), "{first:?}");
    assert_eq!(open(home.path()).state.boot, 1);
    let again = Durable::open_watched(home.path(), start_at(noon()), health, SOON);
    assert!(matches!(again, Err(OpenError::Disk { .. })), "{again:?}");
    assert_eq!(open(home.path()).state.boot, 2);
}

#[test]
fn a_refusal_of_the_operating_system_names_the_path_and_the_remedy() {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
    let said = |kind: std::io::ErrorKind| refused(Path::new("/d"), kind.into()).to_string();
    for kind in [PermissionDenied, ReadOnlyFilesystem] {
        assert!(said(kind).starts_with("/d may not be read and written by this user: give it"));
    }
    assert!(said(StorageFull).starts_with("/d cannot be read and written (no storage space)"));
}

const LIMITED: &str = "HOLDOFF_TEST_LIMITED_DIRECTORY";

/// The kernel's own refusal: a limit on the size of a file (`EFBIG`), in a process of its own.
#[test]
fn a_real_limit_on_the_file_refuses_changes_and_loses_none() {
    let home = tempdir().unwrap();
    let ran = Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; ulimit -S -f 8192; exec "$0" "$@""#])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "durable::tests::full_disk::limited_child",
            "--nocapture",
        ])
        .env(LIMITED, home.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    let number_after = |word: &str| {
        let mut lines = said.lines().filter_map(|line| line.strip_prefix(word));
        lines
            .next_back()
            .map(|number| number.trim().parse::<usize>().unwrap())
    };
    assert!(
        ran.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let acknowledged = number_after("refused after").unwrap();
    let recovered = number_after("recovered with").unwrap_or(0);
    let Opened { durable, state } = open(home.path());
    assert_eq!(state.policies.len(), acknowledged + recovered);
    assert_eq!(state.audit_head.sequence as usize, acknowledged + recovered);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    assert_eq!(
        runtime
            .block_on(durable.audit_verify("default"))
            .unwrap()
            .broken,
        None
    );
}

#[test]
fn limited_child() {
    let Ok(path) = std::env::var(LIMITED) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let durable = open_on(Path::new(&path), &Arc::default());
        let mut acknowledged = 0;
        let put = async |name: String| {
            let change = Change::PutPolicy(key(&name), policy(&"x".repeat(60_000)));
            durable.commit(change, entry("PutPolicy", &name)).await
        };
        while put(format!("p{acknowledged:05}")).await.is_ok() {
            acknowledged += 1;
            assert!(acknowledged < 1_000, "the limit does not bind");
        }
        println!("\nrefused after {acknowledged}");
        let pid = std::process::id().to_string();
        let raised = Command::new("prlimit")
            .args(["--pid", &pid, "--fsize=unlimited"])
            .status();
        if raised.is_ok_and(|status| status.success()) {
            recovered(&durable).await;
            put("late".to_owned()).await.unwrap();
            println!("recovered with 1");
        }
    });
}
