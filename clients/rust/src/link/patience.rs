//! How many callers wait for a service of which nothing has been heard yet: three in all, at
//! once or one after the other. The others decide alone at once, while the connection is made
//! at nobody's cost. So a process that begins with a burst of calls pays for three of them, and
//! being slow to start is not taken for the service's silence: the gate is for questions that
//! were sent.

use std::sync::{Mutex, MutexGuard, PoisonError};

const WAITING_MAX: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Patience {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The service has said something on the connection that stands.
    is_heard: bool,
    waiting: u32,
    /// Since it was last heard of.
    in_vain: u32,
}

/// One who waits. Dropped, it waits no longer.
#[derive(Debug)]
pub(super) struct Waiter<'a> {
    patience: &'a Patience,
}

impl Patience {
    /// `None`: decide alone.
    pub(super) fn enter(&self) -> Option<Waiter<'_>> {
        let mut state = self.lock();
        if !state.is_heard && state.waiting + state.in_vain >= WAITING_MAX {
            return None;
        }
        state.waiting += 1;
        Some(Waiter { patience: self })
    }

    /// Three have waited in vain.
    pub(super) fn is_over(&self) -> bool {
        let state = self.lock();
        !state.is_heard && state.in_vain >= WAITING_MAX
    }

    pub(super) fn heard(&self) {
        let mut state = self.lock();
        state.is_heard = true;
        state.in_vain = 0;
    }

    /// The connection is over.
    pub(super) fn lost(&self) {
        self.lock().is_heard = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter<'_> {
    /// It waited to the end, and nothing came.
    pub(super) fn in_vain(self) {
        let mut state = self.patience.lock();
        if !state.is_heard {
            state.in_vain += 1;
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.patience.lock().waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_wait_in_all_until_the_service_is_heard_of() {
        let patience = Patience::default();
        let waiting: Vec<_> = (0..3).map(|_| patience.enter().unwrap()).collect();
        assert!(patience.enter().is_none(), "at once");
        waiting.into_iter().for_each(Waiter::in_vain);
        assert!(patience.enter().is_none(), "one after the other");
        assert!(patience.is_over());
        patience.heard();
        assert!(!patience.is_over());
        let many: Vec<_> = (0..10).map(|_| patience.enter().unwrap()).collect();
        patience.lost();
        assert!(patience.enter().is_none(), "ten wait");
        drop(many);
        (0..3).for_each(|_| patience.enter().unwrap().in_vain());
        assert!(patience.enter().is_none(), "lost again");
    }

    #[test]
    fn who_gave_up_makes_room_for_another() {
        let patience = Patience::default();
        for _ in 0..10 {
            drop(patience.enter().unwrap());
        }
    }
}
