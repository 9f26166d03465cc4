//! What `serve` is told, and what it refuses.

use std::{
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use clap::error::ErrorKind;

use super::*;
use crate::settings::{ConnectionSettings, MetricsDependencies};

#[test]
fn an_open_port_without_tls_has_to_be_asked_for() {
    let settings = |line| match cli(command(), line).unwrap().command {
        Command::Serve(args) => serve::settings(args),
        other => panic!("{other:?}"),
    };
    let refused = settings("holdoff serve --listen 0.0.0.0:7460").unwrap_err();
    assert_eq!(refused.code(), 2);
    assert!(refused.to_string().contains("--insecure"), "{refused}");
    assert!(settings("holdoff serve --http 0.0.0.0:1").is_err());
    let settings = settings("holdoff serve --listen 0.0.0.0:0 --http off --insecure").unwrap();
    assert_eq!((settings.listen.port(), settings.http), (0, None));
}

#[test]
fn settings_of_a_recording_without_a_recording_are_wrong_use() {
    let settings = |file: &str, line: &str| {
        let command = match file {
            "" => command(),
            file => with_file(file).unwrap(),
        };
        let parsed = cli(command, line).unwrap();
        let Command::Serve(args) = parsed.command else {
            panic!("{line}")
        };
        serve::settings(args).map(|settings| settings.record)
    };
    for flag in ["--record-max 1GiB", "--record-files 3"] {
        let refused = settings("", &format!("holdoff serve {flag}")).unwrap_err();
        assert_eq!(refused.code(), 2);
    }
    assert_eq!(
        settings("serve:\n  record-max: 1GiB\n", "holdoff serve")
            .unwrap_err()
            .code(),
        2
    );
    let record = settings("", "holdoff serve --record d").unwrap().unwrap();
    assert_eq!((record.max_bytes, record.files), (256 << 20, 8));
}

#[test]
fn a_flag_of_serve_that_would_do_nothing_is_refused_with_its_value_and_what_it_needs() {
    let settings = |line: &str| match cli(command(), line).unwrap().command {
        Command::Serve(args) => serve::settings(args),
        other => panic!("{other:?}"),
    };
    for (line, flag, needs) in [
        (
            "--store-decisions strict",
            "--store-decisions strict: ",
            "--store URL",
        ),
        (
            "--store memory --store-decisions leased",
            "--store-decisions leased: ",
            "--store URL",
        ),
        ("--record-max 1GiB", "--record-max 1GiB: ", "--record DIR"),
        ("--record-files 3", "--record-files 3: ", "--record DIR"),
        (
            "--tls-clients optional",
            "--tls-clients optional: ",
            "--tls-client-ca",
        ),
        (
            "--tls-cert c --tls-key k --tls-clients required",
            "--tls-clients required: ",
            "--tls-client-ca",
        ),
        (
            "--http off --http-host a,b",
            "--http-host a: ",
            "--http HOST:PORT",
        ),
        (
            "--http off --metrics-dependencies top-7",
            "--metrics-dependencies top-7: ",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ),
        (
            "--max-sessions-per-principal 7",
            "--max-sessions-per-principal 7: ",
            "--access FILE",
        ),
        (
            "--max-connection-age-grace 5s",
            "--max-connection-age-grace 5.0 s: ",
            "--max-connection-age DURATION",
        ),
    ] {
        let refused = settings(&format!("holdoff serve {line}")).unwrap_err();
        assert_eq!(refused.code(), 2, "{line}");
        let said = refused.to_string();
        assert!(
            said.starts_with(flag) && said.contains(needs),
            "{line}: {said}"
        );
    }
    for line in [
        "",
        "--store redis://h --store-decisions strict",
        "--tls-cert c --tls-key k --tls-client-ca a --tls-clients optional",
        "--tls-cert c --tls-key k --tls-client-ca a --max-sessions-per-principal 7",
        "--access a --max-sessions-per-principal 7",
        "--http-host a",
        "--metrics-dependencies all",
    ] {
        assert!(settings(&format!("holdoff serve {line}")).is_ok(), "{line}");
    }
}

#[test]
fn connections_are_as_many_and_last_as_long_as_serve_is_told() {
    let settings = |line: &str| match cli(command(), line)?.command {
        Command::Serve(args) => Ok::<_, clap::Error>(serve::settings(args).unwrap().connections),
        other => panic!("{other:?}"),
    };
    let told = settings("holdoff serve").unwrap();
    assert_eq!(told, ConnectionSettings::default());
    assert_eq!(told.idle, Some(Duration::from_secs(600)));
    let all = "--max-connections 7 --max-connection-idle off --max-connection-age 5m \
               --max-connection-age-grace 0s";
    let told = settings(&format!("holdoff serve {all}")).unwrap();
    let wanted = ConnectionSettings {
        most: NonZeroU32::new(7),
        idle: None,
        age: Some(Duration::from_secs(300)),
        grace: Duration::ZERO,
    };
    assert_eq!(told, wanted);
    for wrong in [
        "--max-connections 0",
        "--max-connection-idle 0",
        "--max-connection-idle 999ms",
        "--max-connection-age 366days",
        "--max-connection-age never",
        "--max-watches-per-principal 0",
    ] {
        let line = format!("holdoff serve {wrong}");
        let refused = settings(&line).unwrap_err();
        assert_eq!(refused.exit_code(), 2, "{line}");
    }
}

#[test]
fn which_dependencies_have_metrics_is_one_of_three_things() {
    let settings = |line: &str| match cli(command(), line).unwrap().command {
        Command::Serve(args) => serve::settings(args).unwrap().metrics_dependencies,
        other => panic!("{other:?}"),
    };
    let top = |most| MetricsDependencies::Top(NonZeroUsize::new(most).unwrap());
    assert_eq!(settings("holdoff serve"), top(50));
    for (said, meant) in [
        ("off", MetricsDependencies::Off),
        ("top-1", top(1)),
        ("top-10000", top(10_000)),
        ("all", MetricsDependencies::All),
    ] {
        let line = format!("holdoff serve --metrics-dependencies {said}");
        assert_eq!(settings(&line), meant, "{said}");
    }
    for wrong in ["on", "top", "top-", "top-0", "top-10001", "top--1", "50"] {
        let line = format!("holdoff serve --metrics-dependencies {wrong}");
        let refused = cli(command(), &line).unwrap_err().to_string();
        assert!(refused.contains("top-1 to top-10000"), "{wrong}: {refused}");
    }
}

#[test]
fn a_password_in_a_wrong_store_is_never_shown() {
    for store in [
        "redis://me:s3cret@:1",
        "redis://me:s3cret@127.0.0.1:1,127.0.0.1:2",
        "redis+sentinel://me:s3cret@h:1",
        "REDIS://me:s3cret@h:1",
        "valkey://me:s3cret@h:1",
        "redis://:s3cret://x@h:1",
        "redis://me:s3cret@h:1/two",
        "redis://h:1/s3cret@",
        "me:s3cret@host",
        "me:s3cret@host://x",
    ] {
        let line = format!("holdoff serve --store {store}");
        let said = cli(command(), &line).unwrap_err();
        assert_eq!(said.kind(), ErrorKind::ValueValidation);
        let said = said.to_string();
        assert!(
            said.contains("--store") && !said.contains("s3cret"),
            "{said}"
        );
        let file = with_file(&format!("store: {store}")).unwrap();
        let said = cli(file, "holdoff serve").unwrap_err().to_string();
        assert!(
            said.contains("--store") && !said.contains("s3cret"),
            "{said}"
        );
    }
    let file = with_file("store: redis://me:s3cret@h:1").unwrap();
    let help = cli(file, "holdoff serve --help").unwrap_err().to_string();
    assert!(
        help.contains("--store") && !help.contains("s3cret"),
        "{help}"
    );
}
