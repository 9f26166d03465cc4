//! The service of the demo: the real one, on a thread of this process, in memory alone.

use std::{net::SocketAddr, sync::mpsc, thread};

use tokio::sync::watch;

use super::super::exit::Failure;
use crate::{server, settings::ServeSettings};

/// A service that runs until it is stopped.
#[derive(Debug)]
pub struct Hosted {
    pub grpc: SocketAddr,
    pub http: Option<SocketAddr>,
    stop: watch::Sender<bool>,
    thread: thread::JoinHandle<anyhow::Result<()>>,
}

impl Hosted {
    /// Returns when it listens.
    ///
    /// # Errors
    /// [`Failure::No`]: it cannot run, for example since a port is taken.
    pub fn start(settings: ServeSettings) -> Result<Self, Failure> {
        let (stop, mut stopped) = watch::channel(false);
        let (tell, told) = mpsc::channel();
        let serve = move || {
            let asked = async move {
                // Where the sender is gone, so is the demo.
                let _ = stopped.wait_for(|stopped| *stopped).await;
            };
            server::run_until(
                settings,
                || Ok(asked),
                move |grpc, http| Ok(tell.send((grpc, http))?),
            )
        };
        let thread = thread::Builder::new()
            .name("service".to_owned())
            .spawn(serve)
            .map_err(|error| Failure::No(format!("cannot start: {error}")))?;
        match told.recv() {
            Ok((grpc, http)) => Ok(Self {
                grpc,
                http,
                stop,
                thread,
            }),
            // It ended before it listened.
            Err(_) => Err(joined(thread).err().unwrap_or_else(ended)),
        }
    }

    /// Whether it ended by itself.
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it in order, and waits for that.
    ///
    /// # Errors
    /// [`Failure::No`]: what made it end before.
    pub fn stop(self) -> Result<(), Failure> {
        // It may be over already.
        let _ = self.stop.send(true);
        joined(self.thread)
    }
}

/// That the service is gone without a word.
pub fn ended() -> Failure {
    Failure::No("the service of the demo ended by itself".to_owned())
}

fn joined(thread: thread::JoinHandle<anyhow::Result<()>>) -> Result<(), Failure> {
    match thread.join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::No(format!("{error:#}"))),
        Err(_) => Err(ended()),
    }
}
