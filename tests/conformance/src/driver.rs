//! A driver's process: lines in, lines out, many at a time.

use std::{
    collections::{BTreeMap, HashMap},
    process::Stdio,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{Mutex as AsyncMutex, oneshot},
};

/// A scenario that is not answered by then has failed.
const PATIENCE: Duration = Duration::from_secs(30);

type Waiting = Arc<Mutex<HashMap<u64, oneshot::Sender<Value>>>>;

/// See the module. Dropped, the process is killed.
#[derive(Debug)]
pub struct Driver {
    input: AsyncMutex<Option<ChildStdin>>,
    waiting: Waiting,
    next: AtomicU64,
    is_verbose: bool,
    child: AsyncMutex<Child>,
}

impl Driver {
    /// Starts `command`, whose words are parted by spaces.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(
        command: &str,
        environment: &BTreeMap<String, String>,
        is_verbose: bool,
    ) -> Result<Self> {
        let mut words = command.split_whitespace();
        let program = words.next().context("the driver's command is empty")?;
        let mut child = Command::new(program)
            .args(words)
            .envs(environment)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {command}"))?;
        let waiting = Waiting::default();
        let output = child.stdout.take().context("it has no output")?;
        tokio::spawn(read(output, Arc::clone(&waiting), is_verbose));
        Ok(Self {
            input: AsyncMutex::new(child.stdin.take()),
            waiting,
            next: AtomicU64::new(1),
            is_verbose,
            child: AsyncMutex::new(child),
        })
    }

    /// The results of one scenario.
    ///
    /// # Errors
    /// The driver ended, said nothing in time, or says that it failed.
    pub async fn play(&self, mut line: Value) -> Result<Value> {
        let id = self.next.fetch_add(1, Relaxed);
        line["id"] = id.into();
        let (reply, answer) = oneshot::channel();
        lock(&self.waiting).insert(id, reply);
        self.write(&line).await?;
        let answer = match tokio::time::timeout(PATIENCE, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => bail!("the driver has ended, or said what is no answer"),
            Err(_) => bail!("the driver said nothing for {PATIENCE:?}"),
        };
        match answer["failed"].as_str() {
            Some(why) => bail!("the driver failed: {why}"),
            None => Ok(answer["results"].clone()),
        }
    }

    /// Ends its input; it is expected to end well.
    ///
    /// # Errors
    /// It does not end within 5 s, or ends with another code than 0.
    pub async fn end(&self) -> Result<()> {
        self.input.lock().await.take();
        let mut child = self.child.lock().await;
        let ended = tokio::time::timeout(Duration::from_secs(5), child.wait()).await;
        let status = ended.context("the driver does not end with its input")??;
        if !status.success() {
            bail!("the driver ended with {status}");
        }
        Ok(())
    }

    async fn write(&self, line: &Value) -> Result<()> {
        if self.is_verbose {
            eprintln!("> {line}");
        }
        let mut input = self.input.lock().await;
        let input = input.as_mut().context("the driver's input is closed")?;
        let written = input.write_all(format!("{line}\n").as_bytes()).await;
        written.context("the driver has ended")?;
        input.flush().await.context("the driver has ended")
    }
}

/// Hands the answers out. At the end of the output those who still wait learn it.
async fn read(output: ChildStdout, waiting: Waiting, is_verbose: bool) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if is_verbose {
            eprintln!("< {line}");
        }
        let answer: Value = match serde_json::from_str(&line) {
            Ok(answer) => answer,
            Err(why) => {
                eprintln!("the driver said `{line}`, which is no JSON: {why}");
                break;
            }
        };
        let id = answer["id"].as_u64().unwrap_or_default();
        if let Some(reply) = lock(&waiting).remove(&id) {
            // Who gave up waiting needs no answer.
            let _ = reply.send(answer);
        }
    }
    lock(&waiting).clear();
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Value>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
