//! A recording run through a candidate policy, on virtual time.
//!
//! Two judges see each thing that happened: one under the candidate, and one under the policy
//! that was live, which says where the live breaker opened and how well a rerun follows what
//! the fleet was really told. Both are those that stand beside live records; see
//! [`candidate`](crate::candidate).
//!
//! What nobody can know is not made up: a call that was never made has no end, and a retry that
//! only the candidate would have allowed is counted and ends there.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, path::Path, sync::Arc};

use holdoff_decision::{
    Policy, Record, Time,
    breaker::Phase,
    operate::{self, Checkpoint},
};

use crate::{
    candidate::{Happening, Judge, Numbers},
    policy::PolicySet,
    recording::{Damage, Entry, Reader, RecordingError, reader::Dependency},
};

/// What of a recording is looked at.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Empty: all namespaces that the candidate's policies know.
    pub namespace: String,
    pub dependency: Option<String>,
    /// What happened before is run through and not counted.
    pub since: Option<Time>,
    /// What happened from then on is left out.
    pub until: Option<Time>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// By namespace and name.
    pub dependencies: BTreeMap<(String, String), Numbers>,
    /// Over all of them.
    pub all: Numbers,
    /// Things that happened and were looked at.
    pub happenings: u64,
    /// Answers that were given otherwise in a rerun of the live policy: where the recording
    /// does not begin with the dependency, or something is missing in it.
    pub unlike: u64,
    /// Answers of which that could be said.
    pub answers: u64,
    /// Things that the recording left out.
    pub lost: u64,
    pub damage: Vec<Damage>,
    /// When the first and the last of all happened; the origin of time: nothing did.
    pub first: Time,
    pub last: Time,
}

struct Trial {
    part: u64,
    /// Of the live record, as it was told last.
    next_serial: u64,
    counting: bool,
    policy: Option<Arc<Policy>>,
    candidate: Judge,
    live: Judge,
}

/// # Errors
/// The recording cannot be read at all. Where a part of it cannot, that is said in the result.
pub fn replay(
    folder: &Path,
    policies: &PolicySet,
    selection: &Selection,
) -> Result<Replayed, RecordingError> {
    let mut reader = Reader::open(folder)?;
    let mut trials: BTreeMap<(String, String), Trial> = BTreeMap::new();
    let mut replayed = Replayed::default();
    while let Some(entry) = reader.next_entry()? {
        let now = entry.context.now;
        if !selection.wants(&entry.dependency) || selection.until.is_some_and(|end| now >= end) {
            continue;
        }
        let name = (
            entry.dependency.namespace.clone(),
            entry.dependency.name.clone(),
        );
        let trial = trials
            .entry(name)
            .or_insert_with(|| Trial::new(policies, &entry));
        trial.take(&entry, selection.since);
        if trial.counting {
            replayed.happenings += 1;
            if replayed.first == Time::ORIGIN {
                replayed.first = now;
            }
            replayed.last = replayed.last.max(now);
        }
    }
    (replayed.lost, replayed.damage) = (reader.lost, reader.damage);
    for (name, trial) in trials {
        if trial.counting {
            replayed.end(name, &trial);
        }
    }
    Ok(replayed)
}

impl Replayed {
    fn end(&mut self, name: (String, String), trial: &Trial) {
        let mut numbers = trial.candidate.numbers().clone();
        let live = trial.live.numbers();
        numbers.live.openings = live.candidate.openings.clone();
        self.unlike += live.answered_otherwise();
        self.answers += live.live.answers();
        self.all.add(&numbers);
        self.dependencies.insert(name, numbers);
    }
}

impl Selection {
    fn wants(&self, dependency: &Dependency) -> bool {
        let namespace = self.namespace.is_empty() || self.namespace == dependency.namespace;
        let wanted = self.dependency.as_ref();
        namespace && wanted.is_none_or(|name| *name == dependency.name)
    }
}

impl Trial {
    fn new(policies: &PolicySet, entry: &Entry) -> Self {
        let Dependency {
            namespace, name, ..
        } = &*entry.dependency;
        let record = record_of(&entry.dependency, entry.context.now);
        Self {
            part: entry.dependency.part,
            next_serial: entry.dependency.next_serial,
            counting: false,
            policy: policies.resolve(namespace, name).map(|(policy, _)| policy),
            candidate: Judge::beside(&record),
            live: Judge::beside(&record),
        }
    }

    fn take(&mut self, entry: &Entry, since: Option<Time>) {
        let now = entry.context.now;
        if entry.dependency.part != self.part {
            self.part = entry.dependency.part;
            self.begin_again(&record_of(&entry.dependency, now));
        } else if next_serial(&entry.happening).is_some_and(|next| next < self.next_serial) {
            // It was idle, was dropped, and came back.
            let epoch = self.live.record().breaker.epoch + 1;
            self.begin_again(&Record::new(epoch, now));
        }
        if let Some(next) = next_serial(&entry.happening) {
            self.next_serial = next;
        }
        if !self.counting && since.is_none_or(|since| now >= since) {
            self.counting = true;
            self.candidate.count_anew();
            self.live.count_anew();
        }
        self.live
            .take(&entry.policy, &entry.happening, &entry.context);
        // Where the candidate's file does not know the namespace, what was live stays.
        let policy = self.policy.as_ref().unwrap_or(&entry.policy);
        self.candidate
            .take(policy, &entry.happening, &entry.context);
    }

    fn begin_again(&mut self, record: &Record) {
        self.next_serial = 0;
        self.live.begin_again(record.clone());
        self.candidate.begin_again(record.clone());
    }
}

fn next_serial(happening: &Happening) -> Option<u64> {
    match happening {
        Happening::Asked { before, .. } | Happening::Tallied { before, .. } => {
            Some(before.next_serial)
        }
        Happening::Reported { .. }
        | Happening::Forced(_)
        | Happening::Released
        | Happening::Reset
        | Happening::HoldCleared
        | Happening::Advanced => None,
    }
}

/// The record before the first that was told of it: as far as a checkpoint says.
fn record_of(dependency: &Dependency, now: Time) -> Record {
    let new = Checkpoint {
        phase: Phase::Closed,
        epoch: dependency.checkpoint.epoch,
        level: 0,
        trips: 0,
        left: Default::default(),
        usual: None,
    };
    match dependency.checkpoint == new {
        true => Record::new(new.epoch, now),
        false => operate::restore(&dependency.checkpoint, now),
    }
}
