//! The Rust client meets the scenarios, and a driver that breaks a rule does not.

use std::path::Path;

use holdoff_conformance::{
    run::{self, Played, Settings},
    scenario,
};

const DRIVER: &str = env!("CARGO_BIN_EXE_conformance-driver-rust");

async fn play(command: &str, only: Option<&str>) -> Vec<Played> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let scenarios = scenario::read_all(&folder, only).unwrap();
    let settings = Settings::default();
    run::all(command, scenarios, settings, |_| ())
        .await
        .unwrap()
}

#[tokio::test]
async fn the_rust_client_meets_every_scenario() {
    let played = play(DRIVER, None).await;
    assert!(played.len() >= 60, "{} scenarios", played.len());
    let failed: Vec<_> = played
        .iter()
        .filter(|one| !one.differences.is_empty())
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// It takes every call for idempotent.
#[tokio::test]
async fn a_driver_that_breaks_a_rule_fails_and_is_told_where() {
    let broken = format!("{DRIVER} --broken");
    let played = play(&broken, Some("not_idempotent_is_not_retried")).await;
    let told = &played[0].differences;
    for expected in [
        "a.runs: expected 1, got 2",
        "a.value: expected null, got \"x\"",
        "asked[0].safety: expected \"UNSAFE\", got \"IDEMPOTENT\"",
    ] {
        assert!(
            told.iter().any(|line| line == expected),
            "{expected}: {told:#?}"
        );
    }
}

#[tokio::test]
async fn a_driver_that_ends_or_talks_nonsense_fails_what_it_was_given() {
    for command in ["true", "echo nonsense"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let scenarios = scenario::read_all(&folder, Some("first_try_granted")).unwrap();
        let played = run::all(command, scenarios, Settings::default(), |_| ()).await;
        let told = &played.unwrap()[0].differences;
        assert!(told[0].contains("the driver"), "{command}: {told:?}");
    }
}
