//! Reads a recording back, file by file, frame by frame, as far as each file is whole. Where one
//! is not, the rest of that file is left out and said to be; the next one is read.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use holdoff_decision::{
    Context, Nanos, Policy, Restart, Time, breaker::Phase, operate::Checkpoint, throughput::Health,
};
use prost::Message;

use super::{
    files::{self, Numbered},
    format::{self, BODY_MAX, HEAD, Kind, MAGIC, VERSION},
    told::{context_of, what_of},
};
use crate::{
    candidate::Happening,
    policy::{Overlay, PolicySet},
};

/// One thing that happened, in order.
#[derive(Clone, Debug)]
pub struct Entry {
    pub dependency: Arc<Dependency>,
    pub policy: Arc<Policy>,
    pub context: Context,
    pub happening: Happening,
}

/// A dependency as a file told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    pub namespace: String,
    pub name: String,
    /// Where its breaker was before the first of what follows.
    pub checkpoint: Checkpoint,
    pub next_serial: u64,
    /// Rises where the story was interrupted: what was known of before is not to be gone on from.
    pub part: u64,
}

/// Where a file is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub file: PathBuf,
    /// The first byte that could not be used.
    pub offset: u64,
    pub problem: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    #[error("{}: {cause}", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("{}: there is no recording in it (no file NNNNNNNN.holdrec)", .0.display())]
    Empty(PathBuf),
}

/// See the module.
#[derive(Debug)]
pub struct Reader {
    files: std::vec::IntoIter<Numbered>,
    open: Option<Open>,
    part: u64,
    /// The file that was read last: its number, and the run that wrote it.
    last: Option<(u64, u64)>,
    /// Things left out as the recording itself says.
    pub lost: u64,
    pub damage: Vec<Damage>,
}

#[derive(Debug)]
struct Open {
    number: u64,
    path: PathBuf,
    file: BufReader<File>,
    offset: u64,
    restarted: Option<Restart>,
    policies: HashMap<u32, Arc<Policy>>,
    dependencies: HashMap<u32, Arc<Dependency>>,
}

/// What one frame came to.
enum Step {
    Entry(Box<Entry>),
    Nothing,
    End,
}

impl Reader {
    /// # Errors
    /// The folder cannot be read, or no recording is in it.
    pub fn open(folder: &Path) -> Result<Self, RecordingError> {
        let files = files::all(folder).map_err(|cause| RecordingError::Unreadable {
            path: folder.to_owned(),
            cause,
        })?;
        if files.is_empty() {
            return Err(RecordingError::Empty(folder.to_owned()));
        }
        Ok(Self {
            files: files.into_iter(),
            open: None,
            part: 0,
            last: None,
            lost: 0,
            damage: Vec::new(),
        })
    }

    /// The next thing that happened; `None`: that was all.
    ///
    /// # Errors
    /// A file cannot be read at all.
    pub fn next_entry(&mut self) -> Result<Option<Entry>, RecordingError> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(file) = self.files.next() else {
                    return Ok(None);
                };
                self.open = Some(Open::new(file)?);
                continue;
            };
            let at = open.offset;
            match open.step(&mut self.part, &mut self.last, &mut self.lost) {
                Ok(Step::Entry(entry)) => return Ok(Some(*entry)),
                Ok(Step::Nothing) => {}
                Ok(Step::End) => self.open = None,
                Err(problem) => {
                    self.damage.push(Damage {
                        file: open.path.clone(),
                        offset: at,
                        problem,
                    });
                    self.part += 1;
                    self.open = None;
                }
            }
        }
    }
}

impl Open {
    fn new(file: Numbered) -> Result<Self, RecordingError> {
        let Numbered { number, path } = file;
        let opened = File::open(&path);
        let file = opened.map_err(|cause| RecordingError::Unreadable {
            path: path.clone(),
            cause,
        })?;
        Ok(Self {
            number,
            path,
            file: BufReader::with_capacity(1 << 16, file),
            offset: 0,
            restarted: None,
            policies: HashMap::new(),
            dependencies: HashMap::new(),
        })
    }

    fn step(
        &mut self,
        part: &mut u64,
        last: &mut Option<(u64, u64)>,
        lost: &mut u64,
    ) -> Result<Step, String> {
        if self.offset == 0 {
            self.begin(part, last)?;
        }
        let Some(kind) = self.frame()? else {
            return Ok(Step::End);
        };
        match kind {
            Kind::Begin(_) => return Err("a second beginning".to_owned()),
            Kind::Policy(policy) => {
                let read = read_policy(policy.document)?;
                self.policies.insert(policy.number, Arc::new(read));
            }
            Kind::Dependency(dependency) => {
                let number = dependency.number;
                let read = read_dependency(dependency, *part)?;
                self.dependencies.insert(number, Arc::new(read));
            }
            Kind::Gap(gap) => {
                *lost += gap.lost;
                *part += 1;
            }
            Kind::Happened(happened) => return self.entry(&happened),
        }
        Ok(Step::Nothing)
    }

    /// Reads up to the first frame that tells something. A file that goes on where the one
    /// before it ended is no interruption.
    fn begin(&mut self, part: &mut u64, last: &mut Option<(u64, u64)>) -> Result<(), String> {
        let mut magic = [0; MAGIC.len()];
        self.read(&mut magic)?.then_some(()).ok_or("it is empty")?;
        if magic != *MAGIC {
            return Err("it does not begin as a recording does".to_owned());
        }
        let Some(Kind::Begin(begin)) = self.frame()? else {
            return Err("its beginning is missing".to_owned());
        };
        if begin.version > VERSION {
            let version = begin.version;
            return Err(format!(
                "it was written by a newer version of holdoff (format {version}; {VERSION} can be read)"
            ));
        }
        if *last != Some((self.number.saturating_sub(1), begin.run)) {
            *part += 1;
        }
        *last = Some((self.number, begin.run));
        self.restarted = begin.restarted.map(|at| Restart {
            at: Time(at),
            is_on_record: begin.is_on_record,
        });
        Ok(())
    }

    /// `None`: the file ends here, as it should.
    fn frame(&mut self) -> Result<Option<Kind>, String> {
        let at = self.offset;
        let mut head = [0; HEAD];
        if !self.read(&mut head)? {
            return Ok(None);
        }
        let [a, b, c, d, e, f, g, h] = head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let sum = u32::from_le_bytes([e, f, g, h]);
        if length > BODY_MAX {
            self.offset = at;
            return Err(format!("a frame of {length} bytes; at most {BODY_MAX}"));
        }
        let mut body = vec![0; length];
        if length > 0 && !self.read(&mut body)? {
            return Err("cut off".to_owned());
        }
        if format::sum(&body) != sum {
            return Err("its bytes were changed: the sum is wrong".to_owned());
        }
        let frame = format::Frame::decode(body.as_slice());
        let frame = frame.map_err(|error| format!("not a frame: {error}"))?;
        match frame.kind {
            Some(kind) => Ok(Some(kind)),
            None => Err("a frame of an unknown kind".to_owned()),
        }
    }

    /// Fills `bytes`. False: the file ends before the first of them.
    fn read(&mut self, bytes: &mut [u8]) -> Result<bool, String> {
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.file.read(rest) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err("cut off".to_owned()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        self.offset += filled as u64;
        Ok(true)
    }

    fn entry(&self, happened: &format::Happened) -> Result<Step, String> {
        let unknown = |what: &str, number| format!("{what} {number} was never told of");
        let dependency = self.dependencies.get(&happened.dependency);
        let dependency = dependency.ok_or_else(|| unknown("dependency", happened.dependency))?;
        let policy = self.policies.get(&happened.policy);
        let policy = policy.ok_or_else(|| unknown("policy", happened.policy))?;
        let context = context_of(happened, self.restarted);
        let what = happened.what.as_ref();
        let happening = what.and_then(|what| what_of(what, context.now));
        Ok(Step::Entry(Box::new(Entry {
            dependency: Arc::clone(dependency),
            policy: Arc::clone(policy),
            context,
            happening: happening.ok_or("it tells what no version of holdoff tells")?,
        })))
    }
}

fn read_policy(document: String) -> Result<Policy, String> {
    let overlay = Overlay {
        namespace: crate::policy::DEFAULT_NAMESPACE.to_owned(),
        name: "recorded".to_owned(),
        text: document,
    };
    let set = PolicySet::load(&[], &[overlay]);
    let set = set.map_err(|findings| {
        let first = findings.first().map(ToString::to_string);
        format!(
            "a policy that cannot be read: {}",
            first.unwrap_or_default()
        )
    })?;
    let resolved = set.resolve(crate::policy::DEFAULT_NAMESPACE, "recorded");
    let (policy, _) = resolved.ok_or("a policy that cannot be read")?;
    Ok((*policy).clone())
}

fn read_dependency(told: format::Dependency, part: u64) -> Result<Dependency, String> {
    Ok(Dependency {
        checkpoint: Checkpoint {
            phase: match told.phase {
                0 => Phase::Closed,
                1 => Phase::Open,
                2 => Phase::HalfOpen,
                other => return Err(format!("a breaker in the phase {other}")),
            },
            epoch: told.epoch,
            level: told.level,
            trips: told.trips,
            left: Nanos(told.left_ns),
            usual: (told.per_kilosecond > 0).then_some(Health {
                per_kilosecond: told.per_kilosecond,
                latency: Nanos(told.latency_ns),
                failing_ppm: told.failing_ppm,
            }),
        },
        namespace: told.namespace,
        name: told.name,
        next_serial: told.next_serial,
        part,
    })
}
