//! Events of a fleet: what happened here is written down in the store, once; what happened
//! anywhere is read from there, in the store's order, and published.
//!
//! Written down by the replica whose swap made it happen, after that swap. A replica that is
//! killed in between takes the event with it: the record itself has the state.

use std::time::{Duration, UNIX_EPOCH};

use holdoff_decision::State;
use serde::{Deserialize, Serialize};

use super::{
    Coordinator, Event, EventKind,
    events::{Newest, Teller},
};
use crate::{
    store::{Store, redis::Board},
    telemetry::Counter,
};

/// Events in one message to the store.
const TOLD_AT_ONCE: usize = 100;
/// An event that is told later is no use; one that is lost is found by this.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// How long what could not be told waits before it is tried again.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(500);

/// An event as it is written down. What a reader does not know it ignores.
#[derive(Deserialize, Serialize)]
struct Written {
    at_ns: u64,
    kind: EventKind,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    dependency: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    states: Option<(StateWritten, StateWritten)>,
    #[serde(default)]
    epoch: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    detail: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    owner: String,
    replica: u16,
    run: u64,
    number: u64,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum StateWritten {
    Closed,
    Open,
    HalfOpen,
    Recovering,
    ForcedOpen,
    ForcedClosed,
}

impl From<State> for StateWritten {
    fn from(state: State) -> Self {
        match state {
            State::Closed => Self::Closed,
            State::Open => Self::Open,
            State::HalfOpen => Self::HalfOpen,
            State::Recovering => Self::Recovering,
            State::ForcedOpen => Self::ForcedOpen,
            State::ForcedClosed => Self::ForcedClosed,
        }
    }
}

impl From<StateWritten> for State {
    fn from(state: StateWritten) -> Self {
        match state {
            StateWritten::Closed => Self::Closed,
            StateWritten::Open => Self::Open,
            StateWritten::HalfOpen => Self::HalfOpen,
            StateWritten::Recovering => Self::Recovering,
            StateWritten::ForcedOpen => Self::ForcedOpen,
            StateWritten::ForcedClosed => Self::ForcedClosed,
        }
    }
}

fn written(event: &Event) -> Vec<u8> {
    let since = event.time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let written = Written {
        at_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        kind: event.kind,
        namespace: event.namespace.clone(),
        dependency: event.dependency.clone(),
        states: (event.states).map(|(from, to)| (from.into(), to.into())),
        epoch: event.epoch,
        detail: event.detail.clone(),
        owner: event.owner.clone(),
        replica: event.teller.replica,
        run: event.teller.run,
        number: event.teller.number,
    };
    // Texts and numbers have a form; there is nothing else in it.
    serde_json::to_vec(&written).unwrap_or_default()
}

/// `None`: another version of holdoff has written it, of a kind that is not known here.
fn read(sequence: u64, bytes: &[u8]) -> Option<Event> {
    let written: Written = serde_json::from_slice(bytes).ok()?;
    Some(Event {
        sequence,
        time: UNIX_EPOCH.checked_add(Duration::from_nanos(written.at_ns))?,
        kind: written.kind,
        namespace: written.namespace,
        dependency: written.dependency,
        states: (written.states).map(|(from, to)| (from.into(), to.into())),
        epoch: written.epoch,
        detail: written.detail,
        owner: written.owner,
        teller: Teller {
            replica: written.replica,
            run: written.run,
            number: written.number,
        },
    })
}

impl<S: Store> Coordinator<S> {
    /// Takes events that are to be told to the fleet.
    pub(super) fn queue_events(&self, board: &Board, events: Vec<Event>) {
        let by = (board.number(), board.run());
        let lost = self.events.queue(by, events);
        self.telemetry.add_many(Counter::EventsLost, lost as u64);
    }

    /// Tells the fleet what happened here, or shows it here alone while the store is away.
    pub(super) async fn pass_on(&self, board: &Board) {
        loop {
            let some = self.events.unsent_first(TOLD_AT_ONCE);
            let (Some(first), Some(last)) = (some.first(), some.last()) else {
                return;
            };
            let bytes: Vec<Vec<u8>> = some.iter().map(written).collect();
            let highest = self.events.highest_number();
            match board.tell(first.teller.number, highest, &bytes).await {
                Ok(_) => self.events.sent(last.teller.number),
                Err(_) => return self.events.publish_pending(),
            }
        }
    }

    /// Publishes what happened anywhere, so far as the store has it.
    pub async fn catch_up_with_events(&self) {
        let Some(board) = self.store.board() else {
            return;
        };
        loop {
            let known = self.events.newest();
            let Ok(all) = board.events_from(known.number).await else {
                return;
            };
            // The newest that is known is read with those after it. Where the store has another there,
            // or none, it has lost some: what it has is read from its beginning, and what was seen
            // is told from what was not.
            let is_there = all
                .first()
                .is_some_and(|(number, bytes)| known.is(*number, bytes));
            if known.number > 0 && !is_there {
                self.events.begin_numbers_anew();
                continue;
            }
            let newer = &all[usize::from(is_there)..];
            let Some((number, bytes)) = newer.last() else {
                return;
            };
            let newest = Newest {
                number: *number,
                bytes: bytes.clone(),
            };
            let events = newer
                .iter()
                .filter_map(|(number, bytes)| read(*number, bytes));
            self.events
                .publish_numbered(board.run(), newest, events.collect());
        }
    }

    /// Follows what happens anywhere, for ever.
    pub(super) async fn follow_events(&self, board: &Board) {
        loop {
            // Or whatever nobody has told of.
            let _ = tokio::time::timeout(LOOK_EVERY, board.new_events()).await;
            self.catch_up_with_events().await;
        }
    }

    /// The last that this replica tells, before it ends.
    pub async fn tell_last(&self) {
        match self.store.board() {
            Some(board) => {
                self.queue_events(&board, self.events.taken());
                self.pass_on(&board).await;
                // Who cannot be told finds out by its silence.
                let _ = board.strike(board.number()).await;
            }
            None => self.events.publish(self.events.taken()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coordinator::Events;

    fn event(detail: &str) -> Event {
        Event {
            sequence: 0,
            time: UNIX_EPOCH + Duration::from_millis(1_700_000_000_123),
            kind: EventKind::Tripped,
            namespace: "default".to_owned(),
            dependency: "payments".to_owned(),
            states: Some((State::Closed, State::Open)),
            epoch: 7,
            detail: detail.to_owned(),
            owner: String::new(),
            teller: Teller::default(),
        }
    }

    fn upto(number: u64) -> Newest {
        Newest {
            number,
            bytes: Vec::new(),
        }
    }

    fn details(events: &Events) -> Vec<String> {
        let (past, _) = events.listen(|_| true);
        past.into_iter().map(|event| event.detail).collect()
    }

    #[test]
    fn an_event_reads_back_as_it_was_written() {
        let teller = Teller {
            replica: 12,
            run: u64::MAX,
            number: 3,
        };
        let told = Event {
            teller,
            ..event("five in a row")
        };
        let expected = Event {
            sequence: 40,
            ..told.clone()
        };
        assert_eq!(read(40, &written(&told)), Some(expected));
        assert_eq!(read(40, b"{\"kind\":\"of_another_time\"}"), None);
    }

    #[test]
    fn what_was_shown_while_the_store_was_away_is_merged_without_a_duplicate() {
        let events = Events::default();
        let (_, mut listener) = events.listen(|_| false);
        events.queue((1, 9), vec![event("a"), event("b")]);
        events.publish_pending();
        events.publish_pending();
        assert_eq!(details(&events), ["a", "b"]);
        assert!(events.listen(Event::is_pending).0.len() == 2);

        // Another's came first; ours were told, and told again.
        let mut ours = events.unsent_first(10);
        events.sent(2);
        for (at, event) in ours.iter_mut().enumerate() {
            event.sequence = 12 + at as u64;
        }
        let theirs = Event {
            sequence: 11,
            ..event("theirs")
        };
        let all = [vec![theirs], ours].concat();
        events.publish_numbered(9, upto(13), all.clone());
        events.publish_numbered(9, upto(13), all);
        events.publish_pending();
        assert_eq!(details(&events), ["theirs", "a", "b"]);
        assert!(events.listen(Event::is_pending).0.is_empty());
        let mut heard = Vec::new();
        while let Ok(event) = listener.try_recv() {
            heard.push(event.detail);
        }
        assert_eq!(heard, ["a", "b", "theirs"], "each is told once");
    }

    #[test]
    fn what_is_read_again_under_other_numbers_is_shown_no_second_time() {
        let told = |number, run, own, detail: &str| Event {
            sequence: number,
            teller: Teller {
                replica: 1,
                run,
                number: own,
            },
            ..event(detail)
        };
        let events = Events::default();
        let before = [told(1, 7, 1, "a"), told(2, 8, 1, "b"), told(3, 7, 2, "c")];
        events.publish_numbered(9, upto(3), before.to_vec());
        events.begin_numbers_anew();
        let after = [
            told(1, 7, 1, "a"),
            told(2, 8, 2, "new"),
            told(1_004, 7, 3, "d"),
        ];
        events.publish_numbered(9, upto(1_004), after.to_vec());
        assert_eq!(details(&events), ["a", "b", "c", "new", "d"]);
        events.begin_numbers_anew();
        assert_eq!(
            events.highest_number(),
            1_004,
            "nobody gets one of these again"
        );
    }

    #[test]
    fn what_came_back_before_it_was_known_to_be_told_is_not_shown_as_pending() {
        let events = Events::default();
        events.queue((1, 9), vec![event("a")]);
        let mut ours = events.unsent_first(10);
        ours[0].sequence = 5;
        events.publish_numbered(9, upto(5), ours);
        events.publish_pending();
        assert_eq!(details(&events), ["a"]);
    }
}
