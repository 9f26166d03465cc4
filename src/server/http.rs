//! Liveness, readiness, metrics and the questions of clients over HTTP, for whoever has no gRPC;
//! and the dashboard.

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, State},
    http::{Request, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
    serve::Listener,
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::sync::{mpsc, watch};
use tower::ServiceExt;

use super::{
    Gate,
    brief::{Brief, BriefConnection},
    metrics::Metrics,
};
use crate::{
    access::{self, Access, Needs, Page, Role},
    coordinator::Coordinator,
    dashboard::{Dashboard, Place, Scheme},
    entropy::Entropy,
    grpc,
    store::Store,
    telemetry::CONTENT_TYPE,
};

/// What a request's line and headers may take, and what waits to be read or written on one connection.
/// Of whoever connects, so it is little: hyper's own limit is 400 KiB.
const HEADERS_MAX: usize = 16 * 1024;

/// Serves `room` connections at once until it is stopped, and keeps histories of dependencies;
/// those alone where there is no listener.
/// Everybody who connects may do everything.
///
/// # Errors
/// The listener fails.
pub async fn serve<S: Store>(
    listener: Option<std::net::TcpListener>,
    room: usize,
    metrics: Arc<Metrics<S>>,
    stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    serve_behind(Gate::open(), listener, room, Vec::new(), metrics, stopped).await
}

/// The same for those whom a gate lets in.
///
/// # Errors
/// The listener fails.
pub async fn serve_behind<S: Store>(
    gate: Gate,
    listener: Option<std::net::TcpListener>,
    room: usize,
    hosts: Vec<String>,
    metrics: Arc<Metrics<S>>,
    mut stopped: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let coordinator = Arc::clone(metrics.coordinator());
    let histories = coordinator.histories().keep(&coordinator);
    let Some(listener) = listener else {
        tokio::select! {
            () = histories => {}
            // The sender is only dropped at the end of the process.
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
        return Ok(());
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
        scheme: match &gate.tls {
            Some(_) => Scheme::Https,
            None => Scheme::Http,
        },
    };
    let dashboard = Dashboard::new(
        Arc::clone(metrics.coordinator()),
        Arc::clone(&gate.access),
        place,
        stopped.clone(),
    );
    let mut pages = pages(&metrics, &gate.access);
    pages.extend(dashboard.pages());
    let routes = dashboard.around(access::router(pages, &gate.access));
    let brief = Brief::new(listener, room, gate);
    tokio::select! {
        () = serve_until(brief, routes, stopped) => {}
        () = histories => {}
    }
    Ok(())
}

/// Lets connections in until `stopped`, and returns with the end of the last of them.
async fn serve_until(mut brief: Brief, routes: Router, mut stopped: watch::Receiver<bool>) {
    let (held, mut all_ended) = mpsc::channel::<Infallible>(1);
    let told = stopped.clone();
    let accepting = async {
        loop {
            let (connection, _) = brief.accept().await;
            let served = serve_one(connection, routes.clone(), told.clone(), held.clone());
            tokio::spawn(served);
        }
    };
    tokio::select! {
        // The sender is only dropped at the end of the process.
        _ = stopped.wait_for(|stopped| *stopped) => {}
        () = accepting => {}
    }
    drop((brief, held));
    // Nothing is ever sent.
    let _: Option<Infallible> = all_ended.recv().await;
}

/// Serves one connection. Once the service stops, it ends with the request that it is at.
async fn serve_one(
    connection: BriefConnection,
    routes: Router,
    mut stopped: watch::Receiver<bool>,
    _held: mpsc::Sender<Infallible>,
) {
    let peer = connection.peer().clone();
    let answer = service_fn(|request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(ConnectInfo(peer.clone()));
        routes.clone().oneshot(request)
    });
    let mut served = std::pin::pin!(
        http1::Builder::new()
            .max_buf_size(HEADERS_MAX)
            .serve_connection(TokioIo::new(connection), answer)
    );
    // The sender is only dropped at the end of the process.
    let stop = async move { _ = stopped.wait_for(|stopped| *stopped).await };
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stop => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection over HTTP ended: {error}");
    }
}

/// Every page, with what it needs. Metrics are those of all namespaces together.
pub fn pages<S: Store>(metrics: &Arc<Metrics<S>>, access: &Arc<Access>) -> Vec<Page> {
    let coordinator = metrics.coordinator();
    let ready = get(ready::<S>).with_state(Arc::clone(coordinator));
    let exposition = get(exposition::<S>).with_state(Arc::clone(metrics));
    let mut pages = vec![
        Page::new("/healthz", Needs::Nothing, get(|| async { "ok\n" })),
        Page::new("/readyz", Needs::Nothing, ready),
        Page::new("/metrics", Needs::Everywhere(Role::Viewer), exposition),
    ];
    pages.extend(grpc::json::pages(coordinator, access));
    pages
}

/// Neither a disk in trouble nor a store that is away stops decisions, so neither takes the service
/// out.
async fn ready<S: Store>(State(coordinator): State<Arc<Coordinator<S>>>) -> (StatusCode, String) {
    let durability = match coordinator.durability_degraded() {
        true => "degraded: the data directory cannot be written; operators' changes are refused",
        false => "ok",
    };
    let store = match coordinator.store_standing() {
        None => String::new(),
        Some(standing) if standing.is_away => format!(
            "store: degraded: it does not answer or takes no writes; this replica, one of {}, \
             decides alone\n",
            standing.replicas
        ),
        Some(standing) => match &coordinator.store_troubles()[..] {
            [] => format!("store: ok, {} replicas\n", standing.replicas),
            troubles => format!("store: degraded: {}\n", troubles.join("; ")),
        },
    };
    (
        StatusCode::OK,
        format!("ready\ndurability: {durability}\n{store}"),
    )
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
        time::Instant,
    };

    use super::*;

    /// How long a connection stands that says this, reads so much and is then silent.
    async fn stands(said: &[u8], read: usize) -> Duration {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let brief = Brief::new(listener, 3, Gate::open());
        let routes = Router::new().route("/", get(|| async { "ok" }));
        let (_stop, stopped) = watch::channel(false);
        tokio::spawn(serve_until(brief, routes, stopped));
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.write_all(said).await.unwrap();
        peer.read_exact(&mut vec![0; read]).await.unwrap();
        tokio::time::pause();
        let silent = Instant::now();
        // Closed or reset; the rest of an answer may come before.
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(60), peer.read_to_end(&mut rest));
        let _ = closed.await.expect("it is closed");
        let stood = silent.elapsed();
        tokio::time::resume();
        stood
    }

    #[tokio::test]
    async fn a_connection_that_moves_no_byte_is_closed_in_whatever_state_it_is() {
        let get = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
        let answer = "HTTP/1.1 200 OK\r\n".len();
        for (said, read) in [(&b""[..], 0), (get, answer), (&get[..20], 0)] {
            let stood = stands(said, read).await;
            assert!(stood <= Duration::from_secs(8), "{said:?}: {stood:?}");
        }
    }

    #[tokio::test]
    async fn a_request_that_has_begun_is_answered_while_the_service_stops() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let brief = Brief::new(listener, 3, Gate::open());
        let routes = Router::new().route("/", axum::routing::post(|body: String| async { body }));
        let (stop, stopped) = watch::channel(false);
        let serving = tokio::spawn(serve_until(brief, routes, stopped));
        let mut peer = TcpStream::connect(address).await.unwrap();
        let head =
            b"POST / HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";
        peer.write_all(head).await.unwrap();
        // The service is at it.
        peer.read_exact(&mut [0; 25]).await.unwrap();
        stop.send(true).unwrap();
        peer.write_all(b"done").await.unwrap();
        let mut answer = String::new();
        peer.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("done"), "{answer}");
        serving.await.unwrap();
    }
}
