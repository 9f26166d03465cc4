//! The composition root: data directory, policies, coordinator, listeners, and an orderly end.
//!
//! Each core has a runtime and a listener of its own on the same port (SO_REUSEPORT): for
//! work that takes a microsecond a shared runtime costs more in wake-ups than it gains.

mod about;
mod brief;
mod calls;
mod connection;
mod gate;
pub mod http;
mod lifetime;
mod listen;
mod metrics;
mod systemd;
mod timing;
mod tls;

pub use calls::{serve, serve_behind};
pub use lifetime::Connections;
pub use metrics::Metrics;

use std::{io::Write, net::SocketAddr, path::Path, sync::Arc, thread, time::Duration};

use anyhow::Context as _;
use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
    sync::{oneshot, watch},
};

pub use gate::Gate;

use crate::{
    clock::Clock,
    coordinator::{Coordinator, Parts},
    durable::{Durable, Opened, PermitKey, Start},
    entropy::Entropy,
    policy::{self, DEFAULT_NAMESPACE, Finding, Source},
    settings::{ServeSettings, StoreSettings},
    store::{
        MemoryStore, RedisStore, Store,
        redis::{Address, Decisions, Timing},
    },
    telemetry::{Otlp, Switches},
};

/// Replicas accept each other's permits, so to permits they are one run.
const FLEET_BOOT: u64 = 1;

/// Serves until SIGTERM or SIGINT, and prints where it listens.
///
/// # Errors
/// In plain words: what could not be opened, read or listened on, and what to do.
pub fn run(settings: ServeSettings) -> anyhow::Result<()> {
    run_until(
        settings,
        || StopSignals::heard().map(StopSignals::asked),
        announce,
    )
}

/// Serves until a stop is asked for. `stop_asked` makes the future that says so, on the runtime
/// of the service; `tell` is told where it listens, gRPC and HTTP, once that future is there.
///
/// # Errors
/// As [`run`], and what the two return.
pub fn run_until<Asked: Future<Output = ()>>(
    settings: ServeSettings,
    stop_asked: impl FnOnce() -> std::io::Result<Asked>,
    tell: impl FnOnce(SocketAddr, Option<SocketAddr>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    gate::check(&settings)?;
    let main = Builder::new_current_thread().enable_all().build()?;
    let listeners = listen::many(settings.listen, settings.workers.get())
        .with_context(|| format!("cannot listen on {} (--listen)", settings.listen))?;
    let http = settings
        .http
        .map(listen::one)
        .transpose()
        .with_context(|| {
            format!(
                "cannot listen on {} (--http)",
                settings.http.map_or_else(String::new, |at| at.to_string())
            )
        })?;
    let http_at = http
        .as_ref()
        .map(std::net::TcpListener::local_addr)
        .transpose()?;
    let sources = read_policies(settings.policies.as_deref())?;
    let opened = open_data(settings.data_dir.as_deref())?;
    let listening = Listening {
        main,
        grpc: listeners,
        http: http.zip(http_at),
    };
    match &settings.store {
        StoreSettings::Memory => {
            let parts = Parts {
                store: MemoryStore::after_epoch(opened.state.epochs_before()),
                clock: Clock::system(),
                entropy: Entropy::System,
                opened,
            };
            run_on(&settings, sources, parts, listening, stop_asked, tell)
        }
        StoreSettings::Shared(address, decisions) => {
            let parts = share(address, *decisions, opened, &listening.main)?;
            run_on(&settings, sources, parts, listening, stop_asked, tell)
        }
    }
}

/// What the service listens on, and the runtime of what is not a call.
struct Listening {
    main: Runtime,
    grpc: listen::Listeners,
    http: Option<(std::net::TcpListener, SocketAddr)>,
}

/// The store that replicas share, with the clock and the permit key of all of them.
fn share(
    address: &Address,
    decisions: Decisions,
    mut opened: Opened,
    main: &Runtime,
) -> anyhow::Result<Parts<RedisStore>> {
    let fresh_key = Entropy::System.key();
    let connected = RedisStore::connect(address, Timing::default(), decisions, fresh_key);
    let store = main.block_on(connected).map_err(anyhow::Error::msg)?;
    for warning in main.block_on(store.warnings()) {
        tracing::warn!("{warning}");
    }
    tracing::info!("the fleet's state is in {address}");
    opened.state.permit_key = PermitKey(store.permit_key());
    opened.state.boot = FLEET_BOOT;
    Ok(Parts {
        clock: Clock::Fleet(store.clock()),
        store,
        entropy: Entropy::System,
        opened,
    })
}

fn run_on<S: Store, Asked: Future<Output = ()>>(
    settings: &ServeSettings,
    sources: Vec<Source>,
    parts: Parts<S>,
    listening: Listening,
    stop_asked: impl FnOnce() -> std::io::Result<Asked>,
    tell: impl FnOnce(SocketAddr, Option<SocketAddr>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let Listening {
        main,
        grpc: listeners,
        http,
    } = listening;
    let (http, http_at) = http.unzip();
    let grpc_at = listeners.address;
    let start = main
        .block_on(Coordinator::start(parts, sources.clone()))
        .map_err(|findings| refused(&findings))?;
    for warning in start.warnings {
        tracing::warn!("{warning}");
    }
    let mut coordinator = start.coordinator;
    if let Some(record) = settings.record.clone() {
        let folder = record.folder.display().to_string();
        let begun = coordinator.record_to(record);
        begun.with_context(|| format!("cannot record to {folder} (--record)"))?;
    }
    let coordinator = Arc::new(coordinator);
    coordinator.follow_store();
    coordinator.introduce_replica(about::of(settings, grpc_at, http_at));
    let (gate, _files) = Gate::start(settings, &coordinator)?;
    let metrics = Arc::new(Metrics::new(
        Arc::clone(&coordinator),
        settings.metrics_dependencies,
        gate.connections.most,
    ));
    begin_export(&metrics)?;
    let (stop, stopped) = watch::channel(false);
    let _watch = watch_policies(settings, sources, &coordinator, &main)?;
    let pulse = systemd::Pulse::asked(listeners.sockets.len());
    let workers = spawn_workers(listeners.sockets, &coordinator, &gate, &stopped, &pulse)?;
    // Who reads where it listens may ask it to stop at once.
    let asked = main.block_on(async { stop_asked() })?;
    tell(grpc_at, http_at)?;
    systemd::ready(grpc_at, http_at);
    if let Some(pulse) = pulse {
        main.spawn(systemd::alive(pulse));
    }
    let room = lifetime::descriptors_max() / 5;
    let hosts = settings.http_hosts.clone();
    let serve_http = http::serve_behind(gate, http, room, hosts, metrics, stopped);
    main.block_on(async {
        let mut serve_http = std::pin::pin!(serve_http);
        until_stopped(&coordinator, serve_http.as_mut(), asked).await?;
        systemd::stopping();
        // Every receiver may be gone already.
        let _ = stop.send(true);
        drain(settings.drain, serve_http, workers).await;
        anyhow::Ok(())
    })?;
    coordinator.end_recording();
    main.block_on(coordinator.tell_last());
    main.block_on(coordinator.durable().close(coordinator.wall_now()))?;
    coordinator.telemetry().end();
    Ok(())
}

fn read_policies(path: Option<&Path>) -> anyhow::Result<Vec<Source>> {
    match path {
        None => Ok(Vec::new()),
        Some(path) => policy::files::read(path).map_err(|findings| refused(&findings)),
    }
}

fn refused(findings: &[Finding]) -> anyhow::Error {
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    anyhow::anyhow!("the policies are refused:\n{}", lines.join("\n"))
}

fn open_data(path: Option<&Path>) -> anyhow::Result<Opened> {
    let start = Start {
        wall_now: Clock::system().wall(),
        fresh_permit_key: PermitKey(Entropy::System.key()),
    };
    match path {
        Some(path) => Ok(Durable::open(path, start)?),
        None => Ok(Durable::in_memory(start)),
    }
}

/// Whether metrics go to a collector; also where a variable cannot be used, which the start tells.
pub fn sends_metrics() -> bool {
    match Switches::read(|name| std::env::var(name).ok()) {
        Ok(switches) => switches.is_some_and(|it| it.sends_metrics()),
        Err(_) => true,
    }
}

/// To a collector, where the environment names one.
fn begin_export<S: Store>(metrics: &Arc<Metrics<S>>) -> anyhow::Result<()> {
    let Some(switches) = Switches::read(|name| std::env::var(name).ok())? else {
        return Ok(());
    };
    let telemetry = Arc::clone(metrics.telemetry());
    // Weak: what is exported does not keep alive what is told of.
    let gather = Arc::downgrade(metrics);
    let gather = move || {
        gather
            .upgrade()
            .map_or_else(Vec::new, |it| it.for_collector())
    };
    telemetry.attach(Otlp::start(switches, &telemetry, gather)?);
    Ok(())
}

fn watch_policies<S: Store>(
    settings: &ServeSettings,
    sources: Vec<Source>,
    coordinator: &Arc<Coordinator<S>>,
    main: &Runtime,
) -> anyhow::Result<Option<policy::watch::Watch>> {
    let Some(path) = &settings.policies else {
        return Ok(None);
    };
    let (coordinator, main) = (Arc::clone(coordinator), main.handle().clone());
    let watch = policy::watch::watch(path, Ok(sources), move |reading| {
        main.block_on(coordinator.reload(reading));
    })?;
    Ok(Some(watch))
}

/// Tells where it listens, so that whoever asked for port 0 can find it.
fn announce(grpc: SocketAddr, http: Option<SocketAddr>) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "holdoff: gRPC on {grpc}")?;
    if let Some(http) = http {
        writeln!(out, "holdoff: HTTP on {http}")?;
    }
    out.flush()?;
    Ok(())
}

fn spawn_workers<S: Store>(
    sockets: Vec<std::net::TcpListener>,
    coordinator: &Arc<Coordinator<S>>,
    gate: &Gate,
    stopped: &watch::Receiver<bool>,
    pulse: &Option<Arc<systemd::Pulse>>,
) -> anyhow::Result<Vec<thread::JoinHandle<()>>> {
    sockets
        .into_iter()
        .enumerate()
        .map(|(index, socket)| {
            let (coordinator, stopped) = (Arc::clone(coordinator), stopped.clone());
            let gate = gate.clone();
            let runtime = Builder::new_current_thread().enable_all().build()?;
            if let Some(pulse) = pulse {
                runtime.spawn(Arc::clone(pulse).beat(index));
            }
            let serve = move || {
                if let Err(error) =
                    runtime.block_on(serve_behind(gate, socket, coordinator, stopped))
                {
                    tracing::error!("a worker ended: {error}");
                }
            };
            Ok(thread::Builder::new()
                .name(format!("worker-{index}"))
                .spawn(serve)?)
        })
        .collect()
}

/// From here on these signals stop the service in order.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn heard() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn asked(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn until_stopped<S: Store>(
    coordinator: &Arc<Coordinator<S>>,
    serve_http: impl Future<Output = anyhow::Result<()>>,
    asked: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    tokio::select! {
        () = coordinator.publish_events() => {}
        () = coordinator.follow_replicas() => {}
        () = coordinator.end_overrides() => {}
        () = coordinator.drop_idle() => {}
        () = coordinator.tell_standing() => {}
        () = look_through_audit(coordinator) => {}
        served = serve_http => {
            served?;
            anyhow::bail!("the HTTP port is served no longer");
        }
        () = asked => {}
    }
    tracing::info!("stopping");
    Ok(())
}

/// Once, beside the service: a record of operators' actions that was changed on disk is told by
/// whoever finds it first, which should be this.
async fn look_through_audit<S: Store>(coordinator: &Coordinator<S>) {
    match coordinator
        .durable()
        .audit_verify(DEFAULT_NAMESPACE)
        .await
        .map(|it| it.broken)
    {
        Ok(None) => {}
        Ok(Some(broken)) => tracing::error!("the audit log is not whole: {broken}"),
        Err(error) => tracing::warn!("the audit log cannot be looked through: {error}"),
    }
    std::future::pending().await
}

/// Waits for the requests of both ports, but not longer than `limit`: streams may never end by
/// themselves.
async fn drain(
    limit: Duration,
    serve_http: impl Future<Output = anyhow::Result<()>>,
    workers: Vec<thread::JoinHandle<()>>,
) {
    let (done, all_done) = oneshot::channel();
    thread::spawn(move || {
        for worker in workers {
            // A worker that panicked has said so already.
            let _ = worker.join();
        }
        let _ = done.send(());
    });
    let ended = async { tokio::join!(serve_http, all_done) };
    if tokio::time::timeout(limit, ended).await.is_err() {
        tracing::warn!("requests were still running after {limit:?}; they are cut off");
    }
}
