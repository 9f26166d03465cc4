//! The way to the operator's side of the service: state, overrides, policies, events.
//!
//! Nothing here goes on without the service: an operator wants to know that it is away.

use std::time::Duration;

use thiserror::Error;
use tonic::transport::Error as TransportError;

pub use crate::proto::operator_service_client::OperatorServiceClient;
use crate::{
    builder::{self, BuildError},
    credentials::{Bearer, Route, Tls},
};

/// Answers of many dependencies are larger than those of clients.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Why the service was not reached.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// It can never be reached.
    #[error(transparent)]
    Malformed(#[from] BuildError),
    /// It cannot be reached now.
    #[error("{endpoint} is not reachable: {cause}")]
    Unreachable {
        /// As it was given.
        endpoint: String,
        /// The whole chain of causes.
        #[source]
        source: TransportError,
        /// The innermost cause, which says the most.
        cause: String,
    },
}

/// The forms of an endpoint, for a message about one that is in none of them.
pub const ENDPOINT_FORMS: &str = crate::endpoint::FORMS;

/// The URL of an endpoint that is written in one of the forms that every client takes; `None`:
/// it is in none of them.
pub fn url(endpoint: &str) -> Option<String> {
    crate::endpoint::Address::read(endpoint).map(|address| address.url())
}

/// Connects, within a second. `timeout` bounds each request, and must be `None` for a client
/// that watches.
///
/// # Errors
/// The endpoint is malformed or cannot be reached.
pub async fn connect(
    endpoint: &str,
    timeout: Option<Duration>,
) -> Result<OperatorServiceClient<Route>, ConnectError> {
    connect_as(endpoint, timeout, &Access::default()).await
}

/// Who an operator is.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// For `https://` endpoints.
    pub tls: Tls,
    /// Sent as `authorization: Bearer …` with each request.
    pub token: Option<String>,
}

/// As [`connect`], to a service that wants to know who asks.
///
/// # Errors
/// The endpoint or a certificate is malformed, or the service cannot be reached.
pub async fn connect_as(
    endpoint: &str,
    timeout: Option<Duration>,
    access: &Access,
) -> Result<OperatorServiceClient<Route>, ConnectError> {
    let dialled = builder::endpoint(endpoint, &access.tls)?;
    let dialled = match timeout {
        Some(timeout) => dialled.timeout(timeout),
        None => dialled,
    };
    let channel = dialled
        .connect()
        .await
        .map_err(|source| ConnectError::Unreachable {
            endpoint: endpoint.to_owned(),
            cause: innermost(&source),
            source,
        })?;
    let bearer = match access.token.clone() {
        Some(token) => Bearer::new(move || token.clone()),
        None => Bearer::default(),
    };
    let route = Route::new(channel, bearer);
    Ok(OperatorServiceClient::new(route).max_decoding_message_size(MESSAGE_BYTES_MAX))
}

fn innermost(error: &TransportError) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
