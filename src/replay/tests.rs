//! The laws of a recording and its replay: what is written is read, damage stays where it is, and a replay
//! under the live policy itself differs in nothing.

use std::{fs, path::Path, sync::Arc};

use holdoff_decision::{Context, Denial, Grant, operate::Checkpoint, permit::Facts};

use crate::{
    candidate::{
        Happening,
        tests::story::{Health, Story, policy},
    },
    permit::DependencyId,
    policy::{Overlay, PolicySet},
    recording::{Noted, Reader, Recorder, RecordingSettings, files},
};

use super::{Replayed, Selection, replay};

const POLICIES: [&str; 3] = [
    "{}",
    "breaker: {window: 10, min_calls: 5, min_reporters: 1, open_for: 10s}",
    "rate: {per_second: 20, burst: 5, max_wait: 1s}\npushback: {scope: dependency}\nbreaker: {applies_to: auto, permit_ttl: 2s}",
];

type Heard = (Checkpoint, Context, Happening);

fn story(document: &str, steps: usize) -> Vec<Heard> {
    let mut story = Story::new(document, &[], 11);
    story.heard = Some(Vec::new());
    for step in 0..steps {
        let failing = [20, 700, 1_000, 0][step / 150 % 4];
        story.anything(Health::Failing(failing));
    }
    story.heard.unwrap()
}

fn settings(folder: &Path, max_bytes: u64, files: u32) -> RecordingSettings {
    RecordingSettings {
        folder: folder.to_owned(),
        max_bytes,
        files,
    }
}

/// Writes all of it, waiting where a service would leave something out.
fn record(settings: RecordingSettings, document: &str, heard: &[Heard]) {
    let Some((_, first, _)) = heard.first() else {
        return;
    };
    let recorder = Recorder::start(settings, first.now, None).unwrap();
    let (namespace, policy) = (Arc::new("default".to_owned()), Arc::new(policy(document)));
    for (checkpoint, context, happening) in heard {
        let noted = Noted {
            id: DependencyId(1),
            namespace: Arc::clone(&namespace),
            dependency: "d".into(),
            policy: Arc::clone(&policy),
            checkpoint: *checkpoint,
            next_serial: 0,
            context: *context,
            happening: happening.clone(),
        };
        recorder.note_waiting(noted);
    }
    recorder.close();
}

fn read(folder: &Path) -> (Vec<(Context, Happening)>, Reader) {
    let mut reader = Reader::open(folder).unwrap();
    let mut read = Vec::new();
    while let Some(entry) = reader.next_entry().unwrap() {
        read.push((entry.context, entry.happening));
    }
    (read, reader)
}

/// What a recording keeps of it.
fn kept(happening: &Happening) -> Happening {
    let mut kept = happening.clone();
    match &mut kept {
        Happening::Asked { verdict, .. } => {
            *verdict = match *verdict {
                Ok(grant) => Ok(Grant {
                    permit_ttl: (grant.permit.issued + grant.permit.delay)
                        .until(grant.permit.expires),
                    confirm: false,
                    attempt_timeout: None,
                    ..grant
                }),
                Err(denial) => Err(Denial {
                    retry_after: None,
                    facts: Facts::None,
                    ..denial
                }),
            };
        }
        Happening::Forced(order) => {
            order.owner.clear();
            order.reason.clear();
        }
        _ => {}
    }
    kept
}

fn set(document: &str) -> PolicySet {
    let overlay = Overlay {
        namespace: "default".into(),
        name: "d".into(),
        text: document.into(),
    };
    PolicySet::load(&[], &[overlay]).unwrap()
}

fn replayed(folder: &Path, document: &str) -> Replayed {
    replay(folder, &set(document), &Selection::default()).unwrap()
}

#[test]
fn what_is_written_is_read_in_order() {
    for document in POLICIES {
        let folder = tempfile::tempdir().unwrap();
        let heard = story(document, 1_500);
        record(settings(folder.path(), 1 << 30, 8), document, &heard);
        let (read, reader) = read(folder.path());
        assert_eq!(reader.damage, []);
        assert_eq!(read.len(), heard.len());
        for ((_, context, happening), (read_context, read)) in heard.iter().zip(&read) {
            assert_eq!(read_context.now, context.now);
            assert_eq!(*read, kept(happening));
        }
    }
}

/// The draws of a story have more bits than those of the service, so they are cut first.
fn with_draws_of_the_service(document: &str, steps: usize) -> Vec<Heard> {
    let mut story = Story::new(document, &[], 13);
    story.heard = Some(Vec::new());
    story.coarse = true;
    for step in 0..steps {
        let failing = [20, 700, 1_000, 0][step / 150 % 4];
        story.anything(Health::Failing(failing));
    }
    story.heard.unwrap()
}

#[test]
fn a_replay_under_the_live_policy_itself_differs_in_nothing() {
    for document in POLICIES {
        let folder = tempfile::tempdir().unwrap();
        let heard = with_draws_of_the_service(document, 4_000);
        // Over many files, all of which are kept.
        record(settings(folder.path(), 64 << 20, 1_000), document, &heard);
        assert!(files::all(folder.path()).unwrap().len() > 3);
        let replayed = replayed(folder.path(), document);
        assert_eq!(replayed.unlike, 0, "{document}");
        assert!(replayed.answers > 1_000);
        assert!(replayed.all.agree(), "{document}: {:#?}", replayed.all);
    }
}

#[test]
fn a_replay_gives_the_same_numbers_twice() {
    let folder = tempfile::tempdir().unwrap();
    let heard = with_draws_of_the_service(POLICIES[0], 1_000);
    record(settings(folder.path(), 1 << 30, 8), POLICIES[0], &heard);
    let [once, twice] = [(); 2].map(|()| replayed(folder.path(), POLICIES[1]));
    assert!(!once.all.agree());
    assert_eq!(once.all, twice.all);
    assert_eq!(once.dependencies, twice.dependencies);
}

#[test]
fn a_recording_takes_no_more_than_it_may_and_the_oldest_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let heard = with_draws_of_the_service(POLICIES[0], 6_000);
    let bounds = settings(folder.path(), 192 << 10, 3);
    record(bounds.clone(), POLICIES[0], &heard);
    let left = files::all(folder.path()).unwrap();
    assert!((2..=3).contains(&left.len()), "{left:?}");
    assert!(left[0].number > 1, "the oldest went: {left:?}");
    let bytes: u64 = left
        .iter()
        .map(|file| fs::metadata(&file.path).unwrap().len())
        .sum();
    // The file that is being written may be a whole one more.
    assert!(bytes <= bounds.max_bytes + bounds.file_bytes(), "{bytes}");
    let (read, reader) = read(folder.path());
    assert_eq!(reader.damage, []);
    let (newest, _) = read.last().unwrap();
    assert_eq!(newest.now, heard.last().unwrap().1.now);
    assert!(replayed(folder.path(), POLICIES[0]).answers > 0);
}

#[test]
fn a_file_that_is_cut_anywhere_is_used_up_to_there_and_the_place_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let heard = story(POLICIES[0], 30);
    record(settings(folder.path(), 1 << 30, 8), POLICIES[0], &heard);
    let path = files::all(folder.path()).unwrap().remove(0).path;
    let whole = fs::read(&path).unwrap();
    let (all, _) = read(folder.path());
    let mut cut_inside = 0;
    for length in (0..whole.len()).step_by(3) {
        fs::write(&path, &whole[..length]).unwrap();
        let (read, reader) = read(folder.path());
        assert_eq!(read[..], all[..read.len()], "a prefix of what was there");
        if let [damage] = &reader.damage[..] {
            assert_eq!(damage.file, path);
            assert!(damage.offset <= length as u64, "{damage:?} of {length}");
            cut_inside += 1;
        }
    }
    assert!(cut_inside > whole.len() / 6);
}

#[test]
fn no_changed_byte_is_believed() {
    let folder = tempfile::tempdir().unwrap();
    let heard = story(POLICIES[0], 60);
    record(settings(folder.path(), 1 << 30, 8), POLICIES[0], &heard);
    let path = files::all(folder.path()).unwrap().remove(0).path;
    let whole = fs::read(&path).unwrap();
    let (all, _) = read(folder.path());
    for at in (0..whole.len()).step_by(17) {
        let mut changed = whole.clone();
        changed[at] ^= 0x20;
        fs::write(&path, &changed).unwrap();
        let (read, reader) = read(folder.path());
        assert_eq!(reader.damage.len(), 1, "byte {at}");
        assert!(reader.damage[0].offset <= at as u64, "byte {at}");
        assert_eq!(read[..], all[..read.len()], "byte {at}");
    }
}

#[test]
fn a_newer_version_is_said_to_be_one() {
    use crate::recording::format::{Begin, Kind, MAGIC, VERSION, put};
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = MAGIC.to_vec();
    let begin = Begin {
        version: VERSION + 1,
        run: 1,
        restarted: None,
        is_on_record: false,
    };
    put(&mut bytes, Kind::Begin(begin));
    fs::write(folder.path().join("00000001.holdrec"), bytes).unwrap();
    let (_, reader) = read(folder.path());
    assert!(
        reader.damage[0].problem.contains("newer version"),
        "{reader:?}"
    );
}

#[test]
fn files_of_others_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("notes.txt");
    fs::write(&other, "mine").unwrap();
    let heard = story(POLICIES[0], 6_000);
    record(settings(folder.path(), 128 << 10, 2), POLICIES[0], &heard);
    assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
}

#[test]
fn what_is_recorded_since_a_time_is_all_that_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let heard = with_draws_of_the_service(POLICIES[0], 1_500);
    record(settings(folder.path(), 1 << 30, 8), POLICIES[0], &heard);
    let middle = heard[heard.len() / 2].1.now;
    let of = |since, until| {
        let selection = Selection {
            since,
            until,
            ..Selection::default()
        };
        replay(folder.path(), &set(POLICIES[0]), &selection).unwrap()
    };
    let (first, second) = (of(None, Some(middle)), of(Some(middle), None));
    assert!(
        first.all.agree() && second.all.agree(),
        "state is kept over the cut"
    );
    assert_eq!(first.happenings + second.happenings, heard.len() as u64);
}
