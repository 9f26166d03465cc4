//! Standard input for a command that may run more than once.
//!
//! A file is wound back to where it stood before each attempt. A pipe is passed on as it
//! comes and kept, so that a retry gets the same bytes: a retry that silently sent an
//! empty body would do harm. A terminal, or anything else, is simply passed on.

use std::{
    fs::File,
    io::{self, IsTerminal, Read, Seek, SeekFrom, Write},
    os::{fd::AsFd, unix::fs::FileTypeExt},
    process::Stdio,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
};

use tokio::process::ChildStdin;

/// The most of a pipe that is kept. What is longer is passed on once and cannot be retried.
const MAX_KEPT: usize = 64 * 1024 * 1024;

/// What the commands get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum StdinChoice {
    /// What holdoff itself gets, each attempt from the beginning.
    #[default]
    Auto,
    /// Nothing. For loops such as `while read`, whose input an attempt must not take.
    None,
}

/// How each attempt gets its input.
#[derive(Debug)]
pub enum Stdin {
    Nothing,
    Terminal,
    Inherited,
    /// Wound back to this position.
    File(File, u64),
    /// Passed on and kept.
    Pipe(Arc<Kept>),
}

/// What has been read of a pipe.
#[derive(Debug, Default)]
pub struct Kept {
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    reading: Reading,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    #[default]
    NotBegun,
    Going,
    Ended,
    /// More than is kept: the rest goes to one attempt alone.
    TooLong,
}

impl Stdin {
    pub fn plan(choice: StdinChoice) -> Self {
        if choice == StdinChoice::None {
            return Self::Nothing;
        }
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Self::Terminal;
        }
        let Ok(mut file) = stdin.as_fd().try_clone_to_owned().map(File::from) else {
            return Self::Nothing;
        };
        let Ok(kind) = file.metadata().map(|data| data.file_type()) else {
            return Self::Inherited;
        };
        if kind.is_file()
            && let Ok(position) = file.stream_position()
        {
            return Self::File(file, position);
        }
        if kind.is_fifo() || kind.is_socket() {
            return Self::Pipe(Arc::default());
        }
        Self::Inherited
    }

    /// Whether the input has been given away and a further attempt would get another.
    pub fn is_spent(&self) -> bool {
        match self {
            Self::Pipe(kept) => kept.lock().reading == Reading::TooLong,
            Self::Nothing | Self::Terminal | Self::Inherited | Self::File(..) => false,
        }
    }

    /// What the next attempt is to be started with.
    pub fn next(&mut self) -> io::Result<Stdio> {
        Ok(match self {
            Self::Nothing => Stdio::null(),
            Self::Terminal | Self::Inherited => Stdio::inherit(),
            Self::File(file, position) => {
                file.seek(SeekFrom::Start(*position))?;
                Stdio::inherit()
            }
            Self::Pipe(_) => Stdio::piped(),
        })
    }

    /// Feeds an attempt that was started with a pipe.
    pub fn feed(&self, child: Option<ChildStdin>) {
        if let Self::Pipe(kept) = self
            && let Some(pipe) = child.and_then(|pipe| pipe.into_owned_fd().ok())
        {
            kept.begin();
            let kept = Arc::clone(kept);
            // A thread, since a pipe may never end; it ends with the process.
            thread::spawn(move || {
                let _ = kept.copy_to(File::from(pipe));
            });
        }
    }
}

impl Kept {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.reading == Reading::NotBegun {
            state.reading = Reading::Going;
            let kept = Arc::clone(self);
            thread::spawn(move || kept.read_all(io::stdin()));
        }
    }

    fn read_all(&self, mut input: impl Read) {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = input.read(&mut buffer).unwrap_or(0);
            let mut state = self.lock();
            state.bytes.extend(buffer.iter().take(read));
            if read == 0 {
                state.reading = Reading::Ended;
            } else if state.bytes.len() >= MAX_KEPT {
                state.reading = Reading::TooLong;
            }
            self.more.notify_all();
            if matches!(state.reading, Reading::Ended | Reading::TooLong) {
                return;
            }
        }
    }

    fn copy_to(&self, mut output: impl Write) -> io::Result<()> {
        let mut given = 0;
        loop {
            let mut state = self.lock();
            while state.bytes.len() == given && state.reading == Reading::Going {
                state = self
                    .more
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            let piece: Vec<u8> = state
                .bytes
                .iter()
                .skip(given)
                .take(256 * 1024)
                .copied()
                .collect();
            let reading = state.reading;
            drop(state);
            if piece.is_empty() {
                if reading == Reading::TooLong {
                    io::copy(&mut io::stdin(), &mut output)?;
                }
                return output.flush();
            }
            output.write_all(&piece)?;
            given += piece.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_gets_the_same_bytes_of_a_pipe() {
        let kept = Kept::default();
        let input: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        kept.read_all(input.as_slice());
        for _ in 0..2 {
            let mut output = Vec::new();
            kept.copy_to(&mut output).unwrap();
            assert!(output == input, "{} bytes", output.len());
        }
    }
}
