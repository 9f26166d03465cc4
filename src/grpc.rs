//! The wire: each RPC read, checked, handed to the coordinator, and answered.
//!
//! No rule and no state is here. Bad input is refused with a status that names the field, the
//! value and what is allowed.

mod admission;
mod answer;
mod client;
mod ending;
mod envoy;
pub mod json;
mod operator;
mod oversize;
mod pushed;
mod read;
mod session;
mod shown;
mod span;
mod status;
mod watch;

use std::sync::Arc;

use tokio::sync::watch::Receiver;

use crate::{
    access::Access,
    coordinator::Coordinator,
    proto::{
        coordinator_service_server::CoordinatorServiceServer,
        operator_service_server::OperatorServiceServer,
        ratelimit::envoy::service::ratelimit::v3::rate_limit_service_server::RateLimitServiceServer,
    },
    store::Store,
};

pub use admission::AdmissionLayer;
pub use client::ClientHandler;
pub use ending::Leaving;
pub use envoy::EnvoyHandler;
pub use operator::OperatorHandler;
pub use oversize::named_in;

/// The largest message that is read: a batch of 1,000 questions of usual names fits, one of the
/// longest names does not. Every connection can make the service hold so much per stream.
pub const MESSAGE_MAX: usize = 256 * 1024;
/// The largest message that is sent: what clients read unless they are told otherwise.
pub const ANSWER_MAX: usize = 4 * 1024 * 1024;

/// Serves clients; sessions end when `stopped` says so.
pub fn coordinator_service<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    access: Arc<Access>,
    stopped: Receiver<bool>,
) -> CoordinatorServiceServer<ClientHandler<S>> {
    CoordinatorServiceServer::new(ClientHandler::new(coordinator, access, stopped))
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(ANSWER_MAX)
}

/// Serves Envoy.
pub fn envoy_service<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    access: Arc<Access>,
) -> RateLimitServiceServer<EnvoyHandler<S>> {
    RateLimitServiceServer::new(EnvoyHandler::new(coordinator, access))
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(ANSWER_MAX)
}

/// Serves operators; streams end when `stopped` says so.
pub fn operator_service<S: Store>(
    coordinator: Arc<Coordinator<S>>,
    access: Arc<Access>,
    stopped: Receiver<bool>,
) -> OperatorServiceServer<OperatorHandler<S>> {
    OperatorServiceServer::new(OperatorHandler::new(coordinator, access, stopped))
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(ANSWER_MAX)
}
