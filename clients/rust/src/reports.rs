//! Outcomes on their way to the service: a bounded queue, sent in batches.
//!
//! Reporting never makes a caller wait. A full queue loses the newest outcome and counts it;
//! the service then takes the permit for silent, which is what it is. A batch goes out
//! 10 ms after its first outcome under a permit, since a recovering dependency's ramp is
//! steered by these; at once when an entry is a failure; and always before a question that
//! carries a failure, so that failures never arrive ahead of the successes around them.
//! Attempts made on pushed state are counted, and their tallies go first in a batch; alone
//! they wait 100 ms to 1 s, jittered.
//!
//! A batch whose answer was lost with its stream is sent once more under the same sequence
//! number, by which the service tells a repetition. Numbers begin at the wall clock, so
//! those of a restarted process with the same name are higher than those before.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use prost::Message;
use tokio::{sync::Notify, time::Instant};

use crate::{
    clock::wall_unix_micros,
    counters::{Counting, add},
    entropy,
    outcome::Outcome,
    proto,
    pushed::OnState,
    tally::Tallies,
    wire,
};

const QUEUE_MAX: usize = 10_000;
const BATCH_MAX: usize = 1_000;
/// Tallies in one batch.
const TALLIES_MAX: usize = 500;
/// The service takes 256 KiB a message.
pub(crate) const MESSAGE_BYTES_MAX: usize = 192 * 1024;
/// What an outcome under a permit waits for others.
const LINGER: Duration = Duration::from_millis(10);
/// The shortest and the longest of what only tallies wait.
const TALLY_LINGER: Duration = Duration::from_millis(100);
const TALLY_LINGER_MAX: Duration = Duration::from_secs(1);
/// Batches without an answer yet; past it the queue fills.
const UNANSWERED_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Reports {
    state: Mutex<State>,
    /// An entry came, or a batch was answered.
    changed: Notify,
    counting: Arc<Counting>,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<proto::ReportEntry>,
    tallies: Tallies,
    /// When the batch that is being gathered must go.
    due: Option<Instant>,
    next_sequence: u64,
    unanswered: BTreeMap<u64, Batch>,
    resend: VecDeque<Batch>,
    /// Outcomes that are being told in another way.
    telling: usize,
}

/// What goes in one message.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) sequence: u64,
    pub(crate) entries: Vec<proto::ReportEntry>,
    is_repetition: bool,
}

impl Reports {
    pub(crate) fn new(counting: Arc<Counting>) -> Self {
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                tallies: Tallies::default(),
                due: None,
                next_sequence: wall_unix_micros(),
                unanswered: BTreeMap::new(),
                resend: VecDeque::new(),
                telling: 0,
            }),
            changed: Notify::new(),
            counting,
        }
    }

    pub(crate) fn push(&self, permit: Bytes, outcome: &Outcome) {
        let mut state = self.lock();
        if state.queue.len() >= QUEUE_MAX {
            add(&self.counting.reports_dropped, 1);
            return;
        }
        state.queue.push_back(wire::report_entry(permit, outcome));
        let is_due = outcome.is_urgent() || state.queue.len() >= BATCH_MAX;
        let linger = if is_due { Duration::ZERO } else { LINGER };
        let is_sooner = state.is_due_in(linger);
        drop(state);
        if is_sooner {
            self.changed.notify_one();
        }
    }

    /// An attempt on pushed state ended so.
    pub(crate) fn tally(&self, dependency: &Arc<str>, on: OnState, outcome: &Outcome) {
        self.count(dependency, on, outcome, outcome.is_urgent());
    }

    /// The same of a state that another has taken the place of: whole fleets learn that at one
    /// instant, and none of them is in a hurry.
    pub(crate) fn tally_late(&self, dependency: &Arc<str>, on: OnState, outcome: &Outcome) {
        self.count(dependency, on, outcome, false);
    }

    fn count(&self, dependency: &Arc<str>, on: OnState, outcome: &Outcome, is_urgent: bool) {
        let mut state = self.lock();
        if !state.tallies.note(dependency, on, outcome) {
            add(&self.counting.reports_dropped, 1);
            return;
        }
        let is_sooner = match (state.due, is_urgent) {
            (Some(_), false) => false,
            (_, true) => state.is_due_in(Duration::ZERO),
            (None, false) => {
                let spread = TALLY_LINGER_MAX - TALLY_LINGER;
                state.is_due_in(TALLY_LINGER + spread.mul_f64(entropy::unit()))
            }
        };
        drop(state);
        if is_sooner {
            self.changed.notify_one();
        }
    }

    /// An outcome is told by a question, until [`Self::end_telling`].
    pub(crate) fn begin_telling(&self) {
        self.lock().telling += 1;
    }

    pub(crate) fn end_telling(&self) {
        let mut state = self.lock();
        state.telling = state.telling.saturating_sub(1);
    }

    /// Returns when a batch should go.
    pub(crate) async fn due(&self) {
        loop {
            let due = self.lock().due_at();
            match due {
                Some(due) => tokio::select! {
                    () = tokio::time::sleep_until(due) => return,
                    () = self.changed.notified() => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    /// The next batch, due or not. It counts as unanswered until [`Self::answered`].
    pub(crate) fn take(&self) -> Option<Batch> {
        let mut state = self.lock();
        if state.unanswered.len() >= UNANSWERED_MAX {
            return None;
        }
        let batch = match state.resend.pop_front() {
            Some(batch) => batch,
            None => state.gather()?,
        };
        state.unanswered.insert(batch.sequence, batch.clone());
        Some(batch)
    }

    /// The service answered the batch: taken, or refused for good.
    pub(crate) fn answered(&self, sequence: u64, was_taken: bool) {
        let Some(batch) = self.lock().unanswered.remove(&sequence) else {
            return;
        };
        let counter = match was_taken {
            true => &self.counting.reported,
            false => &self.counting.reports_dropped,
        };
        add(counter, batch.entries.len());
        self.changed.notify_one();
    }

    /// A stream begins. What was counted before it deposits nothing, in a batch that is
    /// repeated either.
    pub(crate) fn stream_begins(&self) {
        let mut state = self.lock();
        state.tallies.forget_starts();
        let entries = state.resend.iter_mut().flat_map(|batch| &mut batch.entries);
        for entry in entries {
            if let Some(proto::report_entry::Entry::Tally(tally)) = &mut entry.entry {
                tally.first_attempts = 0;
            }
        }
    }

    /// The stream broke: what was not answered goes once more, on the next one.
    pub(crate) fn broken(&self) {
        let mut state = self.lock();
        let lost = std::mem::take(&mut state.unanswered);
        for (_, mut batch) in lost {
            if batch.is_repetition {
                add(&self.counting.reports_dropped, batch.entries.len());
            } else {
                batch.is_repetition = true;
                state.resend.push_back(batch);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    pub(crate) fn is_empty(&self) -> bool {
        let state = self.lock();
        let is_sent = state.unanswered.is_empty() && state.resend.is_empty();
        is_sent && state.has_nothing_new() && state.telling == 0
    }

    /// What is queued goes now.
    pub(crate) fn hurry(&self) {
        let mut state = self.lock();
        state.due = state.due.map(|_| Instant::now());
        drop(state);
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_nothing_new(&self) -> bool {
        self.queue.is_empty() && self.tallies.is_empty()
    }

    /// What is gathered goes after so long at the latest. True: that is sooner than before.
    fn is_due_in(&mut self, linger: Duration) -> bool {
        let due = Instant::now() + linger;
        let is_sooner = self.due.is_none_or(|before| due < before);
        if is_sooner {
            self.due = Some(due);
        }
        is_sooner
    }

    fn due_at(&self) -> Option<Instant> {
        if self.unanswered.len() >= UNANSWERED_MAX {
            return None;
        }
        match self.resend.is_empty() {
            true => self.due,
            false => Some(Instant::now()),
        }
    }

    fn gather(&mut self) -> Option<Batch> {
        // A tally takes 300 bytes at most, so that these leave room.
        let mut entries: Vec<_> = self.tallies.take(TALLIES_MAX).collect();
        let mut bytes: usize = entries.iter().map(|entry| entry.encoded_len() + 8).sum();
        while let Some(entry) = self.queue.front() {
            bytes += entry.encoded_len() + 8;
            let is_full = entries.len() >= BATCH_MAX || bytes > MESSAGE_BYTES_MAX;
            if is_full && !entries.is_empty() {
                break;
            }
            entries.extend(self.queue.pop_front());
        }
        self.due = (!self.has_nothing_new()).then(Instant::now);
        if entries.is_empty() {
            return None;
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        Some(Batch {
            sequence,
            entries,
            is_repetition: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports() -> Reports {
        Reports::new(Arc::default())
    }

    fn push(reports: &Reports, outcome: Outcome) {
        reports.push(Bytes::from_static(b"permit"), &outcome);
    }

    #[tokio::test(start_paused = true)]
    async fn successes_wait_ten_milliseconds_and_a_failure_takes_them_along_at_once() {
        let reports = reports();
        let start = Instant::now();
        push(&reports, Outcome::success());
        reports.due().await;
        assert_eq!(start.elapsed(), LINGER);
        push(&reports, Outcome::failure());
        reports.due().await;
        assert_eq!(start.elapsed(), LINGER);
        assert_eq!(reports.take().unwrap().entries.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn cl5_the_queue_holds_ten_thousand_and_counts_what_it_drops() {
        let reports = reports();
        for _ in 0..QUEUE_MAX + 5 {
            push(&reports, Outcome::success());
        }
        assert_eq!(reports.counting.read().reports_dropped, 5);
        let sizes: Vec<usize> =
            std::iter::from_fn(|| reports.take().map(|batch| batch.entries.len())).collect();
        assert_eq!(sizes, [BATCH_MAX; 10]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_stream_repeats_a_batch_once_under_its_number() {
        let reports = reports();
        push(&reports, Outcome::success());
        let first = reports.take().unwrap().sequence;
        reports.broken();
        push(&reports, Outcome::success());
        assert_eq!(reports.take().unwrap().sequence, first);
        assert_eq!(reports.take().unwrap().sequence, first + 1);
        reports.answered(first + 1, true);
        reports.broken();
        assert!(reports.take().is_none() && reports.is_empty());
        let counters = reports.counting.read();
        assert_eq!((counters.reported, counters.reports_dropped), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn starts_of_before_a_stream_deposit_nothing_repeated_or_not() {
        let reports = reports();
        let on = OnState {
            epoch: 1,
            slow_after: holdoff_decision::Nanos::ZERO,
        };
        let count = || reports.tally(&"a".into(), on, &Outcome::success());
        let take = || match reports.take().unwrap().entries[0].entry.clone() {
            Some(proto::report_entry::Entry::Tally(tally)) => {
                (tally.first_attempts, tally.successes)
            }
            other => panic!("{other:?}"),
        };
        count();
        assert_eq!(take(), (1, 1));
        reports.broken();
        count();
        reports.stream_begins();
        assert_eq!((take(), take()), ((0, 1), (0, 1)));
        count();
        assert_eq!(take(), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_that_a_later_state_has_overtaken_waits_like_a_success() {
        let on = OnState {
            epoch: 1,
            slow_after: holdoff_decision::Nanos::ZERO,
        };
        for is_late in [false, true] {
            let (reports, start) = (reports(), Instant::now());
            match is_late {
                true => reports.tally_late(&"a".into(), on, &Outcome::failure()),
                false => reports.tally(&"a".into(), on, &Outcome::failure()),
            }
            reports.due().await;
            assert_eq!(start.elapsed() >= TALLY_LINGER, is_late);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_stays_below_what_the_service_takes() {
        let reports = reports();
        for _ in 0..100 {
            reports.push(Bytes::from(vec![0; 10_000]), &Outcome::success());
        }
        let batch = reports.take().unwrap();
        assert!(batch.entries.len() < 20);
    }
}
