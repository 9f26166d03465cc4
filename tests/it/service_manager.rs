//! The real binary under a service manager: what it is told over its socket, in which order, and
//! what a health check says meanwhile.

use std::{
    os::unix::net::UnixDatagram,
    process::{Command, Stdio},
    time::Duration,
};

use crate::process::{BINARY, Running, serve};

/// Far longer than anything here takes on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// What is told next; lines of one message are told together.
fn told(manager: &UnixDatagram) -> String {
    let mut message = [0; 4_096];
    let length = manager.recv(&mut message).unwrap();
    String::from_utf8(message[..length].to_vec()).unwrap()
}

fn healthcheck(url: &str) -> i32 {
    let status = Command::new(BINARY)
        .args(["healthcheck", "--server", url])
        .stdout(Stdio::null())
        .status()
        .unwrap();
    status.code().unwrap()
}

#[test]
fn the_manager_is_told_ready_then_alive_then_stopping() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(WITHIN)).unwrap();
    let mut command = serve(&["--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", &socket);
    command.env("WATCHDOG_USEC", "800000");
    let service = Running::of(command);

    let ready = told(&manager);
    let port = service.url.rsplit(':').next().unwrap();
    assert!(ready.starts_with("READY=1\n"), "{ready}");
    assert!(ready.contains(port), "{ready}");
    for _ in 0..3 {
        assert_eq!(told(&manager), "WATCHDOG=1\n");
    }
    assert_eq!(healthcheck(&service.url), 0);

    service.terminate();
    let mut last = told(&manager);
    while last == "WATCHDOG=1\n" {
        last = told(&manager);
    }
    assert!(last.starts_with("STOPPING=1\n"), "{last}");
    let url = service.url.clone();
    drop(service);
    assert_eq!(healthcheck(&url), 3);
}

#[test]
fn without_a_watchdog_nobody_is_told_alive() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(WITHIN)).unwrap();
    let mut command = serve(&["--listen", "127.0.0.1:0"]);
    command
        .env("NOTIFY_SOCKET", &socket)
        .env_remove("WATCHDOG_USEC");
    let service = Running::of(command);
    assert!(told(&manager).starts_with("READY=1\n"));
    service.terminate();
    assert!(told(&manager).starts_with("STOPPING=1\n"));
}

#[test]
fn a_socket_that_nobody_has_stops_nothing() {
    let mut command = serve(&["--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", "/nowhere/notify");
    let service = Running::of(command);
    assert_eq!(healthcheck(&service.url), 0);
}
