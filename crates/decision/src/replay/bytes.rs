//! Answers as bytes: in the order in which they go, each with what is remembered of it unless
//! that is said again later, or forgotten.

use super::{About, KEPT_MAX, Key, Remembered, Replays};
use crate::{
    Time,
    bytes::{Bytes, Corrupt, Reader, fields, variants},
};

variants!(About { Call(id) = 0, Hedge(id) = 1, After(serial) = 2, Confirmation(serial) = 3 });
variants!(Remembered { Granted(grant) = 0, Counted = 1 });
fields!(Key {
    caller,
    about,
    attempt
});

impl Bytes for Replays {
    fn write(&self, out: &mut Vec<u8>) {
        self.order.len().write(out);
        for (at, key) in &self.order {
            at.write(out);
            key.write(out);
            let answer = self.answers.get(key).filter(|(newest, _)| newest == at);
            answer.map(|(_, remembered)| *remembered).write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Corrupt> {
        let count = usize::read(from)?;
        if count > KEPT_MAX {
            return Err(Corrupt::Impossible("Replays"));
        }
        let mut read = Self::default();
        for _ in 0..count {
            let (at, key) = (Time::read(from)?, Key::read(from)?);
            if let Some(remembered) = Option::<Remembered>::read(from)? {
                read.answers.insert(key, (at, remembered));
            }
            read.order.push_back((at, key));
        }
        Ok(read)
    }
}
