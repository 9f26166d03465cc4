//! What a driver may ask of the server: a line with the name of an action on a socket of the
//! scenario's own, answered when it is done.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinSet,
    time::Instant,
};

use crate::{
    endpoint::Endpoint,
    said,
    scenario::{Action, Counts, Scenario},
    script::Script,
};

/// The server of one scenario. Dropped, it ends.
#[derive(Debug)]
pub struct Stage {
    pub script: Arc<Script>,
    pub endpoints: Vec<Endpoint>,
    scenario: Scenario,
    failed: Mutex<Vec<String>>,
    then: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
}

impl Stage {
    /// # Errors
    /// The script says what the contract does not have, or there is no port.
    pub fn begin(scenario: &Scenario) -> Result<Arc<Self>> {
        let server = &scenario.server;
        let updates: Result<Vec<_>> = server.updates.iter().map(said::update).collect();
        let (sender, then) = mpsc::unbounded_channel();
        let script = Script::new(server.rules.clone(), updates?, sender);
        let behaviours = server.endpoints.iter().enumerate();
        let endpoints: Result<Vec<_>> = behaviours
            .map(|(index, behaviour)| Endpoint::begin(&script, index, *behaviour))
            .collect();
        Ok(Arc::new(Self {
            script,
            endpoints: endpoints?,
            scenario: scenario.clone(),
            failed: Mutex::default(),
            then: Mutex::new(Some(then)),
        }))
    }

    /// What the server could not do.
    pub fn failed(&self) -> Vec<String> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = failed.clone();
        all.extend(self.script.mistakes());
        all
    }

    async fn act(&self, name: &str) {
        match self.scenario.server.actions.get(name) {
            Some(actions) => {
                for action in actions {
                    if let Err(why) = self.act_once(action).await {
                        self.fail(format!("action {name}: {why:#}"));
                    }
                }
            }
            None => self.fail(format!("the driver asked for an action `{name}`")),
        }
    }

    fn fail(&self, why: String) {
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.push(why);
    }

    async fn act_once(&self, action: &Action) -> Result<()> {
        match action {
            Action::Becomes { endpoint, becomes } => match self.endpoints.get(*endpoint) {
                Some(endpoint) => endpoint.become_so(*becomes).await,
                None => anyhow::bail!("there is no endpoint {endpoint}"),
            },
            Action::Push { push } => self.script.push(said::update(push)?),
            Action::Rules { rules } => self.script.set_rules(rules.clone()),
            Action::Await { r#await, within_ms } => self.come(*r#await, *within_ms).await?,
            Action::Sleep { sleep_ms } => {
                tokio::time::sleep(Duration::from_millis(*sleep_ms)).await;
            }
        }
        Ok(())
    }

    async fn come(&self, wanted: Counts, within_ms: u64) -> Result<()> {
        let until = Instant::now() + Duration::from_millis(within_ms);
        loop {
            let come = self.script.counts();
            if come.asked >= wanted.asked
                && come.reported >= wanted.reported
                && come.sessions >= wanted.sessions
            {
                return Ok(());
            }
            if Instant::now() >= until {
                anyhow::bail!("waited for {wanted:?}, and there came {come:?}");
            }
            self.script.changed().await;
        }
    }
}

/// Listens for what the driver asks, for as long as the set lives.
///
/// # Errors
/// There is no port.
pub async fn listen(stage: &Arc<Stage>) -> Result<(SocketAddr, JoinSet<()>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let mut tasks = JoinSet::new();
    let then = stage
        .then
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    if let Some(mut then) = then {
        let stage = Arc::clone(stage);
        tasks.spawn(async move {
            while let Some(name) = then.recv().await {
                stage.act(&name).await;
            }
        });
    }
    let stage = Arc::clone(stage);
    tasks.spawn(async move {
        let mut asked = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let stage = Arc::clone(&stage);
            asked.spawn(async move {
                // Who does not wait for the answer does not need it.
                let _ = hear(&stage, socket).await;
            });
        }
    });
    Ok((address, tasks))
}

async fn hear(stage: &Stage, socket: TcpStream) -> std::io::Result<()> {
    let mut socket = BufReader::new(socket);
    let mut name = String::new();
    socket.read_line(&mut name).await?;
    stage.act(name.trim_end()).await;
    socket.write_all(b"done\n").await?;
    socket.shutdown().await
}
