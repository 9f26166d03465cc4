//! Liveness, readiness and metrics over HTTP, for whoever has no gRPC, and the dashboard.

use std::sync::Arc;

use axum::{
    extract::State,
    http::StatusCode,
    routing::{MethodRouter, get},
};
use tokio::sync::watch;

use super::{Gate, brief::Brief};
use crate::{
    access::{self, Needs, Page, Peer, Role},
    coordinator::Coordinator,
    dashboard::{Dashboard, Place, Scheme},
    entropy::Entropy,
    store::Store,
};

/// Serves `room` connections at once until it is stopped; for ever where there is no listener.
///
/// # Errors
/// The listener fails.
pub async fn serve<S: Store>(
    listener: Option<std::net::TcpListener>,
    room: usize,
    hosts: Vec<String>,
    coordinator: Arc<Coordinator<S>>,
    gate: Gate,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let [front, back] = [Entropy::System.key(), Entropy::System.key()];
    let mut secret = [0; 32];
    secret[..16].copy_from_slice(&front);
    secret[16..].copy_from_slice(&back);
    let place = Place {
        address: listener.local_addr()?.ip(),
        hosts,
        // Pages that stay open leave room for whoever scrapes or probes.
        pages_max: room.min(super::brief::ROOM_MAX) / 2,
        secret,
        scheme: match gate.tls {
            Some(_) => Scheme::Https,
            None => Scheme::Http,
        },
    };
    let dashboard = Dashboard::new(
        Arc::clone(&coordinator),
        Arc::clone(&gate.access),
        place,
        stopped.clone(),
    );
    let mut pages = pages(&coordinator);
    pages.extend(dashboard.pages());
    let routes = dashboard
        .around(access::router(pages, &gate.access))
        .into_make_service_with_connect_info::<Peer>();
    let stop = async move {
        // The sender is only dropped at the end of the process.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let brief = Brief::new(listener, room, gate.tls);
    let served = axum::serve(brief, routes).with_graceful_shutdown(stop);
    tokio::select! {
        served = served => served?,
        () = dashboard.run() => {}
    }
    Ok(())
}

/// Every page, with what it needs. The counters are those of all namespaces together.
pub fn pages<S: Store>(coordinator: &Arc<Coordinator<S>>) -> Vec<Page> {
    let with = |handler: MethodRouter<_>| handler.with_state(Arc::clone(coordinator));
    vec![
        Page::new("/healthz", Needs::Nothing, get(|| async { "ok\n" })),
        Page::new("/readyz", Needs::Nothing, with(get(ready::<S>))),
        Page::new(
            "/metrics",
            Needs::Everywhere(Role::Viewer),
            with(get(metrics::<S>)),
        ),
    ]
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
