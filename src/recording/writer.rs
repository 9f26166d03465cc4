//! The thread that writes a recording, and what hands it what happened.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufWriter, Write},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use holdoff_decision::{
    Context, Nanos, Policy, Restart, Time, breaker::Phase, operate::Checkpoint,
};

use super::{
    RecordingSettings, files,
    format::{self, Kind, MAGIC, VERSION},
    told::{draw_to, what_to},
};
use crate::{candidate::Happening, permit::DependencyId, policy};

/// What may wait to be written: some 4 MB.
const WAITING_MAX: usize = 8_192;
/// Nothing waits longer in memory than this, so a kill loses no more.
const FLUSH_AFTER: Nanos = Nanos::from_millis(200);
const FLUSH_IDLE: Duration = Duration::from_millis(200);
/// After the disk failed it is left alone for so long.
const AGAIN_AFTER: Nanos = Nanos::from_secs(10);
/// A disk that hangs does not keep the service from stopping.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// One thing that happened, and all that is needed to make sense of it.
#[derive(Clone, Debug)]
pub struct Noted {
    pub id: DependencyId,
    pub namespace: Arc<String>,
    pub dependency: Box<str>,
    pub policy: Arc<Policy>,
    /// Just before.
    pub checkpoint: Checkpoint,
    pub next_serial: u64,
    pub context: Context,
    pub happening: Happening,
}

/// Hands over what happened. Never waits.
#[derive(Debug)]
pub struct Recorder {
    sender: SyncSender<Box<Noted>>,
    lost: Arc<Lost>,
    closing: Arc<AtomicBool>,
    /// Its other end goes with the thread.
    done: Mutex<mpsc::Receiver<()>>,
}

/// Happenings that were not written: for the gap in the file, and for the metric.
#[derive(Debug, Default)]
struct Lost {
    since_the_gap: AtomicU64,
    untold: AtomicU64,
}

impl Lost {
    fn one(&self) {
        self.since_the_gap.fetch_add(1, Ordering::Relaxed);
        self.untold.fetch_add(1, Ordering::Relaxed);
    }
}

impl Recorder {
    /// Begins a recording of this run, which started at `run`.
    ///
    /// # Errors
    /// The folder or its first file cannot be made.
    pub fn start(
        settings: RecordingSettings,
        run: Time,
        restarted: Option<Restart>,
    ) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let (ends, done) = mpsc::channel::<()>();
        let lost = Arc::<Lost>::default();
        let closing = Arc::new(AtomicBool::new(false));
        let mut writer = Writer {
            settings,
            begin: format::Begin {
                version: VERSION,
                run: run.0,
                restarted: restarted.map(|restarted| restarted.at.0),
                is_on_record: restarted.is_some_and(|restarted| restarted.is_on_record),
            },
            lost: Arc::clone(&lost),
            closing: Arc::clone(&closing),
            open: None,
            failed_at: None,
            written_at: Time::ORIGIN,
        };
        writer.open_next()?;
        thread::Builder::new()
            .name("recording".to_owned())
            .spawn(move || {
                writer.run(&receiver);
                drop(ends);
            })?;
        Ok(Self {
            sender,
            lost,
            closing,
            done: Mutex::new(done),
        })
    }

    /// It is left out, and counted, where the disk is slower than the fleet.
    pub fn note(&self, noted: Noted) {
        match self.sender.try_send(Box::new(noted)) {
            Ok(()) => {}
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => self.lost.one(),
        }
    }

    /// Happenings that were left out since this was asked last.
    pub fn take_lost(&self) -> u64 {
        self.lost.untold.swap(0, Ordering::Relaxed)
    }

    /// As [`Self::note`], but waits where a service would not.
    #[cfg(test)]
    pub fn note_waiting(&self, noted: Noted) {
        self.sender.send(Box::new(noted)).unwrap();
    }

    /// Writes what waits, and ends, within a bounded time.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is ever sent: it ends with the thread.
        if done.recv_timeout(CLOSE_WITHIN) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the recording's last happenings are lost: the disk hangs");
        }
    }
}

struct Writer {
    settings: RecordingSettings,
    begin: format::Begin,
    lost: Arc<Lost>,
    closing: Arc<AtomicBool>,
    open: Option<Open>,
    /// Since then the disk is left alone.
    failed_at: Option<Time>,
    /// The time of what was last put to the disk.
    written_at: Time,
}

/// The file that is written.
struct Open {
    file: BufWriter<File>,
    bytes: u64,
    dependencies: HashMap<DependencyId, u32>,
    /// By where they stand in memory. Held, so that no other comes to stand there.
    policies: HashMap<usize, (u32, Arc<Policy>)>,
    frame: Vec<u8>,
}

impl Writer {
    fn run(mut self, receiver: &Receiver<Box<Noted>>) {
        loop {
            match receiver.recv_timeout(FLUSH_IDLE) {
                Ok(noted) => self.take(&noted),
                Err(RecvTimeoutError::Timeout) if !self.closing.load(Ordering::Relaxed) => {
                    self.flush();
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    self.flush();
                    return;
                }
            }
        }
    }

    fn take(&mut self, noted: &Noted) {
        let now = noted.context.now;
        let rests = |failed: Time| now.since(failed) < AGAIN_AFTER;
        if self.failed_at.is_some_and(rests) {
            self.lost.one();
            return;
        }
        match self.write(noted) {
            Ok(()) => self.failed_at = None,
            Err(error) => self.fail(&error, now),
        }
    }

    fn write(&mut self, noted: &Noted) -> io::Result<()> {
        let full = |open: &Open| open.bytes >= self.settings.file_bytes();
        // What callers have shown meanwhile is said where a file begins.
        let shown = noted
            .context
            .restarted
            .filter(|_| self.begin.restarted.is_none());
        if let Some(restart) = shown {
            self.begin.restarted = Some(restart.at.0);
            self.begin.is_on_record = restart.is_on_record;
        }
        if shown.is_some() || self.open.as_ref().is_none_or(full) {
            self.open_next()?;
        }
        let lost = self.lost.since_the_gap.swap(0, Ordering::Relaxed);
        let Some(open) = &mut self.open else {
            return Err(io::Error::other("no file is open"));
        };
        if lost > 0 {
            open.gap(lost)?;
        }
        open.write(noted)?;
        let now = noted.context.now;
        if now.since(self.written_at) >= FLUSH_AFTER {
            open.file.flush()?;
            self.written_at = now;
        }
        Ok(())
    }

    fn open_next(&mut self) -> io::Result<()> {
        if let Some(mut full) = self.open.take() {
            full.file.flush()?;
        }
        let (_, file) = files::begin(&self.settings.folder)?;
        files::prune(
            &self.settings.folder,
            self.settings.files,
            self.settings.max_bytes,
        )?;
        let mut open = Open {
            file: BufWriter::with_capacity(1 << 16, file),
            bytes: 0,
            dependencies: HashMap::new(),
            policies: HashMap::new(),
            frame: Vec::new(),
        };
        open.frame.extend_from_slice(MAGIC);
        open.put(Kind::Begin(self.begin))?;
        open.file.flush()?;
        self.open = Some(open);
        Ok(())
    }

    fn flush(&mut self) {
        let flushed = self.open.as_mut().map_or(Ok(()), |open| open.file.flush());
        if let Err(error) = flushed {
            self.fail(&error, self.written_at);
        }
    }

    /// What is in the file stays readable up to where it broke.
    fn fail(&mut self, error: &io::Error, now: Time) {
        let folder = self.settings.folder.display();
        tracing::warn!("recording to {folder} failed, and goes on in 10 s: {error}");
        if let Some(open) = self.open.take() {
            // Dropping it would write once more what has just failed.
            let (_file, _unwritten) = open.file.into_parts();
        }
        self.failed_at = Some(now);
        self.lost.one();
    }
}

impl Open {
    /// What is told after a gap is told anew: a reader must not go on from before it.
    fn gap(&mut self, lost: u64) -> io::Result<()> {
        self.dependencies.clear();
        self.put(Kind::Gap(format::Gap { lost }))
    }

    fn write(&mut self, noted: &Noted) -> io::Result<()> {
        let policy = self.policy(&noted.policy)?;
        let dependency = self.dependency(noted)?;
        let context = &noted.context;
        self.put(Kind::Happened(Box::new(format::Happened {
            dependency,
            policy,
            now: context.now.0,
            jitter: draw_to(context.sample.jitter),
            spread: draw_to(context.sample.spread),
            what: Some(what_to(&noted.happening)),
        })))
    }

    fn policy(&mut self, policy: &Arc<Policy>) -> io::Result<u32> {
        let place = Arc::as_ptr(policy) as usize;
        if let Some((number, _)) = self.policies.get(&place) {
            return Ok(*number);
        }
        let number = self.policies.len() as u32;
        self.put(Kind::Policy(format::Policy {
            number,
            document: policy::to_yaml(policy),
        }))?;
        self.policies.insert(place, (number, Arc::clone(policy)));
        Ok(number)
    }

    fn dependency(&mut self, noted: &Noted) -> io::Result<u32> {
        if let Some(number) = self.dependencies.get(&noted.id) {
            return Ok(*number);
        }
        let number = self.dependencies.len() as u32;
        let checkpoint = &noted.checkpoint;
        let usual = checkpoint.usual.as_ref();
        self.put(Kind::Dependency(format::Dependency {
            number,
            namespace: noted.namespace.to_string(),
            name: noted.dependency.to_string(),
            phase: match checkpoint.phase {
                Phase::Closed => 0,
                Phase::Open => 1,
                Phase::HalfOpen => 2,
            },
            epoch: checkpoint.epoch,
            level: checkpoint.level,
            trips: checkpoint.trips,
            left_ns: checkpoint.left.0,
            next_serial: noted.next_serial,
            per_kilosecond: usual.map_or(0, |usual| usual.per_kilosecond),
            latency_ns: usual.map_or(0, |usual| usual.latency.0),
            failing_ppm: usual.map_or(0, |usual| usual.failing_ppm),
        }))?;
        self.dependencies.insert(noted.id, number);
        Ok(number)
    }

    fn put(&mut self, kind: Kind) -> io::Result<()> {
        format::put(&mut self.frame, kind);
        let written = self.file.write_all(&self.frame);
        self.bytes += self.frame.len() as u64;
        self.frame.clear();
        written
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use holdoff_decision::{Record, operate};

    use super::{super::Reader, *};

    fn noted(at: u64) -> Noted {
        let now = Time(1_000_000_000 + at);
        Noted {
            id: DependencyId(7),
            namespace: Arc::new("default".to_owned()),
            dependency: "d".into(),
            policy: Arc::default(),
            checkpoint: operate::checkpoint(&Record::new(1, now), now),
            next_serial: 0,
            context: Context {
                now,
                sample: Default::default(),
                restarted: None,
            },
            happening: Happening::Reset,
        }
    }

    fn writer(folder: &std::path::Path) -> Writer {
        Writer {
            settings: RecordingSettings {
                folder: folder.to_owned(),
                max_bytes: 1 << 20,
                files: 2,
            },
            begin: format::Begin {
                version: VERSION,
                run: 1,
                restarted: None,
                is_on_record: false,
            },
            lost: Arc::default(),
            closing: Arc::default(),
            open: None,
            failed_at: None,
            written_at: Time::ORIGIN,
        }
    }

    fn parts(folder: &std::path::Path) -> (Vec<u64>, u64) {
        let mut reader = Reader::open(folder).unwrap();
        let mut parts = Vec::new();
        while let Some(entry) = reader.next_entry().unwrap() {
            parts.push(entry.dependency.part);
        }
        assert_eq!(reader.damage, []);
        (parts, reader.lost)
    }

    #[test]
    fn what_does_not_fit_is_counted_and_the_gap_interrupts_the_story() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path());
        writer.take(&noted(1));
        writer.take(&noted(2));
        (0..5).for_each(|_| writer.lost.one());
        writer.take(&noted(3));
        writer.flush();
        assert_eq!(parts(folder.path()), (vec![1, 1, 2], 5));
    }

    #[test]
    fn what_is_known_of_the_run_before_is_told_from_when_it_was_and_interrupts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(folder.path());
        writer.take(&noted(1));
        let mut shown = noted(2);
        let restart = Restart {
            at: Time(1_000_000_000),
            is_on_record: false,
        };
        shown.context.restarted = Some(restart);
        writer.take(&shown);
        shown.context.now = Time(1_000_000_003);
        writer.take(&shown);
        writer.flush();
        assert_eq!(parts(folder.path()), (vec![1, 1, 1], 0));
        let mut reader = Reader::open(folder.path()).unwrap();
        let mut told = Vec::new();
        while let Some(entry) = reader.next_entry().unwrap() {
            told.push(entry.context.restarted);
        }
        assert_eq!(told, [None, Some(restart), Some(restart)]);
    }

    #[test]
    fn a_disk_that_fails_is_left_alone_for_ten_seconds_and_then_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = writer(&folder.path().join("inner"));
        // A file stands where the folder should be.
        fs::write(folder.path().join("inner"), "").unwrap();
        writer.take(&noted(1));
        assert!(writer.failed_at.is_some());
        fs::remove_file(folder.path().join("inner")).unwrap();
        writer.take(&noted(2));
        assert!(writer.open.is_none(), "not yet");
        writer.take(&noted(AGAIN_AFTER.0 + 2));
        writer.flush();
        assert_eq!(parts(&folder.path().join("inner")), (vec![2], 2));
    }

    #[test]
    fn a_full_channel_loses_and_never_waits() {
        let (sender, receiver) = sync_channel(1);
        let recorder = Recorder {
            sender,
            lost: Arc::default(),
            closing: Arc::default(),
            done: Mutex::new(mpsc::channel().1),
        };
        recorder.note(noted(1));
        recorder.note(noted(2));
        drop(receiver);
        recorder.note(noted(3));
        assert_eq!(recorder.take_lost(), 2);
    }
}
