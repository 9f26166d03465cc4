//! Asks the service, for as long as the screen is there: all that changes by two streams, the
//! numbers of what is on the screen once a second, and what the person orders. What is lost is
//! asked for anew; nothing is ever done twice, since an order is sent once.

use std::{future::Future, time::Duration};

use holdoff_client::proto::{
    ClearHoldRequest, ClearOverrideRequest, Dependency, GetDependencyRequest, GetPolicyRequest,
    ListDependenciesRequest, OverrideKind, ResetDependencyRequest, SetOverrideRequest,
    WatchDependenciesRequest, WatchDependenciesResponse, WatchEventsRequest, WatchEventsResponse,
    watch_dependencies_response::Change,
};
use tokio::{
    sync::{mpsc, watch},
    task::{JoinHandle, JoinSet},
    time::{MissedTickBehavior, interval, sleep, timeout},
};
use tonic::Streaming;

use super::{
    dialog::{Action, Order},
    model::Seen,
    update::Told,
};
use crate::cli::{
    Context,
    connection::{Connection, Server, bounded},
    exit::Failure,
    span,
};

/// Told, and not yet read: past it the service conflates for us.
const AHEAD: usize = 1_024;
const BEAT: Duration = Duration::from_secs(1);
/// For the numbers of the screen; with the beat well below what is promised for STALE.
const LOOK_WITHIN: Duration = Duration::from_secs(2);
/// No screen has more lines that anybody reads.
const LOOKED_AT: usize = 100;
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Events that are shown at first.
const EVENTS_SINCE: Duration = Duration::from_secs(3_600);

/// What the person wants.
#[derive(Debug)]
pub enum Ask {
    Policy(String),
    Carry(Order),
}

/// One namespace that is followed until this is dropped.
#[derive(Debug)]
pub struct Feed {
    pub told: mpsc::Receiver<Told>,
    pub asks: mpsc::UnboundedSender<Ask>,
    pub seen: watch::Sender<Seen>,
    task: JoinHandle<()>,
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone, Debug)]
struct Source {
    server: Server,
    namespace: String,
    owner: Option<String>,
    told: mpsc::Sender<Told>,
}

/// Refused here is refused before the screen is taken.
///
/// # Errors
/// As the service answers.
pub async fn try_once(context: &Context, connection: &Connection) -> Result<(), Failure> {
    let request = listing(&context.namespace);
    let mut operator = connection.operator();
    let asked = operator.list_dependencies(request);
    connection.answer(asked).await.map(|_| ())
}

fn listing(namespace: &str) -> tonic::Request<ListDependenciesRequest> {
    bounded(ListDependenciesRequest {
        namespace: namespace.to_owned(),
        page_size: 1,
        ..Default::default()
    })
}

impl Feed {
    pub fn start(server: Server, namespace: String, owner: Option<String>) -> Self {
        let (tell, told) = mpsc::channel(AHEAD);
        let (asks, asked) = mpsc::unbounded_channel();
        let (seen, shown) = watch::channel(Seen::Nothing);
        let source = Source {
            server,
            namespace,
            owner,
            told: tell,
        };
        let task = tokio::spawn(follow(source, asked, shown));
        Self {
            told,
            asks,
            seen,
            task,
        }
    }
}

async fn follow(
    source: Source,
    mut asked: mpsc::UnboundedReceiver<Ask>,
    seen: watch::Receiver<Seen>,
) {
    let mut wait = FIRST_WAIT;
    let mut failure = source.lost("not connected yet");
    loop {
        let opened = refusing(&source, &mut asked, &failure, source.open()).await;
        failure = match opened {
            Ok(streams) => {
                wait = FIRST_WAIT;
                source.connected(streams, &mut asked, &seen).await
            }
            Err(failure) => failure,
        };
        source.tell(Told::Lost(cause(&failure))).await;
        refusing(&source, &mut asked, &failure, sleep(wait)).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

/// Until `done`. What is asked meanwhile is refused: nothing is kept to be sent later.
async fn refusing<T>(
    source: &Source,
    asked: &mut mpsc::UnboundedReceiver<Ask>,
    failure: &Failure,
    done: impl Future<Output = T>,
) -> T {
    let mut done = std::pin::pin!(done);
    loop {
        tokio::select! {
            done = &mut done => return done,
            Some(ask) = asked.recv() => source.tell(unasked(ask, failure)).await,
        }
    }
}

fn cause(failure: &Failure) -> String {
    match failure {
        Failure::Unreachable { cause, .. } => cause.clone(),
        Failure::No(text) | Failure::Usage(text) => text.clone(),
    }
}

/// Nothing was sent, and it will not be sent later.
fn unasked(ask: Ask, failure: &Failure) -> Told {
    match ask {
        Ask::Policy(name) => Told::Policy(name, Err(failure.to_string())),
        Ask::Carry(_) => Told::Refused(format!("nothing was done: {failure}")),
    }
}

/// What a connection is there for.
struct Streams {
    connection: Connection,
    changes: Streaming<WatchDependenciesResponse>,
    events: Streaming<WatchEventsResponse>,
}

type Looking = Option<JoinHandle<Result<Vec<Dependency>, Failure>>>;

impl Source {
    async fn tell(&self, told: Told) {
        // Who does not read any more has ended this task, too.
        let _ = self.told.send(told).await;
    }

    async fn open(&self) -> Result<Streams, Failure> {
        let connection = Connection::open(&self.server).await?;
        let mut operator = connection.operator();
        let wanted = WatchDependenciesRequest {
            namespace: self.namespace.clone(),
            name_prefix: String::new(),
        };
        let changes = operator.watch_dependencies(wanted);
        let changes = connection.answer(changes).await?;
        let wanted = WatchEventsRequest {
            namespace: self.namespace.clone(),
            dependency: String::new(),
            since: Some(span::to_wire(EVENTS_SINCE)),
        };
        let events = connection.answer(operator.watch_events(wanted)).await?;
        Ok(Streams {
            connection,
            changes,
            events,
        })
    }

    /// Until something is lost.
    async fn connected(
        &self,
        streams: Streams,
        asked: &mut mpsc::UnboundedReceiver<Ask>,
        seen: &watch::Receiver<Seen>,
    ) -> Failure {
        let Streams {
            connection,
            mut changes,
            mut events,
        } = streams;
        self.tell(Told::Begun).await;
        let mut beat = interval(BEAT);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looking: Looking = None;
        loop {
            tokio::select! {
                change = changes.message() => match change {
                    Ok(Some(message)) => self.change(message.change).await,
                    Ok(None) => return self.ended(),
                    Err(status) => return connection.failure(&status),
                },
                event = events.message() => match event {
                    Ok(Some(message)) => if let Some(event) = message.event {
                        self.tell(Told::Event(Box::new(event), message.missed)).await;
                    },
                    Ok(None) => return self.ended(),
                    Err(status) => return connection.failure(&status),
                },
                _ = beat.tick(), if looking.is_none() => {
                    let seen = seen.borrow().clone();
                    let look = look(connection.clone(), self.namespace.clone(), seen);
                    looking = Some(tokio::spawn(look));
                },
                looked = finished(&mut looking) => {
                    looking = None;
                    match looked {
                        Ok(numbers) => self.tell(Told::Numbers(numbers)).await,
                        Err(failure) => return failure,
                    }
                },
                Some(ask) = asked.recv() => {
                    let (source, connection) = (self.clone(), connection.clone());
                    tokio::spawn(async move {
                        let told = source.answer(&connection, ask).await;
                        source.tell(told).await;
                    });
                },
            }
        }
    }

    fn ended(&self) -> Failure {
        self.lost("the service ended the stream")
    }

    fn lost(&self, cause: &str) -> Failure {
        Failure::Unreachable {
            server: self.server.to_string(),
            cause: cause.to_owned(),
        }
    }

    async fn change(&self, change: Option<Change>) {
        match change {
            Some(Change::Dependency(d)) => self.tell(Told::Dependency(Box::new(d))).await,
            Some(Change::Removed(name)) => self.tell(Told::Removed(name)).await,
            Some(Change::Synced(_)) => self.tell(Told::Synced).await,
            None => {}
        }
    }

    async fn answer(&self, connection: &Connection, ask: Ask) -> Told {
        match ask {
            Ask::Policy(dependency) => {
                let request = bounded(GetPolicyRequest {
                    namespace: self.namespace.clone(),
                    dependency: dependency.clone(),
                });
                let mut operator = connection.operator();
                let answer = connection.answer(operator.get_policy(request)).await;
                let values = answer.map(|answer| answer.values);
                Told::Policy(dependency, values.map_err(|failure| failure.to_string()))
            }
            Ask::Carry(order) => self.carry(connection, order).await,
        }
    }

    /// Looks again first: whoever reads "closed" and means to open must not open what somebody
    /// else has just closed by hand. A courtesy to people, and no rule.
    async fn carry(&self, connection: &Connection, order: Order) -> Told {
        let Some(owner) = self.owner.clone() else {
            let why = "nothing was done: this user has no name; start with --owner";
            return Told::Refused(why.to_owned());
        };
        match get(connection, &self.namespace, &order.dependency, Follow::No).await {
            Ok(now) if now.epoch == order.epoch => {}
            Ok(changed) => return Told::Changed(Box::new(changed)),
            Err(failure) => return Told::Refused(format!("nothing was done: {failure}")),
        }
        match self.perform(connection, &order, owner).await {
            Ok(d) => Told::Done(order, Box::new(d)),
            Err(failure) => Told::Refused(refusal(&failure)),
        }
    }

    async fn perform(
        &self,
        connection: &Connection,
        order: &Order,
        owner: String,
    ) -> Result<Dependency, Failure> {
        let (namespace, dependency) = (self.namespace.clone(), order.dependency.clone());
        let reason = order.reason.clone();
        let mut operator = connection.operator();
        let force = |kind: OverrideKind| {
            bounded(SetOverrideRequest {
                namespace: self.namespace.clone(),
                dependency: order.dependency.clone(),
                kind: kind.into(),
                owner: owner.clone(),
                reason: order.reason.clone(),
                expires_in: order.lasts.map(span::to_wire),
            })
        };
        let d = match order.action {
            Action::Open => {
                let request = force(OverrideKind::ForceOpen);
                connection
                    .answer(operator.set_override(request))
                    .await?
                    .dependency
            }
            Action::Close => {
                let request = force(OverrideKind::ForceClosed);
                connection
                    .answer(operator.set_override(request))
                    .await?
                    .dependency
            }
            Action::Release => {
                let request = ClearOverrideRequest {
                    namespace,
                    dependency,
                    owner,
                    reason,
                };
                connection
                    .answer(operator.clear_override(bounded(request)))
                    .await?
                    .dependency
            }
            Action::Reset => {
                let request = ResetDependencyRequest {
                    namespace,
                    dependency,
                    owner,
                    reason,
                };
                connection
                    .answer(operator.reset_dependency(bounded(request)))
                    .await?
                    .dependency
            }
            Action::ClearHold => {
                let request = ClearHoldRequest {
                    namespace,
                    dependency,
                    owner,
                    reason,
                };
                connection
                    .answer(operator.clear_hold(bounded(request)))
                    .await?
                    .dependency
            }
        };
        Ok(d.unwrap_or_default())
    }
}

/// An order whose answer was lost may have been carried out.
fn refusal(failure: &Failure) -> String {
    match failure {
        Failure::No(text) | Failure::Usage(text) => format!("refused: {text}"),
        Failure::Unreachable { .. } => format!("{failure}; it may have been done: look"),
    }
}

async fn get(
    connection: &Connection,
    namespace: &str,
    name: &str,
    follow: Follow,
) -> Result<Dependency, Failure> {
    let request = bounded(GetDependencyRequest {
        namespace: namespace.to_owned(),
        dependency: name.to_owned(),
        follow: follow == Follow::Yes,
    });
    let mut operator = connection.operator();
    let answer = connection.answer(operator.get_dependency(request)).await?;
    let unknown = || Failure::No("the service knows nothing of it".to_owned());
    answer.dependency.ok_or_else(unknown)
}

/// Whether what is only counted of one that is followed is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Follow {
    Yes,
    No,
}

/// The numbers of what is seen; with nothing, a question all the same, as a sign of life.
async fn look(
    connection: Connection,
    namespace: String,
    seen: Seen,
) -> Result<Vec<Dependency>, Failure> {
    let (names, follow) = match seen {
        Seen::Nothing => (Vec::new(), Follow::No),
        Seen::Lines(names) => (names, Follow::No),
        Seen::Page(name) => (vec![name], Follow::Yes),
    };
    let looked = timeout(LOOK_WITHIN, async {
        if names.is_empty() {
            let mut operator = connection.operator();
            connection
                .answer(operator.list_dependencies(listing(&namespace)))
                .await?;
        }
        let mut all = JoinSet::new();
        for name in names.into_iter().take(LOOKED_AT) {
            let (connection, namespace) = (connection.clone(), namespace.clone());
            all.spawn(async move { get(&connection, &namespace, &name, follow).await });
        }
        let mut numbers = Vec::new();
        while let Some(answer) = all.join_next().await {
            match answer {
                Ok(Ok(d)) => numbers.push(d),
                // It has gone meanwhile, which the stream says.
                Ok(Err(Failure::No(_) | Failure::Usage(_))) | Err(_) => {}
                Ok(Err(failure @ Failure::Unreachable { .. })) => return Err(failure),
            }
        }
        Ok(numbers)
    });
    looked.await.unwrap_or_else(|_| {
        let cause = format!("no answer within {} s", LOOK_WITHIN.as_secs());
        Err(Failure::Unreachable {
            server: String::new(),
            cause,
        })
    })
}

async fn finished(looking: &mut Looking) -> Result<Vec<Dependency>, Failure> {
    match looking {
        Some(handle) => handle.await.unwrap_or_else(|_| Ok(Vec::new())),
        None => std::future::pending().await,
    }
}
