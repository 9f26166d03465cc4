//! The way to the store: one server, the master that Sentinels name, a cluster, or the model of one
//! in this process. Commands of all tasks share one connection to each server, and are pipelined
//! on it.

use std::{sync::Arc, time::Duration};

use ::redis::{
    Client, ErrorKind, FromRedisValue, RedisError, RedisResult, ScriptInvocation, ServerErrorKind,
    aio::{ConnectionManager, ConnectionManagerConfig, MultiplexedConnection},
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
    One(ConnectionManager),
    Sentinels(Arc<Followed>),
    Cluster(ClusterConnection),
    Here(Arc<Here>),
}

/// The master that Sentinels name.
pub struct Followed {
    sentinels: Mutex<SentinelClient>,
    /// Absent after a failure, until the Sentinels have been asked again.
    master: RwLock<Option<MultiplexedConnection>>,
}

impl Link {
    /// # Errors
    /// The store cannot be reached, or refuses.
    pub async fn open(address: &Address) -> RedisResult<Self> {
        match address.kind() {
            Kind::One => {
                let settings = ConnectionManagerConfig::new()
                    .set_connection_timeout(Some(CONNECT_WITHIN))
                    .set_response_timeout(Some(ANSWER_WITHIN))
                    .set_min_delay(Duration::from_millis(20))
                    .set_max_delay(Duration::from_secs(1));
                let client = Client::open(address.servers()[0].clone())?;
                ConnectionManager::new_with_config(client, settings)
                    .await
                    .map(Self::One)
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
                let followed = Followed {
                    sentinels: Mutex::new(sentinels),
                    master: RwLock::new(None),
                };
                followed.master().await?;
                Ok(Self::Sentinels(Arc::new(followed)))
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

    /// A command was not answered in time.
    pub async fn nothing_came(&self) {
        match self {
            Self::Sentinels(followed) => *followed.master.write().await = None,
            // The library finds out by itself.
            Self::One(_) | Self::Cluster(_) | Self::Here(_) => {}
        }
    }

    /// Calls the script, which is loaded where it is not there.
    ///
    /// # Errors
    /// As the store says.
    pub async fn run<T: FromRedisValue>(&self, call: &ScriptInvocation<'_>) -> RedisResult<T> {
        match self {
            Self::One(one) => call.invoke_async(&mut one.clone()).await,
            Self::Cluster(cluster) => call.invoke_async(&mut cluster.clone()).await,
            Self::Sentinels(followed) => {
                let mut master = followed.master().await?;
                let answer = call.invoke_async(&mut master).await;
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
            Self::One(one) => command.query_async(&mut one.clone()).await,
            Self::Cluster(cluster) => command.query_async(&mut cluster.clone()).await,
            Self::Sentinels(followed) => {
                let mut master = followed.master().await?;
                let answer = command.query_async(&mut master).await;
                followed.heed(answer).await
            }
            Self::Here(here) => here.command(command).await,
        }
    }
}

impl Followed {
    async fn master(&self) -> RedisResult<MultiplexedConnection> {
        if let Some(master) = &*self.master.read().await {
            return Ok(master.clone());
        }
        let mut sentinels = self.sentinels.lock().await;
        // Whoever came first has asked for all.
        if let Some(master) = &*self.master.read().await {
            return Ok(master.clone());
        }
        let settings = ::redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_WITHIN))
            .set_response_timeout(Some(ANSWER_WITHIN));
        let master = sentinels
            .get_async_connection_with_config(&settings)
            .await?;
        *self.master.write().await = Some(master.clone());
        Ok(master)
    }

    /// After a failure the Sentinels are asked who is master now.
    async fn heed<T>(&self, answer: RedisResult<T>) -> RedisResult<T> {
        if answer.as_ref().is_err_and(means_another_master) {
            *self.master.write().await = None;
        }
        answer
    }
}

fn means_another_master(error: &RedisError) -> bool {
    let is_replica = error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        || error.kind() == ErrorKind::Server(ServerErrorKind::MasterDown);
    is_replica || error.is_io_error() || error.is_connection_dropped() || error.is_timeout()
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::One(_) => "Link::One",
            Self::Sentinels(_) => "Link::Sentinels",
            Self::Cluster(_) => "Link::Cluster",
            Self::Here(_) => "Link::Here",
        })
    }
}
