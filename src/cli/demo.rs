//! `holdoff demo`: the service, a flaky dependency and the fleet that calls it, in one process, and
//! one screen that says what happens. What is shown is what happens: the service is the real one
//! over real sockets, the clients are real clients, and the only script is the dependency's.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    sync::Arc,
    time::Duration,
};

use clap::Args;
use holdoff_client::proto::{
    Dependency as Seen, GetDependencyRequest, PutPolicyRequest, WatchEventsRequest,
    WatchEventsResponse,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};
use tonic::Streaming;

use self::{
    fleet::{DEPENDENCY, World},
    hosted::Hosted,
    screen::Shown,
    stage::Stage,
    story::Story,
};
use super::{
    Context,
    connection::{Connection, Server},
    exit::{Exit, Failure},
    serve::{Http, address, address_or_off},
    span,
};
use crate::settings::{Limits, ServeSettings};

mod counts;
mod course;
mod dependency;
mod fleet;
mod hosted;
mod screen;
mod stage;
mod story;
#[cfg(test)]
mod tests;
mod unary;

const EXAMPLES: &str = "\
Examples:
  holdoff demo
  holdoff demo --http 127.0.0.1:7461 --clients 100
  holdoff demo --once --output json

The dependency is well, gets slow, goes down, comes back, throttles, and so on: a lap takes 45 s. \
Nothing is written to disk, and --server and --namespace are not used.

Exit codes: 0 ended as asked; 1 could not run, or --once and something was not to be seen; 2 wrong use.";

/// What holds for the demo's dependency: short periods, so that a minute is enough.
const POLICY: &str = "\
retry: {max_attempts: 4, initial_delay: 100ms, max_delay: 2s}
pushback: {scope: dependency, spread: 2s}
breaker: {open_for: 3s, open_max: 6s, healthy_reset: 10s, spread: 500ms, probe_lease: 2s}
";

const REDRAW: Duration = Duration::from_millis(250);
/// The service is asked for its state every so many redraws: once a second.
const LOOK_EVERY: u32 = 4;
/// Places are remembered for so long.
const PLACES_KEPT: Duration = Duration::from_secs(20);

/// Shows a fleet and a flaky dependency on this machine, for a look around.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Where gRPC listens, on loopback; port 0 picks a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0", value_parser = address)]
    listen: SocketAddr,
    /// Where the dashboard is served, on loopback; `off`: nowhere
    #[arg(long, value_name = "HOST:PORT|off", default_value = "127.0.0.1:0", value_parser = address_or_off)]
    http: Http,
    /// How many clients; fewer would be too few to see them spread
    #[arg(long, value_name = "NUMBER", default_value_t = 40, value_parser = clap::value_parser!(u32).range(20..=500))]
    clients: u32,
    /// What the dependency and the pauses of the clients are drawn from; the service draws its own
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Ends after so long; without it, with Ctrl-C
    #[arg(long, value_name = "DURATION", value_parser = span::parse_positive)]
    duration: Option<Duration>,
    /// Ends after one lap; the answer is no where something was not to be seen
    #[arg(long, conflicts_with = "duration")]
    once: bool,
}

/// # Errors
/// [`Failure::Usage`] for an address that is not loopback, [`Failure::No`] where it cannot run.
pub fn run(context: &Context, args: &DemoArgs) -> Result<Exit, Failure> {
    let settings = settings(args)?;
    if std::env::var_os("HOLDOFF_BYPASS").is_some_and(|value| value == "1") {
        return Err(Failure::Usage(
            "HOLDOFF_BYPASS=1 takes holdoff out of every client, and there would be nothing to \
             see; unset it"
                .to_owned(),
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::No(format!("cannot start: {error}")))?;
    let hosted = Hosted::start(settings)?;
    let played = runtime.block_on(play(context, args, &hosted));
    // The clients' connections end before the service does.
    runtime.shutdown_background();
    let stopped = hosted.stop();
    let exit = played?;
    stopped.map(|()| exit)
}

/// # Errors
/// [`Failure::Usage`] for an address that others can reach.
fn settings(args: &DemoArgs) -> Result<ServeSettings, Failure> {
    let http = match args.http {
        Http::Off => None,
        Http::At(address) => Some(address),
    };
    for (flag, at) in [("--listen", Some(args.listen)), ("--http", http)] {
        if let Some(at) = at.filter(|at| !at.ip().is_loopback()) {
            return Err(Failure::Usage(format!(
                "{flag} {at}: a demo listens on loopback alone, such as 127.0.0.1:0"
            )));
        }
    }
    Ok(ServeSettings {
        listen: args.listen,
        http,
        workers: NonZeroUsize::MIN,
        drain: Duration::from_secs(1),
        // All of its clients are on this machine.
        limits: Limits {
            connections_per_address: NonZeroU32::MAX,
            ..Limits::default()
        },
        ..ServeSettings::default()
    })
}

/// What makes the demo end.
struct Ends {
    terminate: Signal,
    interrupt: Signal,
    at: Option<Instant>,
}

impl Ends {
    /// From here on a signal ends the demo in order.
    fn of(args: &DemoArgs) -> std::io::Result<Self> {
        let after = args.once.then_some(course::LAP).or(args.duration);
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            at: after.and_then(|after| Instant::now().checked_add(after)),
        })
    }

    async fn come(&mut self) {
        let time_is_up = async {
            match self.at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = time_is_up => {}
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// All that runs.
struct Play {
    connection: Connection,
    world: Arc<World>,
    fleet: JoinSet<()>,
    story: Story,
    stage: Stage,
    /// As the operator API last told it.
    seen: Option<Seen>,
    reached_before: u64,
    reached_per_second: u64,
}

async fn play(context: &Context, args: &DemoArgs, hosted: &Hosted) -> Result<Exit, Failure> {
    let mut ends =
        Ends::of(args).map_err(|error| Failure::No(format!("cannot hear signals: {error}")))?;
    let url = format!("http://{}", hosted.grpc);
    let connection = Connection::open(&Server::at(&url)).await?;
    put_policy(&connection).await?;
    let mut events = watch_events(&connection).await?;
    let stage = Stage::new(context, hosted);
    let world = Arc::new(World::new(args.seed));
    let mut play = Play {
        connection,
        fleet: fleet::start(&url, args.clients, &world)?,
        world,
        story: Story::default(),
        stage,
        seen: None,
        reached_before: 0,
        reached_per_second: 0,
    };
    let mut redraws = interval(REDRAW);
    redraws.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut looks = (0..LOOK_EVERY).cycle();
    loop {
        tokio::select! {
            () = ends.come() => break,
            message = events.message() => match message {
                Ok(Some(message)) => play.hear(&message),
                Ok(None) => return Err(hosted::ended()),
                Err(status) => return Err(play.connection.failure(&status)),
            },
            Some(ended) = play.fleet.join_next() => {
                let why = ended.err().map(|error| format!(": {error}"));
                let why = why.unwrap_or_default();
                return Err(Failure::No(format!("a client of the demo ended{why}")));
            }
            _ = redraws.tick() => {
                if hosted.is_over() {
                    return Err(hosted::ended());
                }
                if looks.next() == Some(0) {
                    play.look().await?;
                }
                play.draw(args, hosted);
            }
        }
    }
    play.fleet.shutdown().await;
    let is_no = args.once && !play.story.is_complete();
    play.stage.end(&play.story);
    Ok(if is_no { Exit::No } else { Exit::Done })
}

impl Play {
    fn hear(&mut self, message: &WatchEventsResponse) {
        let Some(event) = &message.event else {
            return;
        };
        let at = self.world.dependency.age();
        let told = self.story.event(at, event, &self.world.counting.lock());
        if let Some(told) = told {
            self.stage.tell(told);
        }
    }

    /// Asks the service how the dependency is.
    async fn look(&mut self) -> Result<(), Failure> {
        let request = GetDependencyRequest {
            dependency: DEPENDENCY.to_owned(),
            ..GetDependencyRequest::default()
        };
        let mut operator = self.connection.operator();
        let asked = operator.get_dependency(request);
        self.seen = self.connection.answer(asked).await?.dependency;
        let reached = self.world.dependency.reached();
        self.reached_per_second = reached - self.reached_before;
        self.reached_before = reached;
        Ok(())
    }

    fn draw(&mut self, args: &DemoArgs, hosted: &Hosted) {
        let age = self.world.dependency.age();
        let phase = self.world.dependency.phase();
        let counts = {
            let mut counts = self.world.counting.lock();
            counts.forget_before(age.saturating_sub(PLACES_KEPT));
            counts.clone()
        };
        for told in self.story.look(age, phase, &counts) {
            self.stage.tell(told);
        }
        self.stage.draw(&Shown {
            age,
            grpc: &hosted.grpc.to_string(),
            dashboard: hosted.http.map(|at| at.to_string()).as_deref(),
            clients: args.clients,
            phase,
            dependency: self.seen.as_ref(),
            reached_per_second: self.reached_per_second,
            counts: &counts,
            story: &self.story,
            told: self.stage.told(),
            rows: self.stage.rows(),
        });
    }
}

async fn put_policy(connection: &Connection) -> Result<(), Failure> {
    let request = PutPolicyRequest {
        name: DEPENDENCY.to_owned(),
        document: POLICY.to_owned(),
        owner: "holdoff demo".to_owned(),
        reason: "short periods, so that a minute is enough".to_owned(),
        ..PutPolicyRequest::default()
    };
    let mut operator = connection.operator();
    let put = connection.answer(operator.put_policy(request)).await;
    put.map(drop)
}

async fn watch_events(connection: &Connection) -> Result<Streaming<WatchEventsResponse>, Failure> {
    let request = WatchEventsRequest {
        dependency: DEPENDENCY.to_owned(),
        ..WatchEventsRequest::default()
    };
    let mut operator = connection.operator();
    connection.answer(operator.watch_events(request)).await
}
