//! How a client is made. Only malformed settings fail here; a service that cannot be reached
//! is the everyday case, and is met when the first question is asked.

use std::{io, sync::Arc, time::Duration};

use holdoff_decision::Policy;
use thiserror::Error;
use tonic::transport::{Channel, Endpoint};

use crate::{
    Client,
    client::{Inner, Mode, OnNoDecision},
    clock::Clock,
    counters::Counting,
    credentials::{Bearer, Tls},
    entropy,
    link::{Dial, Dialer, Link},
    local::{self, Local},
    proto,
    pushed::Pushed,
    question,
};

const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:7460";
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(50);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const KEEP_ALIVE: Duration = Duration::from_secs(20);
const NAME_BYTES_MAX: usize = 200;

/// Settings of a [`Client`].
#[derive(Default)]
pub struct Builder {
    endpoints: Vec<String>,
    service: Option<String>,
    instance: Option<String>,
    namespace: String,
    timeout: Option<Duration>,
    policy: Option<Policy>,
    follow: Vec<String>,
    on_no_decision: OnNoDecision,
    dial: Option<Dial>,
    tls: Tls,
    bearer: Bearer,
}

/// A setting that can never work.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// It is no address of a service.
    #[error("endpoint `{endpoint}`: {reason}")]
    Endpoint {
        /// As it was given.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The service would refuse each question.
    #[error("{field} `{value}`: {reason}")]
    Name {
        /// `service`, `instance`, `namespace` or `follow`.
        field: &'static str,
        /// Its beginning.
        value: String,
        /// What is allowed.
        reason: &'static str,
    },
    /// A call could not be asked about, or would wait for too long.
    #[error("timeout {0:?}: it must be above zero and at most 10 s")]
    Timeout(Duration),
}

impl Builder {
    /// Where the service is, in order of preference: `http://host:port`. A later one is
    /// used while those before it cannot be reached. `http://127.0.0.1:7460` unless said.
    #[must_use]
    pub fn endpoints<I>(mut self, endpoints: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.endpoints = endpoints.into_iter().map(Into::into).collect();
        self
    }

    /// What this process is, for example `checkout`. The program's name unless said.
    #[must_use]
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.service = Some(service.into());
        self
    }

    /// Which process of it; no two may share a name. Host name, process id and a random
    /// part unless said.
    #[must_use]
    pub fn instance(mut self, instance: impl Into<String>) -> Self {
        self.instance = Some(instance.into());
        self
    }

    /// The tenant; `default` unless said.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The longest that a call waits for the service; 50 ms unless said.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Dependencies whose state is wanted from the first connection on, so that even the
    /// first call needs no question. What is asked about is followed by itself.
    #[must_use]
    pub fn follow<I>(mut self, dependencies: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.follow = dependencies.into_iter().map(Into::into).collect();
        self
    }

    /// The policy of decisions without the service, until it has pushed its own. The
    /// documented one unless said, with a retry budget of a tenth of this process's own
    /// calls and one a second.
    #[must_use]
    pub fn local_policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// What happens when the service decides nothing: [`OnNoDecision::Local`] unless said.
    #[must_use]
    pub fn on_no_decision(mut self, on_no_decision: OnNoDecision) -> Self {
        self.on_no_decision = on_no_decision;
        self
    }

    /// Whom `https://` endpoints must be, and who this client is to them. Without it the
    /// service's certificate must be one that the system trusts.
    #[must_use]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = tls;
        self
    }

    /// Sends `authorization: Bearer TOKEN` with each request. Over `http://` anybody on the
    /// way can read it.
    #[must_use]
    pub fn token(self, token: impl Into<String>) -> Self {
        let token = token.into();
        self.token_from(move || token.clone())
    }

    /// As [`Builder::token`], with a token that changes: read anew for each stream and each
    /// request, so that it must be quick.
    #[must_use]
    pub fn token_from(mut self, source: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.bearer = Bearer::new(source);
        self
    }

    /// Makes connections in another way: over a Unix socket, or encrypted by other means. It
    /// gets the endpoint with all settings.
    #[must_use]
    pub fn dial_with<F, Fut>(mut self, dial: F) -> Self
    where
        F: Fn(Endpoint) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<Channel>> + Send + 'static,
    {
        self.dial = Some(Arc::new(move |endpoint| Box::pin(dial(endpoint))));
        self
    }

    /// The client. Nothing is connected yet.
    ///
    /// # Errors
    /// Only for what can never work: a malformed endpoint or name, a timeout of zero.
    pub fn build(self) -> Result<Client, BuildError> {
        let bypass = std::env::var("HOLDOFF_BYPASS").is_ok_and(|value| value == "1");
        self.build_bypassed_if(bypass)
    }

    pub(crate) fn build_bypassed_if(self, bypass: bool) -> Result<Client, BuildError> {
        let timeout = self.timeout.unwrap_or(DEFAULT_TIMEOUT);
        if timeout.is_zero() || timeout > Duration::from_secs(10) {
            return Err(BuildError::Timeout(timeout));
        }
        let hello = self.hello()?;
        if let Some(odd) = self.follow.iter().find(|name| !question::is_name(name)) {
            return Err(BuildError::Name {
                field: "follow",
                value: odd.chars().take(40).collect(),
                reason: "1 to 200 ASCII letters, digits and . _ / : @ -",
            });
        }
        let dialer = Dialer {
            endpoints: self.dialled()?,
            dial: self.dial,
            bearer: self.bearer,
        };
        let counting = Arc::<Counting>::default();
        let clock = Clock::new();
        let policy = self.policy.unwrap_or_else(local::policy);
        let pushed = Pushed::new(clock.clone(), policy.clone(), self.follow);
        let mode = match bypass {
            true => Mode::Bypass,
            false => Mode::Fleet(Link::new(dialer, hello, pushed, Arc::clone(&counting))),
        };
        Ok(Client::of(Inner {
            mode,
            timeout,
            on_no_decision: self.on_no_decision,
            local: Local::new(policy),
            clock,
            counting,
        }))
    }

    fn hello(&self) -> Result<proto::Hello, BuildError> {
        let service = self.service.clone().unwrap_or_else(program);
        let instance = self.instance.clone().unwrap_or_else(instance);
        short("service", &service)?;
        short("instance", &instance)?;
        short("namespace", &self.namespace)?;
        Ok(proto::Hello {
            caller: Some(proto::Caller { service, instance }),
            namespace: self.namespace.clone(),
            subscribe: Vec::new(),
        })
    }

    fn dialled(&self) -> Result<Vec<Endpoint>, BuildError> {
        match self.endpoints.is_empty() {
            true => Ok(vec![endpoint(DEFAULT_ENDPOINT, &self.tls)?]),
            false => {
                let each = self.endpoints.iter();
                each.map(|text| endpoint(text, &self.tls)).collect()
            }
        }
    }
}

/// An endpoint as the client, and an operator's tool, reach the service.
pub(crate) fn endpoint(text: &str, tls: &Tls) -> Result<Endpoint, BuildError> {
    let refuse = |reason: String| BuildError::Endpoint {
        endpoint: text.to_owned(),
        reason,
    };
    let endpoint = Endpoint::from_shared(text.to_owned()).map_err(|e| refuse(e.to_string()))?;
    match endpoint.uri().scheme_str() {
        Some("http" | "https") if endpoint.uri().host().is_some() => {}
        Some(_) | None => return Err(refuse("it must look like http://host:port".into())),
    }
    let endpoint = match endpoint.uri().scheme_str() {
        // Certificates that cannot be read are found here, and not at the first question.
        Some("https") => {
            let encrypted = endpoint.tls_config(tls.config());
            encrypted.map_err(|e| refuse(causes(&e)))?
        }
        Some(_) | None => endpoint,
    };
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true))
}

fn causes(error: &dyn std::error::Error) -> String {
    let chain = std::iter::successors(Some(error), |error| error.source());
    let chain: Vec<_> = chain.map(ToString::to_string).collect();
    chain.join(": ")
}

fn short(field: &'static str, value: &str) -> Result<(), BuildError> {
    match value.len() <= NAME_BYTES_MAX {
        true => Ok(()),
        false => Err(BuildError::Name {
            field,
            value: value.chars().take(40).collect(),
            reason: "at most 200 bytes",
        }),
    }
}

fn program() -> String {
    let path = std::env::current_exe().ok();
    let stem = path.as_deref().and_then(|path| path.file_stem());
    let name = stem.map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
    cut(name, NAME_BYTES_MAX)
}

/// The random part tells apart processes with the same id in different containers.
fn instance() -> String {
    let (id, random) = (std::process::id(), entropy::name());
    format!("{}-{id}-{}", cut(host(), 150), cut(random, 8))
}

fn cut(mut text: String, bytes: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes));
    text
}

#[cfg(unix)]
fn host() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}

#[cfg(not(unix))]
fn host() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "host".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_never_work_fails() {
        let build = |text: &str| Builder::default().endpoints([text]).build();
        assert!(build("http://no-such-host.invalid:1").is_ok());
        for bad in ["", "no scheme", "ftp://x", "http://", "127.0.0.1:7460"] {
            assert!(
                matches!(build(bad), Err(BuildError::Endpoint { .. })),
                "{bad}"
            );
        }
        let long = Builder::default().instance("x".repeat(201)).build();
        assert!(matches!(
            long,
            Err(BuildError::Name {
                field: "instance",
                ..
            })
        ));
        let zero = Builder::default().timeout(Duration::ZERO).build();
        assert!(matches!(zero, Err(BuildError::Timeout(_))));
    }

    #[test]
    fn two_clients_of_one_process_have_names_of_their_own() {
        assert_ne!(instance(), instance());
        assert!(instance().contains(&std::process::id().to_string()));
    }
}
