//! The way to the operator's side of the service: state, overrides, policies, events.
//!
//! Nothing here goes on without the service: an operator wants to know that it is away.

use std::time::Duration;

use thiserror::Error;
use tonic::transport::{Channel, Error as TransportError};

use crate::builder::{self, BuildError};
pub use crate::proto::operator_service_client::OperatorServiceClient;

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

/// Connects, within a second. `timeout` bounds each request, and must be `None` for a client
/// that watches.
///
/// # Errors
/// The endpoint is malformed or cannot be reached.
pub async fn connect(
    endpoint: &str,
    timeout: Option<Duration>,
) -> Result<OperatorServiceClient<Channel>, ConnectError> {
    let dialled = builder::endpoint(endpoint)?;
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
    Ok(OperatorServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX))
}

fn innermost(error: &TransportError) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
