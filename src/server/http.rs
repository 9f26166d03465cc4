//! Liveness, readiness, metrics and the questions of clients over HTTP, for whoever has no gRPC.

use std::sync::Arc;

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::sync::watch;

use super::brief::Brief;
use crate::{coordinator::Coordinator, grpc, store::Store};

/// Serves `room` connections at once until it is stopped; for ever where there is no listener.
///
/// # Errors
/// The listener fails.
pub async fn serve<S: Store>(
    listener: Option<std::net::TcpListener>,
    room: usize,
    coordinator: Arc<Coordinator<S>>,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let routes = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready::<S>))
        .route("/metrics", get(metrics::<S>))
        .with_state(Arc::clone(&coordinator))
        .merge(grpc::json::routes(coordinator));
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

async fn metrics<S: Store>(State(coordinator): State<Arc<Coordinator<S>>>) -> String {
    let gauges = [
        (
            "holdoff_dependencies",
            "Dependencies in memory.",
            coordinator.dependencies() as u64,
        ),
        (
            "holdoff_durability_degraded",
            "1 while the data directory cannot be written.",
            u64::from(coordinator.durability_degraded()),
        ),
    ];
    coordinator.telemetry().exposition(&gauges)
}
