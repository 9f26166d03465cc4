//! The real service, as a process, and what an operator asks of it.

use std::{path::Path, process::Stdio, time::Duration};

use anyhow::{Context, Result, bail};
use holdoff_client::{
    operator,
    proto::{EventKind, ListEventsRequest},
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

const SAID_WITHIN: Duration = Duration::from_secs(30);

/// Dropped, the process is killed and its policy file removed.
#[derive(Debug)]
pub struct Service {
    address: String,
    _child: Child,
    policies: std::path::PathBuf,
}

impl Service {
    pub async fn start(binary: &Path, policies: &str) -> Result<Self> {
        let file = std::env::temp_dir().join(format!("holdoff-fleet-{}.yaml", std::process::id()));
        std::fs::write(&file, policies)?;
        let mut child = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--http", "off"])
            .arg("--policies")
            .arg(&file)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        let output = child.stdout.take().context("it has no output")?;
        let mut lines = BufReader::new(output).lines();
        let said = async {
            while let Some(line) = lines.next_line().await? {
                if let Some(address) = line.strip_prefix("holdoff: gRPC on ") {
                    return Ok(address.to_owned());
                }
            }
            bail!("the service has ended")
        };
        let address = tokio::time::timeout(SAID_WITHIN, said)
            .await
            .context("the service does not say where it listens")??;
        Ok(Self {
            address,
            _child: child,
            policies: file,
        })
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// How often the breaker opened.
    pub async fn openings(&self) -> Result<usize> {
        let endpoint = format!("http://{}", self.address);
        let mut operator = operator::connect(&endpoint, Some(Duration::from_secs(5))).await?;
        let asked = ListEventsRequest {
            dependency: "flaky".into(),
            ..ListEventsRequest::default()
        };
        let listed = operator.list_events(asked).await?.into_inner();
        let opened = listed
            .events
            .iter()
            .filter(|event| matches!(event.kind(), EventKind::Tripped | EventKind::Reopened));
        Ok(opened.count())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // A file in the temporary folder that stays harms nobody.
        let _ = std::fs::remove_file(&self.policies);
    }
}
