//! The way to the store: one server, the master that Sentinels name, a cluster, or the model of one
//! in this process. Commands of all tasks share one connection to each server, and are pipelined
//! on it.
//!
//! A connection that fails, or on which nothing comes any more, is dropped and made again by the
//! next who needs it. It is made in a task of its own: whoever gives up waiting for it does not
//! end it, or a connection that takes longer than a command may would never be made.

use std::{sync::Arc, time::Duration};

use ::redis::{
    Client, ErrorKind, FromRedisValue, RedisError, RedisResult, ScriptInvocation, ServerErrorKind,
    aio::MultiplexedConnection,
    cluster::ClusterClientBuilder,
    cluster_async::ClusterConnection,
    sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType},
};
use tokio::sync::{Mutex, RwLock};

use super::{
    address::{Address, Kind},
    here::Here,
};

/// A server that does not answer in so long is not there.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Within the library; ours is shorter and ends the wait first.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// See the module. Cheap to clone.
#[derive(Clone)]
pub enum Link {
    One(Arc<Followed>),
    Cluster(ClusterConnection),
    Here(Arc<Here>),
}

/// One server: always the same, or whichever the Sentinels name.
pub struct Followed {
    source: Source,
    /// Absent after a failure.
    server: RwLock<Option<MultiplexedConnection>>,
    /// Held while it is made.
    connecting: Mutex<()>,
}

enum Source {
    Server(Box<Client>),
    Sentinels(Box<Mutex<SentinelClient>>),
}

impl Link {
    /// # Errors
    /// The store cannot be reached, or refuses.
    pub async fn open(address: &Address) -> RedisResult<Self> {
        match address.kind() {
            Kind::One => {
                let client = Client::open(address.servers()[0].clone())?;
                Followed::open(Source::Server(Box::new(client))).await
            }
            Kind::Sentinels { master } => {
                let servers = address.servers().to_vec();
                let of_master = SentinelNodeConnectionInfo::default()
                    .set_redis_connection_info(address.redis_settings());
                let of_master = match address.is_encrypted() {
                    true => of_master.set_tls_mode(::redis::TlsMode::Secure),
                    false => of_master,
                };
                let sentinels = SentinelClient::build(
                    servers,
                    master,
                    Some(of_master),
                    SentinelServerType::Master,
                )?;
                Followed::open(Source::Sentinels(Box::new(Mutex::new(sentinels)))).await
            }
            Kind::Cluster => ClusterClientBuilder::new(address.servers().to_vec())
                .connection_timeout(CONNECT_WITHIN)
                .response_timeout(ANSWER_WITHIN)
                .retries(1)
                .build()?
                .get_async_connection()
                .await
                .map(Self::Cluster),
        }
    }

    /// Nothing is answered any more: a connection to a machine that is gone would look the same
    /// for a quarter of an hour.
    pub async fn nothing_came(&self) {
        match self {
            Self::One(followed) => *followed.server.write().await = None,
            // The library finds out by itself.
            Self::Cluster(_) | Self::Here(_) => {}
        }
    }

    /// Calls the script, which is loaded where it is not there.
    ///
    /// # Errors
    /// As the store says.
    pub async fn run<T: FromRedisValue>(&self, call: &ScriptInvocation<'_>) -> RedisResult<T> {
        match self {
            Self::Cluster(cluster) => call.invoke_async(&mut cluster.clone()).await,
            Self::One(followed) => {
                let mut server = followed.server().await?;
                let answer = call.invoke_async(&mut server).await;
                followed.heed(answer).await
            }
            Self::Here(_) => Err(RedisError::from((
                ErrorKind::InvalidClientConfig,
                "the store in this process runs no scripts",
            ))),
        }
    }

    /// # Errors
    /// As the store says.
    pub async fn command<T: FromRedisValue>(&self, command: &::redis::Cmd) -> RedisResult<T> {
        match self {
            Self::Cluster(cluster) => command.query_async(&mut cluster.clone()).await,
            Self::One(followed) => {
                let mut server = followed.server().await?;
                let answer = command.query_async(&mut server).await;
                followed.heed(answer).await
            }
            Self::Here(here) => here.command(command).await,
        }
    }
}

impl Followed {
    async fn open(source: Source) -> RedisResult<Link> {
        let followed = Arc::new(Self {
            source,
            server: RwLock::new(None),
            connecting: Mutex::new(()),
        });
        followed.server().await?;
        Ok(Link::One(followed))
    }

    async fn server(self: &Arc<Self>) -> RedisResult<MultiplexedConnection> {
        if let Some(server) = &*self.server.read().await {
            return Ok(server.clone());
        }
        let this = Arc::clone(self);
        let connected = tokio::spawn(async move { this.connect().await }).await;
        let ended = (ErrorKind::Io, "this replica is stopping");
        connected.unwrap_or_else(|_| Err(RedisError::from(ended)))
    }

    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let _one_at_a_time = self.connecting.lock().await;
        // Whoever came first has done it for all.
        if let Some(server) = &*self.server.read().await {
            return Ok(server.clone());
        }
        let settings = ::redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN));
        let connecting = async {
            match &self.source {
                Source::Server(client) => {
                    (client.get_multiplexed_async_connection_with_config(&settings)).await
                }
                Source::Sentinels(sentinels) => {
                    let mut sentinels = sentinels.lock().await;
                    sentinels.get_async_connection_with_config(&settings).await
                }
            }
        };
        let silent = (ErrorKind::Io, "it does not answer");
        let server = match tokio::time::timeout(2 * CONNECT_WITHIN, connecting).await {
            Ok(server) => server?,
            Err(_) => return Err(RedisError::from(silent)),
        };
        *self.server.write().await = Some(server.clone());
        Ok(server)
    }

    /// After a failure the server is connected to again, or the Sentinels are asked who it is.
    async fn heed<T>(&self, answer: RedisResult<T>) -> RedisResult<T> {
        if answer.as_ref().is_err_and(means_another_server) {
            *self.server.write().await = None;
        }
        answer
    }
}

fn means_another_server(error: &RedisError) -> bool {
    let is_replica = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        || error.kind() == ErrorKind::Server(ServerErrorKind::MasterDown);
    is_replica
        || error.is_io_error()
        || error.is_connection_dropped()
        || error.is_timeout()
        || error.kind() == ErrorKind::Parse
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::One(_) => "Link::One",
            Self::Cluster(_) => "Link::Cluster",
            Self::Here(_) => "Link::Here",
        })
    }
}
