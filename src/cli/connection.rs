//! The way to a service: one channel, a bound on connecting and on each answer, and one
//! place where gRPC's errors become exit codes. No retries: a person sees the error and
//! decides, and a program has a client library.

use std::{future::Future, time::Duration};

use holdoff_client::{
    operator,
    proto::{
        coordinator_service_client::CoordinatorServiceClient,
        operator_service_client::OperatorServiceClient,
    },
};
use tokio::time::timeout;
use tonic::{Request, Response, Status, transport::Endpoint};

use super::{exit::Failure, secret};

pub use credentials::{CredentialArgs, Route, Server};

mod credentials;

/// How long a connection may take to be there.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long an answer may take.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// Pages of a thousand dependencies are larger than the usual limit of 4 MiB.
const MAX_MESSAGE: usize = 32 * 1024 * 1024;

/// A connection to a service.
#[derive(Clone, Debug)]
pub struct Connection {
    server: String,
    channel: Route,
}

impl Connection {
    /// # Errors
    /// [`Failure::Usage`] for what is no URL, [`Failure::Unreachable`] where nobody answers.
    pub async fn open(server: &Server) -> Result<Self, Failure> {
        let channel = connect(server).await?;
        Ok(Self {
            server: server.to_string(),
            channel,
        })
    }

    pub fn coordinator(&self) -> CoordinatorServiceClient<Route> {
        CoordinatorServiceClient::new(self.channel.clone())
    }

    pub fn operator(&self) -> OperatorServiceClient<Route> {
        OperatorServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_MESSAGE)
    }

    /// Waits for an answer, at most [`DEADLINE`].
    ///
    /// # Errors
    /// As [`Failure::from_status`] says.
    pub async fn answer<T>(
        &self,
        asked: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failure> {
        match timeout(DEADLINE, asked).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.failure(&status)),
            Err(_) => Err(Failure::Unreachable {
                server: self.server.clone(),
                cause: format!("no answer within {} s", DEADLINE.as_secs()),
            }),
        }
    }

    pub fn failure(&self, status: &Status) -> Failure {
        Failure::from_status(&self.server, status)
    }
}

/// A channel that is connected.
///
/// # Errors
/// As [`Connection::open`].
pub async fn connect(server: &Server) -> Result<Route, Failure> {
    let connected = server.endpoint()?.connect().await;
    let channel = connected.map_err(|error| Failure::Unreachable {
        server: server.to_string(),
        cause: hinted(root_cause(&error)),
    })?;
    Ok(server.route(channel))
}

/// What TLS says of the usual mistakes names neither the flag nor the URL that mends them.
fn hinted(cause: String) -> String {
    let hint = if cause.contains("InvalidContentType") {
        "it speaks no TLS; without TLS its URL begins with http://"
    } else if cause.contains("UnknownIssuer") {
        "--ca FILE names the authority of its certificate"
    } else {
        return cause;
    };
    format!("{cause}; {hint}")
}

/// A request that tells the service, too, how long we wait.
pub fn bounded<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(DEADLINE);
    request
}

/// The URL of a server, as every client reads it.
///
/// # Errors
/// [`Failure::Usage`] for what is none of the forms.
fn url(server: &str) -> Result<String, Failure> {
    operator::url(server).ok_or_else(|| {
        let forms = operator::ENDPOINT_FORMS;
        Failure::Usage(format!("--server {:?}: {forms}", secret::shown(server)))
    })
}

/// # Errors
/// [`Failure::Usage`] for what is none of the forms.
fn endpoint(server: &str) -> Result<Endpoint, Failure> {
    let endpoint = Endpoint::from_shared(url(server)?).map_err(|error| {
        Failure::Usage(format!("--server {:?}: {error}", secret::shown(server)))
    })?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .user_agent(concat!("holdoff-cli/", env!("CARGO_PKG_VERSION")))
        .unwrap_or_else(|_| Endpoint::from_static("http://127.0.0.1:7460")))
}

/// The innermost cause: "transport error" alone helps nobody.
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_written_as_for_every_client() {
        let uri = |server| endpoint(server).map(|endpoint| endpoint.uri().to_string());
        assert_eq!(uri("localhost:7460").unwrap(), "http://localhost:7460/");
        assert_eq!(uri("http://[::1]:1").unwrap(), "http://[::1]:1/");
        assert_eq!(uri("HTTPS://H:1/").unwrap(), "https://h:1/");
        assert_eq!(uri("http://h").unwrap(), "http://h:7460/");
        let wrong = [
            "h",
            "",
            "http:// h:1",
            "tcp://h:1",
            "h:0",
            "http://h:1/path",
        ];
        for wrong in wrong {
            let failure = uri(wrong).unwrap_err();
            assert_eq!(failure.code(), 2, "{wrong}");
            let told = format!("--server {wrong:?}: it must be http://host:port");
            assert!(failure.to_string().starts_with(&told), "{failure}");
        }
    }

    #[test]
    fn a_mistake_about_tls_is_told_with_what_mends_it() {
        let told = |cause: &str| hinted(cause.to_owned());
        assert!(told("received corrupt message of type InvalidContentType").contains("http://"));
        assert!(told("invalid peer certificate: UnknownIssuer").ends_with("its certificate"));
        assert_eq!(told("Connection refused"), "Connection refused");
    }

    #[tokio::test]
    async fn a_closed_port_is_unreachable_and_says_so() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let failure = Connection::open(&Server::at(&server)).await.unwrap_err();
        assert_eq!(failure.code(), 3);
        assert!(failure.to_string().contains("refused"), "{failure}");
    }
}
