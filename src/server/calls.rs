//! The gRPC side of one listener.
//!
//! Each connection is served by itself, so that one can be told to go while the others stay: see
//! `lifetime`. tonic's own limit of age lets all that began together go together, knows none that are
//! idle, and where it has a grace it says no GOAWAY.

use std::{
    convert::Infallible,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::sync::{mpsc, watch};
use tokio_stream::{Stream, StreamExt};
use tonic::{service::Routes, transport::Server};
use tower::util::MapResponseLayer;

use super::{
    Gate,
    connection::{self, Connection},
    lifetime::Life,
    listen,
    timing::Timing,
};
use crate::{
    coordinator::Coordinator,
    grpc,
    proto::{
        DESCRIPTORS, ENVOY_DESCRIPTORS, coordinator_service_server::SERVICE_NAME as COORDINATOR,
        operator_service_server::SERVICE_NAME as OPERATOR,
        ratelimit::envoy::service::ratelimit::v3::rate_limit_service_server::SERVICE_NAME as ENVOY,
    },
    store::Store,
};

/// How a client that keeps a connection open is told from one that is gone.
const KEEPALIVE: Duration = Duration::from_secs(20);
/// So long a stopping service is told to be not serving before watches of its health end.
const HEALTH_TOLD_FOR: Duration = Duration::from_millis(500);
/// Calls in flight on one connection.
const STREAMS_MAX: u32 = 1_024;
/// What the headers of a call may take.
const HEADERS_MAX: u32 = 16 * 1024;

/// Serves one listener on the present runtime until `stopped` says so; everybody who connects
/// may do everything.
///
/// # Errors
/// The listener fails.
pub async fn serve<S: Store>(
    socket: std::net::TcpListener,
    coordinator: Arc<Coordinator<S>>,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    serve_behind(Gate::open(), socket, coordinator, stopped).await
}

/// The same for those whom a gate lets in.
///
/// # Errors
/// The listener fails.
pub async fn serve_behind<S: Store>(
    gate: Gate,
    socket: std::net::TcpListener,
    coordinator: Arc<Coordinator<S>>,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let (health, health_service) = tonic_health::server::health_reporter();
    for service in ["", COORDINATOR, OPERATOR, ENVOY] {
        health
            .set_service_status(service, tonic_health::ServingStatus::Serving)
            .await;
    }
    let telemetry = Arc::clone(coordinator.telemetry());
    let timing = Timing::new(Arc::clone(&telemetry), coordinator.clock().clone());
    let incoming = connection::counted(listen::incoming(socket)?, telemetry, gate.clone());
    let routes = routes(&gate, coordinator, &stopped)?
        .add_service(health_service)
        .prepare();
    let (leave, leaving) = watch::channel(false);
    let served = Served {
        gate,
        routes,
        timing,
        leaving,
    };
    // The sender is only dropped at the end of the process.
    let stop = async move { _ = stopped.wait_for(|stopped| *stopped).await };
    let mut all_ended = serve_until(served, incoming, stop).await;
    for service in ["", COORDINATOR, OPERATOR, ENVOY] {
        health
            .set_service_status(service, tonic_health::ServingStatus::NotServing)
            .await;
    }
    tokio::spawn(end_health_watches(health));
    leave.send_replace(true);
    // Nothing is ever sent.
    let _: Option<Infallible> = all_ended.recv().await;
    Ok(())
}

/// What each connection is given.
#[derive(Clone)]
struct Served {
    gate: Gate,
    routes: Routes,
    timing: Timing,
    /// That the service stops.
    leaving: watch::Receiver<bool>,
}

/// Lets connections in until `stop`; what is returned ends with the last of them. The listener is
/// closed then: who comes too late is refused at once.
async fn serve_until(
    served: Served,
    incoming: impl Stream<Item = io::Result<Connection>>,
    stop: impl Future<Output = ()>,
) -> mpsc::Receiver<Infallible> {
    let (held, all_ended) = mpsc::channel(1);
    let (mut incoming, mut stop) = (pin!(incoming), pin!(stop));
    loop {
        let next = tokio::select! {
            () = &mut stop => return all_ended,
            next = incoming.next() => next,
        };
        match next {
            Some(Ok(connection)) => {
                let connection = Box::new(connection);
                tokio::spawn(served.clone().serve(connection, held.clone()));
            }
            Some(Err(error)) => tracing::debug!("a connection could not be accepted: {error}"),
            None => return all_ended,
        }
    }
}

impl Served {
    /// Serves one connection until it has ended.
    async fn serve(mut self, mut connection: Box<Connection>, _held: mpsc::Sender<Infallible>) {
        let life = Arc::new(Life::default());
        let connections = &self.gate.connections;
        let (idle, age) = (connections.idle(), connections.draw_age());
        if let Some(age) = age {
            connection.cut_after(age + connections.grace());
        }
        let ended = connection.ended();
        let go = {
            let life = Arc::clone(&life);
            // In a box too: what serves the connection moves it through several places.
            Box::pin(async move {
                tokio::select! {
                    _ = self.leaving.wait_for(|leaving| *leaving) => {}
                    () = life.over(idle, age) => {}
                    _ = ended => {}
                }
            })
        };
        let one = One(Some(connection));
        let served = Server::builder()
            .max_concurrent_streams(STREAMS_MAX)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .http2_keepalive_timeout(Some(KEEPALIVE))
            .http2_max_header_list_size(HEADERS_MAX)
            .layer(self.timing.of(life))
            .layer(MapResponseLayer::new(grpc::named_in))
            .layer(grpc::AdmissionLayer::new(self.gate.access))
            .serve_with_incoming_shutdown(self.routes, one, go)
            .await;
        if let Err(error) = served {
            tracing::debug!("a connection ended: {error}");
        }
    }
}

/// One connection, and no other after it. In a box until it is taken: with TLS it is large, and what
/// serves it would keep the room.
struct One(Option<Box<Connection>>);

impl Stream for One {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.take() {
            Some(connection) => Poll::Ready(Some(Ok(*connection))),
            None => Poll::Pending,
        }
    }
}

fn routes<S: Store>(
    gate: &Gate,
    coordinator: Arc<Coordinator<S>>,
    stopped: &watch::Receiver<bool>,
) -> anyhow::Result<Routes> {
    let access = &gate.access;
    Ok(Routes::new(grpc::coordinator_service(
        Arc::clone(&coordinator),
        Arc::clone(access),
        stopped.clone(),
    ))
    .add_service(grpc::envoy_service(
        Arc::clone(&coordinator),
        Arc::clone(access),
    ))
    .add_service(grpc::operator_service(
        coordinator,
        Arc::clone(access),
        stopped.clone(),
    ))
    .add_service(reflection().build_v1()?)
    .add_service(reflection().build_v1alpha()?))
}

fn reflection() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(ENVOY_DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
}

/// A watch of the health ends with what it watches; it is told first.
async fn end_health_watches(mut health: tonic_health::server::HealthReporter) {
    tokio::time::sleep(HEALTH_TOLD_FOR).await;
    for service in ["", COORDINATOR, OPERATOR, ENVOY] {
        health.clear_service_status(service).await;
    }
}
