//! First attempts on pushed state: made or refused without a question.

use tokio::time::Instant;

use super::{Asking, Made};
use crate::{
    client::Mode,
    counters::add,
    denied::Denied,
    permit::{Permit, Terms},
    pushed::Word,
};

impl Asking {
    /// `None`: the service is to be asked.
    pub(super) fn on_pushed_state(&self) -> Option<Result<Permit, Denied>> {
        if self.is_extra() {
            return None;
        }
        let inner = self.client.inner();
        let Mode::Fleet(link) = &inner.mode else {
            return None;
        };
        match link.shared().pushed.word(&self.question.dependency) {
            Word::Go(on) => {
                add(&inner.counting.pushed_grants, 1);
                let terms = Terms::at_once(Made::OnState(on));
                Some(Permit::try_new(self.clone(), terms, Instant::now()))
            }
            Word::Refuse(denied) => {
                add(&inner.counting.pushed_denials, 1);
                Some(Err(denied))
            }
            Word::Ask => None,
        }
    }
}
