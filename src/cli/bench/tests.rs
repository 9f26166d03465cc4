//! Each mode against a real socket, briefly.

use super::{super::fake::Fake, *};

fn args(line: &str) -> BenchArgs {
    let command = <BenchArgs as clap::Args>::augment_args(clap::Command::new("bench"));
    let words = std::iter::once("bench").chain(line.split_whitespace());
    let matches = command.get_matches_from(words);
    <BenchArgs as clap::FromArgMatches>::from_arg_matches(&matches).unwrap()
}

async fn measured(mode: Mode, line: &str) -> (Figures, Fake) {
    let fake = Fake::default();
    let context = Context::for_test(&fake.serve().await);
    let line = format!("--warmup 50ms --connections 2 --in-flight 2 {line}");
    let figures = leg(&context, &args(&line), mode).await.unwrap();
    (figures, fake)
}

#[tokio::test]
async fn every_mode_is_answered_without_errors() {
    for mode in [Mode::Unary, Mode::Session, Mode::Health] {
        let (figures, _) = measured(mode, "--duration 300ms --batch 4 --dependencies 7").await;
        assert!(figures.requests > 10, "{figures:?}");
        assert!(figures.errors.is_empty(), "{figures:?}");
        assert_eq!(
            figures.granted,
            if mode == Mode::Health {
                0
            } else {
                figures.requests
            }
        );
        assert_eq!((figures.denied, figures.reported), (0, 0));
        assert!(figures.latency_micros.p50 > 0 && figures.latency_micros.p50 < 300_000);
    }
}

#[tokio::test]
async fn each_grant_is_reported_as_a_success_where_that_is_asked_for() {
    for mode in [Mode::Unary, Mode::Session] {
        let (figures, fake) = measured(mode, "--duration 300ms --batch 4 --report").await;
        assert!(figures.reported > 10, "{figures:?}");
        assert!(figures.errors.is_empty(), "{figures:?}");
        let reported = fake.reported.lock().unwrap();
        let entry = reported[0].entries[0].entry.clone().unwrap();
        assert!(
            format!("{entry:?}").contains(r#"permit: b"\x01\x02\x03""#),
            "{entry:?}"
        );
    }
}

#[tokio::test]
async fn an_open_loop_keeps_its_rate() {
    for mode in [Mode::Unary, Mode::Session] {
        let (figures, _) = measured(mode, "--batch 2 --rate 200 --duration 1s").await;
        assert!((100..=300).contains(&figures.requests), "{figures:?}");
    }
}

#[tokio::test]
async fn questions_go_to_all_dependencies_and_name_their_caller() {
    let (_, fake) = measured(Mode::Unary, "--duration 300ms --dependencies 3").await;
    let asked = fake.asked.lock().unwrap();
    let names: std::collections::BTreeSet<_> = asked.iter().map(|a| a.dependency.clone()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(asked.iter().all(|a| a.attempt == 1 && a.caller.is_some()));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let context = Context::for_test("http://127.0.0.1:1");
    let failure = run(&context, args("--duration 50ms")).await.unwrap_err();
    assert_eq!(failure.code(), 3);
}
