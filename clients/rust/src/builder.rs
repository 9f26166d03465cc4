//! How a client is made. Only malformed settings fail here; a service that cannot be reached
//! is the everyday case, and is met when the first question is asked.
//!
//! The forms and names allowed are the same for all clients (`docs/client-states.md`,
//! Settings).

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
    endpoint::{self, Address},
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
    endpoints: Option<Vec<String>>,
    service: Option<String>,
    instance: Option<String>,
    namespace: String,
    timeout: Option<Duration>,
    policy: Option<Policy>,
    follow: Vec<String>,
    on_no_decision: OnNoDecision,
    dial: Option<Dial>,
    tls: Tls,
    bearer: Option<Bearer>,
}

/// What is read of the environment when a client is built.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) server: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) bypass: Option<String>,
}

/// A setting that can never work.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// It is no address of a service.
    #[error("{setting} `{endpoint}`: {reason}")]
    Endpoint {
        /// `endpoint`, or `HOLDOFF_SERVER`.
        setting: &'static str,
        /// Its beginning, without a user.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// There is nowhere to connect to.
    #[error("endpoints: at least one is needed")]
    NoEndpoint,
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
    /// Where the service is, in order of preference: `http://host:port`, `https://host:port` or
    /// `host:port`. A later one is used while those before it cannot be reached. What
    /// `HOLDOFF_SERVER` says unless said, or `http://127.0.0.1:7460`.
    #[must_use]
    pub fn endpoints<I>(mut self, endpoints: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.endpoints = Some(endpoints.into_iter().map(Into::into).collect());
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

    /// The tenant: 1 to 200 ASCII letters, digits and `. _ / : @ -`; `default` unless said.
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
    /// way can read it. What `HOLDOFF_TOKEN` says unless said.
    #[must_use]
    pub fn token(self, token: impl Into<String>) -> Self {
        let token = token.into();
        self.token_from(move || token.clone())
    }

    /// As [`Builder::token`], with a token that changes: read anew for each stream and each
    /// request, so that it must be quick.
    #[must_use]
    pub fn token_from(mut self, source: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.bearer = Some(Bearer::new(source));
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
        self.build_in(Environment::read())
    }

    pub(crate) fn build_in(self, environment: Environment) -> Result<Client, BuildError> {
        let timeout = self.timeout.unwrap_or(DEFAULT_TIMEOUT);
        if timeout.is_zero() || timeout > Duration::from_secs(10) {
            return Err(BuildError::Timeout(timeout));
        }
        let hello = self.hello()?;
        if let Some(odd) = self.follow.iter().find(|name| !question::is_name(name)) {
            return Err(BuildError::Name {
                field: "follow",
                value: odd.chars().take(40).collect(),
                reason: question::NAMES,
            });
        }
        let token = |token: String| Bearer::new(move || token.clone());
        let dialer = Dialer {
            endpoints: self.dialled(environment.server.as_deref())?,
            dial: self.dial,
            bearer: (self.bearer)
                .or(environment.token.map(token))
                .unwrap_or_default(),
        };
        let counting = Arc::<Counting>::default();
        let clock = Clock::new();
        let policy = self.policy.unwrap_or_else(local::policy);
        let pushed = Pushed::new(clock.clone(), policy.clone(), self.follow);
        let mode = match environment.bypass.as_deref() {
            Some("1") => Mode::Bypass,
            Some(_) | None => Mode::Fleet(Link::new(dialer, hello, pushed, Arc::clone(&counting))),
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
        if !self.namespace.is_empty() && !question::is_name(&self.namespace) {
            return Err(BuildError::Name {
                field: "namespace",
                value: self.namespace.chars().take(40).collect(),
                reason: question::NAMES,
            });
        }
        Ok(proto::Hello {
            caller: Some(proto::Caller { service, instance }),
            namespace: self.namespace.clone(),
            subscribe: Vec::new(),
        })
    }

    fn dialled(&self, server: Option<&str>) -> Result<Vec<Endpoint>, BuildError> {
        let Some(endpoints) = &self.endpoints else {
            let only = match server {
                Some(server) => dialled("HOLDOFF_SERVER", server, &self.tls)?,
                None => endpoint(DEFAULT_ENDPOINT, &self.tls)?,
            };
            return Ok(vec![only]);
        };
        if endpoints.is_empty() {
            return Err(BuildError::NoEndpoint);
        }
        let each = endpoints.iter();
        each.map(|text| endpoint(text, &self.tls)).collect()
    }
}

impl Environment {
    /// What is empty is not set.
    fn read() -> Self {
        let read = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        Self {
            server: read("HOLDOFF_SERVER"),
            token: read("HOLDOFF_TOKEN"),
            bypass: read("HOLDOFF_BYPASS"),
        }
    }
}

/// An endpoint as the client, and an operator's tool, reach the service.
pub(crate) fn endpoint(text: &str, tls: &Tls) -> Result<Endpoint, BuildError> {
    dialled("endpoint", text, tls)
}

fn dialled(setting: &'static str, text: &str, tls: &Tls) -> Result<Endpoint, BuildError> {
    let refuse = |reason: String| BuildError::Endpoint {
        setting,
        endpoint: endpoint::shown(text),
        reason,
    };
    let address = Address::read(text).ok_or_else(|| refuse(endpoint::FORMS.into()))?;
    let endpoint = Endpoint::from_shared(address.url()).map_err(|e| refuse(e.to_string()))?;
    let endpoint = match address.is_encrypted {
        // Certificates that cannot be read are found here, and not at the first question.
        true => {
            let encrypted = endpoint.tls_config(tls.config());
            encrypted.map_err(|e| refuse(causes(&e)))?
        }
        false => endpoint,
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
        assert!(build("127.0.0.1:7460").is_ok());
        let told = |built: Result<Client, BuildError>| built.unwrap_err().to_string();
        assert_eq!(
            told(build("ftp://x")),
            "endpoint `ftp://x`: it must be http://host:port, https://host:port or host:port, \
             with a port of 1 to 65535"
        );
        let none = Builder::default().endpoints(<[&str; 0]>::default()).build();
        assert_eq!(told(none), "endpoints: at least one is needed");
        let spaced = Builder::default().namespace("a b").build();
        assert_eq!(
            told(spaced),
            "namespace `a b`: 1 to 200 ASCII letters, digits and . _ / : @ -"
        );
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
    fn the_environment_says_where_the_service_is_unless_an_option_does() {
        let server = |text: &str| Environment {
            server: Some(text.into()),
            ..Environment::default()
        };
        assert!(Builder::default().build_in(server("h:1")).is_ok());
        let odd = Builder::default().build_in(server("log")).unwrap_err();
        assert!(
            odd.to_string().starts_with("HOLDOFF_SERVER `log`: "),
            "{odd}"
        );
        let said = Builder::default().endpoints(["h:1"]);
        assert!(said.build_in(server("log")).is_ok());
        let where_to = |builder: Builder, server| {
            let dialled = builder.dialled(server).unwrap();
            dialled[0].uri().to_string()
        };
        assert_eq!(where_to(Builder::default(), None), "http://127.0.0.1:7460/");
        assert_eq!(where_to(Builder::default(), Some("h:1")), "http://h:1/");
        let said = Builder::default().endpoints(["https://I"]);
        assert_eq!(where_to(said, Some("h:1")), "https://i:7460/");
    }

    #[test]
    fn two_clients_of_one_process_have_names_of_their_own() {
        assert_ne!(instance(), instance());
        assert!(instance().contains(&std::process::id().to_string()));
    }
}
