//! One run of the command: its process group, its time limit, and what its output says
//! about the response. Signals that are passed on are the runner's matter.
//!
//! The group is its own, so that a limit or a signal reaches all that it started. With a
//! terminal as input it stays in ours, since a group in the background may not read one;
//! Ctrl-C then reaches it without us.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    thread,
    time::{Duration, SystemTime},
};

use rustix::process::{Pid, Signal};
use tokio::{
    process::{Child, Command},
    signal::unix::{self, SignalKind},
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until, timeout},
};

use super::{
    classify::Ending,
    headers::{Response, Scanner},
    runner::Target,
    stdin::Stdin,
};

/// How long a command may take to end after it was asked to, before it is made to.
pub const GRACE: Duration = Duration::from_secs(2);
/// How long output is waited for once the command has ended: what it started in the
/// background may hold the pipe for ever.
const OUTPUT_GRACE: Duration = Duration::from_secs(1);
/// The most of a headers file that is read.
const MAX_HEADERS: u64 = 1024 * 1024;

/// Where the response's headers are to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderSource {
    Stdout,
    Stderr,
    File(PathBuf),
}

/// Where the command's standard output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdout {
    Ours,
    /// To our standard error, where ours says something else.
    Stderr,
}

/// The signals that are passed on.
#[derive(Debug)]
pub struct Signals(mpsc::UnboundedReceiver<Signal>);

impl Signals {
    /// Those that this process gets from now on, but for those that it was started to
    /// ignore: `nohup` and a shell's background jobs mean it.
    ///
    /// # Errors
    /// Where the system refuses a handler.
    pub fn listen() -> io::Result<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        for (kind, signal) in [
            (SignalKind::interrupt(), Signal::INT),
            (SignalKind::terminate(), Signal::TERM),
            (SignalKind::hangup(), Signal::HUP),
        ] {
            if ignored & (1 << (signal.as_raw() - 1)) != 0 {
                continue;
            }
            let mut source = unix::signal(kind)?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while source.recv().await.is_some() && sender.send(signal).is_ok() {}
            });
        }
        Ok(Self(receiver))
    }

    /// Those that somebody else sends; for tests, whose process is shared.
    #[cfg(test)]
    pub fn scripted() -> (mpsc::UnboundedSender<Signal>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self(receiver))
    }

    pub async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

/// The mask of ignored signals in the status of a process; bit 0 is signal 1.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

/// How one run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub ending: Ending,
    /// For our own exit: the command's code, or 128 and the signal.
    pub code: u8,
    pub response: Response,
    pub took: Duration,
}

/// A command that runs.
#[derive(Debug)]
pub struct Started {
    child: Child,
    own_group: bool,
    begun: Instant,
    headers: Option<HeaderSource>,
    stamp: Stamp,
    scanned: Option<oneshot::Receiver<Response>>,
}

/// Starts the command once.
///
/// # Errors
/// As the system says: not found, not executable.
pub fn start(
    command: &[String],
    stdin: &mut Stdin,
    headers: Option<&HeaderSource>,
    stdout: Stdout,
) -> io::Result<Started> {
    let stamp = stamp(headers);
    let own_group = !matches!(stdin, Stdin::Terminal);
    let begun = Instant::now();
    let mut child = spawn(command, stdin, (headers, stdout), own_group)?;
    stdin.feed(child.stdin.take());
    let scanned = watch_output(&mut child, headers);
    Ok(Started {
        child,
        own_group,
        begun,
        headers: headers.cloned(),
        stamp,
        scanned,
    })
}

impl Started {
    /// Whom signals are sent to.
    pub fn target(&self) -> Option<Target> {
        let pid = i32::try_from(self.child.id()?)
            .ok()
            .and_then(Pid::from_raw)?;
        Some(Target {
            pid,
            own_group: self.own_group,
        })
    }

    /// Waits for its end, or makes it end at the limit.
    ///
    /// # Errors
    /// As the system says; nothing is known of its end then.
    pub async fn finish(mut self, limit: Option<Duration>) -> io::Result<Run> {
        let (ending, status) = self.wait(limit.map(|limit| self.begun + limit)).await?;
        let took = self.begun.elapsed();
        let response = match &self.headers {
            Some(HeaderSource::File(path)) => read_file(path, self.stamp),
            Some(HeaderSource::Stdout | HeaderSource::Stderr) => found(self.scanned).await,
            None => Response::default(),
        };
        Ok(Run {
            ending,
            code: code(status),
            response,
            took,
        })
    }

    async fn wait(&mut self, limit: Option<Instant>) -> io::Result<(Ending, ExitStatus)> {
        let target = self.target();
        let mut timed_out = false;
        let mut next_stop = limit.map(|at| (at, Signal::TERM));
        loop {
            tokio::select! {
                status = self.child.wait() => {
                    let status = status?;
                    let ending = if timed_out { Ending::TimedOut } else { ended(status) };
                    return Ok((ending, status));
                }
                signal = due(next_stop) => {
                    timed_out = true;
                    if let Some(target) = target {
                        target.send(signal);
                    }
                    next_stop = (signal == Signal::TERM)
                        .then(|| (Instant::now() + GRACE, Signal::KILL));
                }
            }
        }
    }
}

fn spawn(
    command: &[String],
    stdin: &mut Stdin,
    (headers, stdout): (Option<&HeaderSource>, Stdout),
    own_group: bool,
) -> io::Result<Child> {
    let (program, arguments) = command
        .split_first()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no command"))?;
    let piped = |source: HeaderSource| {
        if headers == Some(&source) {
            Stdio::piped()
        } else {
            Stdio::inherit()
        }
    };
    let stdout = match stdout {
        Stdout::Ours => piped(HeaderSource::Stdout),
        Stdout::Stderr => Stdio::from(io::stderr()),
    };
    let mut built = Command::new(program);
    built
        .args(arguments)
        .stdin(stdin.next()?)
        .stdout(stdout)
        .stderr(piped(HeaderSource::Stderr));
    if own_group {
        built.process_group(0);
    }
    built.spawn()
}

async fn due(stop: Option<(Instant, Signal)>) -> Signal {
    match stop {
        Some((at, signal)) => {
            sleep_until(at).await;
            signal
        }
        None => std::future::pending().await,
    }
}

fn ended(status: ExitStatus) -> Ending {
    match status.signal() {
        // Ctrl-C is the user's wish, also where only the command got it.
        Some(signal) if signal == Signal::INT.as_raw() => Ending::Cancelled,
        Some(signal) => Ending::Signalled(u8::try_from(signal).unwrap_or(u8::MAX)),
        None => Ending::Exited(code(status)),
    }
}

fn code(status: ExitStatus) -> u8 {
    let number = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    u8::try_from(number).unwrap_or(u8::MAX)
}

fn watch_output(
    child: &mut Child,
    headers: Option<&HeaderSource>,
) -> Option<oneshot::Receiver<Response>> {
    let (pipe, output): (_, Box<dyn Write + Send>) = match headers {
        Some(HeaderSource::Stdout) => (
            child.stdout.take()?.into_owned_fd().ok()?,
            Box::new(io::stdout()),
        ),
        Some(HeaderSource::Stderr) => (
            child.stderr.take()?.into_owned_fd().ok()?,
            Box::new(io::stderr()),
        ),
        Some(HeaderSource::File(_)) | None => return None,
    };
    let (sender, receiver) = oneshot::channel();
    // A thread, so that a slow reader of our output does not delay signals and limits.
    thread::spawn(move || {
        let _ = sender.send(pass_on(File::from(pipe), output));
    });
    Some(receiver)
}

fn pass_on(mut pipe: impl Read, mut output: impl Write) -> Response {
    let mut scanner = Scanner::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut read_by_someone = true;
    while let Ok(read @ 1..) = pipe.read(&mut buffer) {
        let piece = buffer.get(..read).unwrap_or_default();
        scanner.feed(piece);
        if read_by_someone {
            read_by_someone = output
                .write_all(piece)
                .and_then(|()| output.flush())
                .is_ok();
        }
    }
    scanner.finish(jiff::Timestamp::now())
}

async fn found(scanned: Option<oneshot::Receiver<Response>>) -> Response {
    match scanned {
        Some(receiver) => match timeout(OUTPUT_GRACE, receiver).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) | Err(_) => Response::default(),
        },
        None => Response::default(),
    }
}

type Stamp = Option<(SystemTime, u64)>;

/// Tells a file that this attempt wrote from one that the attempt before left behind.
fn stamp(headers: Option<&HeaderSource>) -> Stamp {
    match headers {
        Some(HeaderSource::File(path)) => written(path),
        Some(HeaderSource::Stdout | HeaderSource::Stderr) | None => None,
    }
}

fn written(path: &Path) -> Stamp {
    let data = std::fs::metadata(path).ok()?;
    Some((data.modified().ok()?, data.len()))
}

fn read_file(path: &Path, before: Stamp) -> Response {
    let now = written(path);
    if now.is_none() || now == before {
        return Response::default();
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_HEADERS).read_to_end(&mut bytes));
    if read.is_err() {
        return Response::default();
    }
    let mut scanner = Scanner::default();
    scanner.feed(&bytes);
    scanner.finish(jiff::Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_is_ignored_is_left_ignored() {
        let status = "Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t00000000000000ff\n";
        assert_eq!(
            ignored(status),
            1 << (13 - 1) | 1 << (Signal::HUP.as_raw() - 1)
        );
        assert_eq!(ignored(""), 0);
    }
}
