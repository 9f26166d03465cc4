//! Files that something else has written to. Never a panic: a plain error, or a state that was
//! once acknowledged.
//!
//! What redb gives: every page has a checksum, the open checks all of them, and of the two newest
//! commits it takes the newest that holds. So damage to the newest alone is answered with the one
//! before, as a write cut short by a power loss would be; the witness (`mark`) tells the two
//! apart, and such a start says that it was rolled back.

use std::{
    fs,
    path::{Path, PathBuf},
};

use rand::{RngExt, SeedableRng, rngs::StdRng};
use redb::{Database, ReadableTable};
use tempfile::TempDir;

use super::*;
use crate::durable::{
    OpenError, Restored,
    datafile::{Kept, META},
    encoding,
};

const WITNESS: &str = "holdoff.mark";
const SEED: u64 = 0x666c_6970;
const FLIPS: usize = 1_100;

/// In memory where there is such a place: thousands of opens, and no disk is the subject.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    }
}

fn file_in(home: &TempDir) -> PathBuf {
    home.path().join("holdoff.redb")
}

/// What must agree with something once acknowledged; boot and last write differ at each start.
type Kernel = (String, u64);

fn kernel(state: &Restored) -> Kernel {
    let shown = format!(
        "{:?} {:?} {:?}",
        state.overrides, state.policies, state.breakers
    );
    (shown, state.audit_head.sequence)
}

/// A file's bytes and its witness, the states it has been in, the newest last, and the boot epoch
/// of its last run.
struct Image {
    bytes: Vec<u8>,
    witness: Vec<u8>,
    acknowledged: Vec<Kernel>,
    boot: u64,
}

/// How the last of four runs ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Orderly,
    Killed,
    KilledAtStart,
}

const ENDS: [End; 3] = [End::Orderly, End::Killed, End::KilledAtStart];

async fn image(end: End) -> Image {
    let home = scratch();
    let mut acknowledged = Vec::new();
    let mut boot = 0;
    for run in 0..4 {
        let Opened { durable, state } = open(home.path());
        acknowledged.push(kernel(&state));
        boot = state.boot;
        if run == 3 && end == End::KilledAtStart {
            return Image::of(&home, acknowledged, boot);
        }
        let name = format!("d{run}");
        durable
            .commit(set_override(&name), entry("SetOverride", &name))
            .await
            .unwrap();
        let document = "retry: {max_attempts: 2}\n".repeat(40 + run);
        let put = Change::PutPolicy(key(&name), policy(&document));
        let copy = scratch();
        snapshot(&home, &copy, &mut acknowledged);
        durable
            .commit(put, entry("PutPolicy", &name))
            .await
            .unwrap();
        snapshot(&home, &copy, &mut acknowledged);
        durable.checkpoint(
            key(&name),
            breaker(BreakerPhase::Open, 1, Duration::from_secs(60)),
        );
        durable.flushed().await.unwrap();
        snapshot(&home, &copy, &mut acknowledged);
        if run == 3 && end == End::Killed {
            return Image::of(&home, acknowledged, boot);
        }
        durable.close(noon()).await.unwrap();
    }
    Image::of(&home, acknowledged, boot)
}

impl Image {
    fn of(home: &TempDir, acknowledged: Vec<Kernel>, boot: u64) -> Self {
        Self {
            bytes: fs::read(file_in(home)).unwrap(),
            witness: fs::read(home.path().join(WITNESS)).unwrap(),
            acknowledged,
            boot,
        }
    }
}

/// What a kill at this instant would come back with.
fn snapshot(home: &TempDir, copy: &TempDir, acknowledged: &mut Vec<Kernel>) {
    fs::copy(file_in(home), file_in(copy)).unwrap();
    acknowledged.push(kernel(&open(copy.path()).state));
}

/// Opens the bytes, beside their witness; whether they were taken.
fn opens(bytes: &[u8], image: &Image, home: &TempDir, what: &str) -> bool {
    opens_with(Some(&image.witness), bytes, image, home, what)
}

fn opens_with(
    witness: Option<&[u8]>,
    bytes: &[u8],
    image: &Image,
    home: &TempDir,
    what: &str,
) -> bool {
    fs::write(file_in(home), bytes).unwrap();
    fs::write(home.path().join(WITNESS), witness.unwrap_or_default()).unwrap();
    match Durable::open(home.path(), start_at(noon())) {
        Ok(Opened { state, .. }) => {
            let kernel = kernel(&state);
            assert!(
                image.acknowledged.contains(&kernel),
                "{what}: never was: {kernel:?}"
            );
            let newest = image.acknowledged.last() == Some(&kernel);
            let said = state.rolled_back || witness.is_none();
            assert!(newest || said, "{what}: rolled back in silence");
            assert!(
                state.boot > image.boot,
                "{what}: boot fell to {}",
                state.boot
            );
            true
        }
        Err(OpenError::Damaged { .. } | OpenError::Newer { .. }) => false,
        Err(other) => panic!("{what}: {other}"),
    }
}

#[tokio::test]
async fn the_images_open_as_they_are() {
    for end in ENDS {
        let image = image(end).await;
        assert!(opens(&image.bytes, &image, &scratch(), "unharmed"));
    }
}

#[tokio::test]
async fn an_older_copy_is_taken_said_to_be_one_and_gives_no_boot_epoch_out_twice() {
    let home = scratch();
    let Opened { durable, .. } = open(home.path());
    durable.close(noon()).await.unwrap();
    let backup = fs::read(file_in(&home)).unwrap();
    for _ in 0..5 {
        let state = open(home.path()).state;
        assert!(!state.rolled_back);
    }
    fs::write(file_in(&home), backup).unwrap();
    let state = open(home.path()).state;
    assert_eq!((state.boot, state.rolled_back), (7, true));
    let state = open(home.path()).state;
    assert_eq!((state.boot, state.rolled_back), (8, false), "said once");
    fs::remove_file(file_in(&home)).unwrap();
    let state = open(home.path()).state;
    assert_eq!(
        (state.boot, state.rolled_back, state.first_start),
        (9, true, false)
    );
}

/// A witness that is lost, unreadable or behind (it is not synced) accuses nobody.
#[tokio::test]
async fn without_its_witness_a_file_is_taken_as_it_is() {
    for bad in [None, Some(&b""[..]), Some(b"x"), Some(&[1; 96])] {
        let image = image(End::Killed).await;
        let home = scratch();
        fs::write(file_in(&home), &image.bytes).unwrap();
        if let Some(bad) = bad {
            fs::write(home.path().join(WITNESS), bad).unwrap();
        }
        let state = open(home.path()).state;
        assert_eq!(image.acknowledged.last(), Some(&kernel(&state)));
        assert_eq!((state.boot, state.rolled_back), (image.boot + 1, false));
    }
}

#[tokio::test]
async fn a_truncated_file_is_an_error_or_an_acknowledged_state() {
    for end in ENDS {
        let image = image(end).await;
        let home = scratch();
        let all = image.bytes.len();
        let short = (0..600).step_by(7);
        let pages = (600..all).step_by((all / 300).max(1));
        for length in short.chain(pages).chain(all.saturating_sub(20)..all) {
            opens(
                &image.bytes[..length],
                &image,
                &home,
                &format!("cut to {length} of {all}"),
            );
        }
    }
}

#[tokio::test]
async fn an_empty_file_is_damage_and_not_a_first_start() {
    let home = scratch();
    fs::write(file_in(&home), b"").unwrap();
    let error = Durable::open(home.path(), start_at(noon())).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("holdoff.redb is damaged (it is empty)"),
        "{error}"
    );
}

#[tokio::test]
async fn garbage_is_damage() {
    let home = scratch();
    let mut random = StdRng::seed_from_u64(SEED);
    for length in [1, 9, 10, 64, 320, 4_096, 70_000] {
        let garbage: Vec<u8> = (0..length).map(|_| random.random()).collect();
        fs::write(file_in(&home), garbage).unwrap();
        let error = Durable::open(home.path(), start_at(noon())).unwrap_err();
        assert!(
            matches!(error, OpenError::Damaged { .. }),
            "{length}: {error}"
        );
    }
}

/// Half of the flips go where the bytes are not zero: most of a small file is empty pages.
#[tokio::test]
async fn a_flipped_bit_is_an_error_or_an_acknowledged_state() {
    let mut random = StdRng::seed_from_u64(SEED);
    for end in ENDS {
        let image = image(end).await;
        let home = scratch();
        let used: Vec<usize> = (0..image.bytes.len())
            .filter(|at| image.bytes[*at] != 0)
            .collect();
        let mut taken = 0;
        for flip in 0..FLIPS {
            let at = match flip {
                0..640 => flip % 320,
                _ if flip % 2 == 0 => random.random_range(0..image.bytes.len()),
                _ => used[random.random_range(0..used.len())],
            };
            let mut bytes = image.bytes.clone();
            bytes[at] ^= 1 << random.random_range(0..8);
            let witness = (flip % 640 < 320).then_some(&*image.witness);
            let what = format!("byte {at}, seed {SEED}");
            taken += usize::from(opens_with(witness, &bytes, &image, &home, &what));
        }
        println!("{end:?}: {taken} of {FLIPS} opened");
        assert!(taken < FLIPS, "no flip was ever noticed");
    }
}

async fn tampered(with: impl FnOnce(&redb::WriteTransaction)) -> OpenError {
    let home = scratch();
    let durable = open(home.path()).durable;
    let put = Change::PutPolicy(key("p"), policy("a: 1"));
    durable.commit(put, entry("PutPolicy", "p")).await.unwrap();
    durable
        .commit(
            Change::PutPolicy(key("q"), policy("b: 1")),
            entry("PutPolicy", "q"),
        )
        .await
        .unwrap();
    drop(durable);
    let database = Database::open(file_in(&home)).unwrap();
    let transaction = database.begin_write().unwrap();
    with(&transaction);
    transaction.commit().unwrap();
    drop(database);
    Durable::open(home.path(), start_at(noon())).unwrap_err()
}

#[tokio::test]
async fn a_value_changed_or_swapped_through_redb_is_damage() {
    let error = tampered(|transaction| {
        let mut table = transaction.open_table(Kept::Policies.table()).unwrap();
        let sealed = table
            .get(("default", "p"))
            .unwrap()
            .unwrap()
            .value()
            .to_vec();
        table.insert(("default", "q"), sealed.as_slice()).unwrap();
    });
    let error = error.await;
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("policies"), "{error}");
}

#[tokio::test]
async fn a_newer_format_is_refused_by_its_number() {
    let error = tampered(|transaction| {
        let sealed = encoding::seal("meta", &[b"format"], &7u32).unwrap();
        transaction
            .open_table(META)
            .unwrap()
            .insert("format", sealed.as_slice())
            .unwrap();
    });
    let error = error.await;
    assert!(
        matches!(
            error,
            OpenError::Newer {
                found: 7,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("written by a newer holdoff (format 7"),
        "{error}"
    );
}
