//! Real servers for the tests of the shared store: each on a free port, in a folder of its own,
//! ended by its process id. `tests/stores` installs them.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use holdoff::{
    clock::{Clock, FleetClock, to_wall},
    coordinator::{Coordinator, Parts},
    durable::{Durable, PermitKey, Start},
    entropy::Entropy,
    store::redis::{Address, Decisions, RedisStore, Timing},
};
use tempfile::TempDir;

use crate::harness::source;

/// Machines that run tests are busy; what is tested of deadlines sets its own.
pub const PATIENT: Timing = Timing {
    answer_within: Duration::from_secs(10),
    kept_for: Duration::from_secs(1_800),
    grouped_for: Duration::from_millis(20),
};
const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// One server process.
pub struct Server {
    pub port: u16,
    child: Child,
    folder: TempDir,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    Redis,
    Valkey,
}

impl Make {
    fn binary(self) -> PathBuf {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = match self {
            Self::Redis => ["/usr/bin", "/usr/local/bin"]
                .map(|folder| Path::new(folder).join("redis-server"))
                .into_iter()
                .find(|path| path.exists()),
            Self::Valkey => Some(root.join("target/stores/valkey-server")).filter(|it| it.exists()),
        };
        found.unwrap_or_else(|| panic!("there is no {self:?} server: run `bash tests/stores`"))
    }
}

impl Server {
    pub fn start(make: Make, more: &[&str]) -> Self {
        Self::start_on(free_port(), make, more)
    }

    /// Empty, on a port that another had.
    pub fn start_on(port: u16, make: Make, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = spawn(port, make, folder.path(), more);
        let mut server = Self {
            port,
            child,
            folder,
        };
        server.wait();
        server
    }

    /// Killed, and started again from its last `SAVE`.
    pub fn lose_the_last(&mut self, make: Make) {
        self.kill();
        self.child = spawn(self.port, make, self.folder.path(), &[]);
        self.wait();
    }

    /// A Sentinel that watches `master` under the name `primary`.
    pub fn sentinel(master: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let settings = folder.path().join("sentinel.conf");
        let text = format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor primary 127.0.0.1 {master} 1\n\
             sentinel down-after-milliseconds primary 1000\n"
        );
        std::fs::write(&settings, text).unwrap();
        let child = Command::new(Make::Redis.binary())
            .arg(&settings)
            .arg("--sentinel")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self {
            port,
            child,
            folder,
        };
        server.wait();
        server
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A connection of the test's own.
    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.url()).unwrap();
        client.get_connection().unwrap()
    }

    /// As `kill -9`.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// It does not answer any more, and keeps what it has.
    pub fn stop(&mut self) {
        self.signal("STOP");
    }

    pub fn go_on(&mut self) {
        self.signal("CONT");
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.unwrap().success(), "kill -s {name} {pid}");
    }

    fn wait(&mut self) {
        let begun = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "a server ended at once: {ended:?}");
            assert!(begun.elapsed() < STARTS_WITHIN, "a server does not listen");
            pause();
        }
    }
}

fn spawn(port: u16, make: Make, folder: &Path, more: &[&str]) -> Child {
    Command::new(make.binary())
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(folder)
        .args(more)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three masters with all slots among them.
pub struct Cluster {
    pub servers: Vec<Server>,
}

impl Cluster {
    pub fn start() -> Self {
        let servers: Vec<Server> = (0..3)
            .map(|_| {
                let bus = free_port().to_string();
                let more = ["--cluster-enabled", "yes", "--cluster-port", &bus];
                Server::start(Make::Redis, &more)
            })
            .collect();
        for (at, server) in servers.iter().enumerate() {
            let mut connection = server.connection();
            let (first, last) = (at * 5_462, (at * 5_462 + 5_461).min(16_383));
            let slots = redis::cmd("CLUSTER")
                .arg("ADDSLOTSRANGE")
                .arg(first)
                .arg(last)
                .query::<()>(&mut connection);
            slots.unwrap();
            let epoch = redis::cmd("CLUSTER")
                .arg("SET-CONFIG-EPOCH")
                .arg(at + 1)
                .query::<()>(&mut connection);
            epoch.unwrap();
        }
        let cluster = Self { servers };
        for server in &cluster.servers[1..] {
            let bus = cluster.bus(&cluster.servers[0]);
            let met = redis::cmd("CLUSTER")
                .arg("MEET")
                .arg("127.0.0.1")
                .arg(cluster.servers[0].port)
                .arg(bus)
                .query::<()>(&mut server.connection());
            met.unwrap();
        }
        cluster.wait();
        cluster
    }

    fn bus(&self, server: &Server) -> u16 {
        let told: Vec<String> = redis::cmd("CONFIG")
            .arg("GET")
            .arg("cluster-port")
            .query(&mut server.connection())
            .unwrap();
        told[1].parse().unwrap()
    }

    fn wait(&self) {
        let begun = Instant::now();
        let is_whole = |server: &Server| {
            let info: String = redis::cmd("CLUSTER")
                .arg("INFO")
                .query(&mut server.connection())
                .unwrap();
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        };
        while !self.servers.iter().all(is_whole) {
            assert!(begun.elapsed() < STARTS_WITHIN, "the cluster does not form");
            pause();
        }
    }

    pub fn url(&self) -> String {
        let hosts: Vec<String> = (self.servers.iter())
            .map(|server| format!("127.0.0.1:{}", server.port))
            .collect();
        format!("redis-cluster://{}", hosts.join(","))
    }
}

/// On the strict path.
pub async fn connect(url: &str) -> RedisStore {
    connect_with(url, Decisions::Strict).await
}

pub async fn connect_with(url: &str, decisions: Decisions) -> RedisStore {
    connect_timed(url, PATIENT, decisions).await
}

pub async fn connect_timed(url: &str, timing: Timing, decisions: Decisions) -> RedisStore {
    let address: Address = url.parse().unwrap();
    let store = RedisStore::connect(&address, timing, decisions, rand::random()).await;
    store.unwrap_or_else(|error| panic!("{error}"))
}

/// By a time that the test moves for all replicas at once; on the leased path swaps of a record are
/// so far apart.
pub async fn connect_at(
    time: &Arc<AtomicU64>,
    url: &str,
    decisions: Decisions,
    grouped_for: Duration,
) -> RedisStore {
    let address: Address = url.parse().unwrap();
    let timing = Timing {
        grouped_for,
        ..PATIENT
    };
    let clock = FleetClock::common(Arc::clone(time));
    let store = RedisStore::connect_by(clock, &address, timing, decisions, rand::random()).await;
    store.unwrap_or_else(|error| panic!("{error}"))
}

/// A coordinator over `store`, in its first run, that follows what others change.
pub async fn coordinate(store: RedisStore, policies: &str) -> Arc<Coordinator<RedisStore>> {
    let clock = Clock::Fleet(store.clock());
    let mut opened = Durable::in_memory(Start {
        wall_now: to_wall(clock.now()),
        fresh_permit_key: PermitKey(store.permit_key()),
    });
    opened.state.boot = 1;
    let parts = Parts {
        store,
        clock,
        entropy: Entropy::System,
        opened,
    };
    let begun = Coordinator::start(parts, vec![source(policies)]).await;
    let coordinator = Arc::new(begun.expect("the policies are valid").coordinator);
    coordinator.follow_store();
    coordinator
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

#[allow(clippy::disallowed_methods, reason = "a real process is waited for")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}
