//! What is to happen, in the order of time; at one instant in the order in which it was planned.
//!
//! A binary heap over 24-byte events. Nothing is ever taken out of the middle: an event names
//! the generation of the operation it is for, and one whose operation has moved on since is
//! dropped when its time comes.

use std::{cmp::Reverse, collections::BinaryHeap};

/// What an event is. The number is part of an event's order only where two are planned as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// An operation begins, after its client has thought.
    Begin,
    /// One arrives by itself, and plans the next.
    Arrival,
    /// A wait is over.
    Act,
    /// A call reaches the dependency.
    Call,
    /// A call has ended, for its caller.
    Done,
    /// A client notices that its session broke.
    Notice,
    /// A question reaches the coordinator.
    Question,
    /// Its answer reaches the client.
    Answer,
    /// No answer came.
    Late,
    /// A session has something to report.
    Flush,
    /// A report reaches the coordinator.
    Report,
    /// Something happens to the fleet.
    Sudden,
}

/// Something that is to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    pub at: u64,
    order: u64,
    /// An operation, a session, a report: by the kind.
    pub whose: u32,
    pub generation: u32,
    pub kind: Kind,
}

/// Everything that is planned.
#[derive(Debug, Default)]
pub struct Queue {
    heap: BinaryHeap<Reverse<Event>>,
    planned: u64,
}

impl Queue {
    pub fn plan(&mut self, at: u64, kind: Kind, whose: u32, generation: u32) {
        self.planned += 1;
        self.heap.push(Reverse(Event {
            at,
            order: self.planned,
            whose,
            generation,
            kind,
        }));
    }

    /// The next that happens before `end`.
    pub fn next(&mut self, end: u64) -> Option<Event> {
        let Reverse(first) = self.heap.peek()?;
        if first.at >= end {
            return None;
        }
        self.heap.pop().map(|Reverse(event)| event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_planning() {
        let mut queue = Queue::default();
        for (at, whose) in [(5, 1), (3, 2), (5, 3), (3, 4), (9, 5)] {
            queue.plan(at, Kind::Act, whose, 0);
        }
        let order: Vec<u32> = std::iter::from_fn(|| queue.next(9))
            .map(|it| it.whose)
            .collect();
        assert_eq!(order, [2, 4, 1, 3]);
    }

    #[test]
    fn an_event_is_small() {
        assert!(size_of::<Event>() <= 32);
    }
}
