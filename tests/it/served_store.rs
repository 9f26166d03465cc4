//! `holdoff serve --store URL` as an operator starts it: one server, Sentinels, a cluster, a
//! password; and what it says where there is no store.

use std::{
    io::BufReader,
    process::{Child, Command, Stdio},
};

use holdoff_client::proto::{AcquireRequest, Caller, acquire_response::Verdict};

use crate::{
    harness::Client,
    process::{LISTENS, said},
    stores::{Cluster, Make, Server},
};

struct Served {
    child: Child,
    url: String,
    /// What it logs: a pipe that nobody reads would stop it.
    log: tempfile::NamedTempFile,
}

impl Served {
    fn start(store: &str) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut child = command()
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--http",
                "off",
                "--workers",
                "1",
            ])
            .env("HOLDOFF_STORE", store)
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut this = Self {
            child,
            url: String::new(),
            log,
        };
        this.url = format!("http://{}", said(&mut out, LISTENS, || this.logged()));
        this
    }

    async fn ask(&self, dependency: &str) -> Verdict {
        let mut client = Client::connect(&self.url).await;
        let asked = AcquireRequest {
            dependency: dependency.to_owned(),
            attempt: 1,
            caller: Some(Caller {
                service: "shop".to_owned(),
                instance: "one".to_owned(),
            }),
            ..AcquireRequest::default()
        };
        let answer = client.asks.acquire(asked).await.unwrap();
        answer
            .into_inner()
            .verdict
            .expect("an answer has a verdict")
    }

    fn logged(&self) -> String {
        std::fs::read_to_string(self.log.path()).unwrap()
    }

    /// Ends it and gives all it has logged.
    fn end(mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.logged()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdoff"));
    command.env("RUST_LOG", "trace");
    command
}

#[tokio::test]
async fn it_serves_over_one_server_and_never_shows_the_password() {
    let server = Server::start(Make::Redis, &["--requirepass", "open-sesame"]);
    let url = format!(
        "redis://:open-sesame@127.0.0.1:{}/2?prefix=blue:",
        server.port
    );
    let served = Served::start(&url);
    assert!(matches!(served.ask("payments").await, Verdict::Grant(_)));
    let logged = served.end();
    assert!(
        logged.contains("the fleet's state is in redis://127.0.0.1:"),
        "{logged}"
    );
    assert!(!logged.contains("open-sesame"), "{logged}");
}

#[tokio::test]
async fn it_serves_over_the_master_that_sentinels_name() {
    let master = Server::start(Make::Redis, &[]);
    let sentinel = Server::sentinel(master.port);
    let served = Served::start(&format!(
        "redis+sentinel://127.0.0.1:{}/primary",
        sentinel.port
    ));
    assert!(matches!(served.ask("payments").await, Verdict::Grant(_)));
    let keys: u64 = redis::cmd("DBSIZE")
        .query(&mut master.connection())
        .unwrap();
    assert!(keys > 0);
}

#[tokio::test]
async fn it_serves_over_a_cluster_and_uses_all_of_it() {
    let cluster = Cluster::start();
    let served = Served::start(&cluster.url());
    for at in 0..30 {
        let verdict = served.ask(&format!("payments-{at}")).await;
        assert!(matches!(verdict, Verdict::Grant(_)), "{verdict:?}");
    }
    for server in &cluster.servers {
        let keys: u64 = redis::cmd("DBSIZE")
            .query(&mut server.connection())
            .unwrap();
        assert!(keys > 0, "a master is not used");
    }
}

#[test]
fn a_password_on_the_command_line_and_a_store_that_is_not_there_are_refused_in_words() {
    for (url, exit, words) in [
        ("redis://:secret@127.0.0.1:1", 2, "HOLDOFF_STORE"),
        ("redis://127.0.0.1:1", 1, "the store redis://127.0.0.1:1"),
        ("postgres://h", 2, "redis://HOST:PORT"),
    ] {
        let refused = command()
            .args([
                "serve",
                "--listen",
                "127.0.0.1:0",
                "--http",
                "off",
                "--store",
                url,
            ])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(exit), "{url}: {text}");
        assert!(text.contains(words), "{url}: {text}");
        assert!(!text.contains("secret@"), "{text}");
    }
}
