//! Reports: how attempts ended, one by one by their permits, and counted where they were made on
//! pushed state.

use holdoff_decision::{Context, Reported, Time, reach_of_report, reach_of_tally, report, tally};

use super::{Caller, Coordinator, Entry, Key, Refusal, Who, evidence};
use crate::{
    candidate::Happening,
    permit::Read,
    store::{Slot, Store, StoreError, by_here},
    telemetry::Counter,
};

impl<S: Store> Coordinator<S> {
    /// Takes reports, in order. `sequence` 0: they are not numbered.
    ///
    /// # Errors
    /// Not all was counted; see [`Refusal`]. A numbered report may be sent again.
    pub async fn report(
        &self,
        namespace: &str,
        caller: Caller<'_>,
        entries: &[Entry<'_>],
        sequence: u64,
    ) -> Result<Vec<Reported>, Refusal> {
        let context = self.context();
        self.make_room(namespace, entries, context.now).await?;
        let begun = self.begin_report(namespace, caller, sequence, context.now);
        let Some(mut report) = begun.await? else {
            return Ok(vec![Reported::Duplicate; entries.len()]);
        };
        let reporter = self.instance(caller);
        report.results.truncate(entries.len());
        report
            .results
            .reserve_exact(entries.len() - report.results.len());
        for entry in &entries[report.results.len()..] {
            let reported = match entry {
                Entry::Permit(bytes, outcome) => {
                    self.report_permit(namespace, caller, bytes, outcome, &context)
                        .await?
                }
                Entry::Tally(dependency, counts) => {
                    self.predecessor.note_epoch(counts.epoch);
                    let key = Key {
                        namespace,
                        dependency,
                    };
                    let id = self.id(key);
                    self.telemetry.add(Counter::Tally);
                    let reach = |slot: &Slot| reach_of_tally(&slot.record, context.now);
                    self.transact(id, key, context.now, reach, |slot| {
                        let before = self.before(slot, reporter, &context);
                        let reported =
                            tally(&slot.policy, &mut slot.record, counts, reporter, &context);
                        evidence::note_tally(slot, counts, reported, context.now);
                        if let Some(before) = before {
                            let tallied = Happening::Tallied {
                                tally: *counts,
                                reporter,
                                result: reported,
                                before: before.record,
                            };
                            self.observe(id, slot, tallied, &before, &context);
                        }
                        self.tell_changes(id, slot, Who::Caller(caller), context.now);
                        reported
                    })
                    .await
                    .inspect(|reported| {
                        self.traffic
                            .tallied(id, reporter, caller, counts, *reported, context.now);
                    })?
                }
            };
            self.telemetry.add(Counter::Reported(reported));
            report.results.push(reported);
        }
        Ok(report.end())
    }

    /// Makes the records that tallies need, so that a report is taken whole or not at all.
    async fn make_room(
        &self,
        namespace: &str,
        entries: &[Entry<'_>],
        now: Time,
    ) -> Result<(), Refusal> {
        for entry in entries {
            if let Entry::Tally(dependency, _) = entry {
                let key = Key {
                    namespace,
                    dependency,
                };
                self.transact(self.id(key), key, now, by_here, |_| ())
                    .await?;
            }
        }
        Ok(())
    }

    async fn report_permit(
        &self,
        namespace: &str,
        caller: Caller<'_>,
        bytes: &[u8],
        outcome: &holdoff_decision::Outcome,
        context: &Context,
    ) -> Result<Reported, Refusal> {
        let reporter = self.instance(caller);
        let read = self.permits.read(bytes);
        self.predecessor.note_permit(&read);
        let (id, permit) = match read {
            Read::Permit(id, permit) => (id, permit),
            Read::EarlierRun(_, permit) if context.now >= permit.expires => {
                return self.of_no_record(namespace, Reported::Expired);
            }
            Read::EarlierRun(..) => return self.of_no_record(namespace, Reported::StaleEpoch),
            Read::Unknown | Read::Malformed => {
                return self.of_no_record(namespace, Reported::Unknown);
            }
        };
        let taken = self
            .store
            .transact(
                id,
                namespace,
                |_| Err(StoreError::Unknown),
                |slot| reach_of_report(&slot.record, &permit, context.now),
                |slot| {
                    if *slot.name.namespace != *namespace {
                        return None;
                    }
                    self.renew(slot);
                    if self.policies.bypasses(&slot.policy) {
                        return Some(Reported::Ok);
                    }
                    let before = self.before(slot, reporter, context);
                    let reported = report(
                        &slot.policy,
                        &mut slot.record,
                        &permit,
                        outcome,
                        reporter,
                        context,
                    );
                    evidence::note_outcome(slot, outcome, reported, context.now);
                    if let Some(before) = before {
                        let happening = Happening::Reported {
                            permit,
                            outcome: *outcome,
                            reporter,
                            result: reported,
                        };
                        self.observe(id, slot, happening, &before, context);
                    }
                    self.tell_changes(id, slot, Who::Caller(caller), context.now);
                    Some(reported)
                },
            )
            .await;
        match taken {
            Ok(None) => self.of_no_record(namespace, Reported::Unknown),
            Ok(Some(reported)) => {
                let reported = permit.told(reported);
                self.traffic
                    .ended(id, reporter, caller, outcome, reported, context.now);
                Ok(reported)
            }
            // Its record was idle and is gone, and all that could be said of it with it.
            Err(StoreError::Unknown) => self.of_no_record(namespace, Reported::Expired),
            Err(other) => Err(Refusal::Store(other)),
        }
    }

    /// What is said of a permit that no record of `namespace` knows, if there is one of that name.
    fn of_no_record(&self, namespace: &str, reported: Reported) -> Result<Reported, Refusal> {
        match self.has_namespace(namespace) {
            true => Ok(reported),
            false => Err(Refusal::UnknownNamespace(namespace.to_owned())),
        }
    }
}
