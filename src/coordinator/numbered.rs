//! Numbered reports: each is taken once, and one that could not be taken whole may be sent again.
//!
//! The number is noted first, so that of two that come at once one is taken. Where the report then
//! fails, or its caller goes away, the number is taken back; what had been taken of it is
//! remembered here, and whoever sends it again to this replica goes on from there. At another
//! replica its tallies count once more; its permits count once everywhere.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use holdoff_decision::{Reported, Time};

use super::{Caller, Coordinator, Refusal};
use crate::store::{Numbered, Store};

/// The oldest goes first.
const HALVES_MAX: usize = 256;

/// Instance and number.
type Number = (u64, u64);

/// What was taken of reports that were not taken whole.
#[derive(Debug, Default)]
pub(super) struct Halves(Mutex<VecDeque<(Number, Vec<Reported>)>>);

impl Halves {
    fn keep(&self, number: Number, results: Vec<Reported>) {
        let mut halves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if halves.len() >= HALVES_MAX {
            halves.pop_front();
        }
        halves.push_back((number, results));
    }

    fn take(&self, number: Number) -> Vec<Reported> {
        let mut halves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = halves.iter().position(|(other, _)| *other == number);
        let found = at.and_then(|at| halves.remove(at));
        found.map(|(_, results)| results).unwrap_or_default()
    }
}

/// A report that is being taken. Where it is dropped before its end, it was not.
#[derive(Debug)]
pub(super) struct Report<'a, S: Store> {
    coordinator: &'a Coordinator<S>,
    number: Option<Number>,
    /// Of the entries that were taken, in their order.
    pub results: Vec<Reported>,
}

impl<S: Store> Coordinator<S> {
    /// Begins a report, or goes on with it. `sequence` 0: it is not numbered. `None`: it was taken
    /// before.
    pub(super) async fn begin_report(
        &self,
        namespace: &str,
        caller: Caller<'_>,
        sequence: u64,
        now: Time,
    ) -> Result<Option<Report<'_, S>>, Refusal> {
        let mut report = Report {
            coordinator: self,
            number: None,
            results: Vec::new(),
        };
        if sequence > 0 {
            let instance = self.permits.dependency(caller.service, caller.instance).0;
            let instance = instance ^ self.permits.hash(namespace);
            let noted = self.store.note_sequence(instance, sequence, now).await;
            if !noted.map_err(Refusal::Store)? {
                return Ok(None);
            }
            let number = (instance, sequence);
            report.number = Some(number);
            report.results = self.halves.take(number);
        }
        Ok(Some(report))
    }
}

impl<S: Store> Report<'_, S> {
    /// It was taken whole.
    pub fn end(mut self) -> Vec<Reported> {
        if let Some((instance, sequence)) = self.number.take() {
            let store = &self.coordinator.store;
            store.end_sequence(instance, sequence, Numbered::Taken);
        }
        std::mem::take(&mut self.results)
    }
}

impl<S: Store> Drop for Report<'_, S> {
    fn drop(&mut self) {
        if let Some(number) = self.number.take() {
            if !self.results.is_empty() {
                let taken = std::mem::take(&mut self.results);
                self.coordinator.halves.keep(number, taken);
            }
            let (instance, sequence) = number;
            let store = &self.coordinator.store;
            store.end_sequence(instance, sequence, Numbered::NotTaken);
        }
    }
}
