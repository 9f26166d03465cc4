//! Tells those that look on what happened to a record: the judge of a candidate, the recording.
//!
//! One check on the path of a decision where nobody looks on. What is told is put together
//! while the record is held, so that it is told in its order.

use std::sync::Arc;

use holdoff_decision::{
    Answer, Ask, Context, Policy, Record, Sample, Time,
    operate::{self, Checkpoint},
    record::Override,
};

use super::{Caller, Coordinator, Event, EventKind};
use crate::{
    candidate::{Before, Happening, Opening, Shadow},
    clock,
    permit::DependencyId,
    recording::{Noted, Recorder, RecordingSettings},
    store::{Run, Slot, Store},
    telemetry::Counter,
};

/// A record just before something happens to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    pub record: Before,
    /// For the recording.
    checkpoint: Option<Checkpoint>,
}

/// What an operator orders.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ordered<'a> {
    Forced(&'a Override),
    Released,
    Reset,
    HoldCleared,
}

impl<S: Store> Coordinator<S> {
    /// Writes down what happens from now on.
    ///
    /// # Errors
    /// The folder or its first file cannot be made.
    pub fn record_to(&mut self, settings: RecordingSettings) -> std::io::Result<()> {
        let run = self.clock.now();
        self.recorder = Some(Recorder::start(
            settings,
            run,
            self.predecessor.restarted(),
        )?);
        Ok(())
    }

    /// What the recording has left out, counted where it is shown.
    pub(super) fn count_lost(&self) {
        let lost = self.recorder.as_ref().map_or(0, Recorder::take_lost);
        self.telemetry.add_many(Counter::RecordingLost, lost);
    }

    /// Ends the recording, if there is one, with all that was noted.
    pub fn end_recording(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.close();
        }
    }

    /// `None`: nobody looks on.
    pub(super) fn before(&self, slot: &Slot, caller: u64, context: &Context) -> Option<Watched> {
        let recorded = self.recorder.is_some();
        let watched = recorded || slot.shadow().is_some();
        watched.then(|| Watched {
            record: Before::of(&slot.policy, &slot.record, caller, context),
            checkpoint: recorded.then(|| operate::checkpoint(&slot.record, context.now)),
        })
    }

    /// Called once the question of `asked`'s caller is answered.
    pub(super) fn observe_asked(
        &self,
        id: DependencyId,
        slot: &mut Slot,
        (ask, caller): (&Ask, Caller<'_>),
        answer: &Answer,
        before: &Watched,
        context: &Context,
    ) {
        let service = self.permits.hash(caller.service);
        let asked = Happening::Asked {
            ask: Ask { service, ..*ask },
            verdict: answer.verdict,
            previous: answer.previous,
            before: before.record,
        };
        self.observe(id, slot, asked, before, context);
    }

    pub(super) fn observe(
        &self,
        id: DependencyId,
        slot: &mut Slot,
        happening: Happening,
        before: &Watched,
        context: &Context,
    ) {
        if slot.notes.run() == Run::Rehearsal {
            return;
        }
        self.record(id, slot, &happening, before, context);
        let Some(shadow) = slot.shadow_mut() else {
            return;
        };
        let opening = shadow.judge.take(&shadow.policy, &happening, context);
        if let Some(opening) = opening.filter(|opening| !opening.again) {
            let event = tripped(slot, &opening);
            self.telemetry.add(Counter::CandidateTrip);
            self.hand_over(event);
        }
    }

    fn record(
        &self,
        id: DependencyId,
        slot: &Slot,
        happening: &Happening,
        before: &Watched,
        context: &Context,
    ) {
        let (Some(recorder), Some(checkpoint)) = (&self.recorder, before.checkpoint) else {
            return;
        };
        recorder.note(Noted {
            id,
            namespace: Arc::clone(&slot.name.namespace),
            dependency: slot.name.dependency.clone(),
            policy: Arc::clone(&slot.policy),
            checkpoint,
            next_serial: before.record.next_serial,
            context: *context,
            happening: happening.clone(),
        });
    }

    /// Called just before the order is carried out.
    pub(super) fn observed_order(
        &self,
        id: DependencyId,
        slot: &mut Slot,
        ordered: Ordered<'_>,
        now: Time,
    ) {
        let context = Context {
            now,
            sample: Sample::default(),
            restarted: self.predecessor.restarted(),
        };
        if let Some(before) = self.before(slot, 0, &context) {
            let happening = match ordered {
                Ordered::Forced(order) => Happening::Forced(order.clone()),
                Ordered::Released => Happening::Released,
                Ordered::Reset => Happening::Reset,
                Ordered::HoldCleared => Happening::HoldCleared,
            };
            self.observe(id, slot, happening, &before, &context);
        }
    }

    /// Begins, goes on with or ends the trial of a candidate beside a record.
    pub(super) fn try_beside(&self, slot: &mut Slot, candidate: Option<(u64, Arc<Policy>)>) {
        if slot.notes.run() == Run::Rehearsal {
            return;
        }
        match (slot.shadow_mut(), candidate) {
            (None, None) => {}
            (Some(shadow), Some((number, policy))) if shadow.candidate == number => {
                shadow.policy = policy;
            }
            (_, candidate) => {
                let live: &Record = &slot.record;
                let shadow = candidate
                    .and_then(|(number, policy)| Shadow::begin(&self.trials, number, policy, live));
                slot.put_shadow(shadow);
            }
        }
    }
}

fn tripped(slot: &Slot, opening: &Opening) -> Event {
    Event {
        sequence: 0,
        time: clock::to_wall(opening.at),
        kind: EventKind::CandidateTripped,
        namespace: slot.name.namespace.to_string(),
        dependency: slot.name.dependency.to_string(),
        states: None,
        epoch: slot.record.breaker.epoch,
        detail: format!("the candidate would have opened: {}", opening.cause),
        owner: String::new(),
        teller: Default::default(),
    }
}
