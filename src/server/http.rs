//! Liveness, readiness, metrics and the questions of clients over HTTP, for whoever has no gRPC.

use std::sync::Arc;

use axum::{
    extract::State,
    http::StatusCode,
    routing::{MethodRouter, get},
};
use tokio::sync::watch;

use super::{Gate, brief::Brief};
use crate::{
    access::{self, Access, Needs, Page, Peer, Role},
    coordinator::Coordinator,
    grpc,
    store::Store,
};

/// Serves `room` connections at once until it is stopped; for ever where there is no listener.
/// Everybody who connects may do everything.
///
/// # Errors
/// The listener fails.
pub async fn serve<S: Store>(
    listener: Option<std::net::TcpListener>,
    room: usize,
    coordinator: Arc<Coordinator<S>>,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    serve_behind(Gate::open(), listener, room, coordinator, stopped).await
}

/// The same for those whom a gate lets in.
///
/// # Errors
/// The listener fails.
pub async fn serve_behind<S: Store>(
    gate: Gate,
    listener: Option<std::net::TcpListener>,
    room: usize,
    coordinator: Arc<Coordinator<S>>,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let routes = access::router(pages(&coordinator, &gate.access), &gate.access)
        .into_make_service_with_connect_info::<Peer>();
    let stop = async move {
        // The sender is only dropped at the end of the process.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    axum::serve(Brief::new(listener, room, gate.tls), routes)
        .with_graceful_shutdown(stop)
        .await?;
    Ok(())
}

/// Every page, with what it needs. The counters are those of all namespaces together.
pub fn pages<S: Store>(coordinator: &Arc<Coordinator<S>>, access: &Arc<Access>) -> Vec<Page> {
    let with = |handler: MethodRouter<_>| handler.with_state(Arc::clone(coordinator));
    let mut pages = vec![
        Page::new("/healthz", Needs::Nothing, get(|| async { "ok\n" })),
        Page::new("/readyz", Needs::Nothing, with(get(ready::<S>))),
        Page::new(
            "/metrics",
            Needs::Everywhere(Role::Viewer),
            with(get(metrics::<S>)),
        ),
    ];
    pages.extend(grpc::json::pages(coordinator, access));
    pages
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
