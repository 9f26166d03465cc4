//! Liveness, readiness, metrics and the questions of clients over HTTP, for whoever has no gRPC.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::sync::watch;

use super::{brief::Brief, metrics::Metrics};
use crate::{coordinator::Coordinator, grpc, store::Store, telemetry::CONTENT_TYPE};

/// Serves `room` connections at once until it is stopped; for ever where there is no listener.
///
/// # Errors
/// The listener fails.
pub async fn serve<S: Store>(
    listener: Option<std::net::TcpListener>,
    room: usize,
    metrics: Arc<Metrics<S>>,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let coordinator = Arc::clone(metrics.coordinator());
    let routes = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready::<S>))
        .with_state(Arc::clone(&coordinator))
        .merge(grpc::json::routes(coordinator))
        .merge(
            Router::new()
                .route("/metrics", get(exposition::<S>))
                .with_state(metrics),
        );
    let stop = async move {
        // The sender is only dropped at the end of the process.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    axum::serve(Brief::new(listener, room), routes)
        .with_graceful_shutdown(stop)
        .await?;
    Ok(())
}

/// A disk in trouble does not stop decisions, so it does not take the service out.
async fn ready<S: Store>(State(coordinator): State<Arc<Coordinator<S>>>) -> (StatusCode, String) {
    let durability = match coordinator.durability_degraded() {
        true => "degraded: the data directory cannot be written; operators' changes are refused",
        false => "ok",
    };
    (StatusCode::OK, format!("ready\ndurability: {durability}\n"))
}

/// Read on a thread of its own, one reader after the other: it walks over all dependencies.
async fn exposition<S: Store>(State(metrics): State<Arc<Metrics<S>>>) -> Response {
    let turn = metrics.turn().await;
    let read = tokio::task::spawn_blocking(move || {
        let text = metrics.exposition();
        drop(turn);
        text
    });
    match read.await {
        Ok(text) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
