//! Outcomes reach the service, batched and once.

use std::time::Duration;

use holdoff_client::{Client, Outcome, Question, Safety, proto};

use crate::server::{Reply, Scripted, grant, kind_of};

async fn report(client: &Client, outcome: Outcome) {
    let question = Question::new("payments").safety(Safety::Idempotent);
    client.acquire(question).await.unwrap().report(outcome);
}

#[tokio::test(start_paused = true)]
async fn successes_are_reported_together_within_ten_milliseconds() {
    let service = Scripted::granting();
    let client = service.client();
    for _ in 0..50 {
        report(&client, Outcome::success()).await;
    }
    assert_eq!(service.reports().len(), 0);
    tokio::time::sleep(Duration::from_millis(12)).await;
    let reports = service.reports();
    assert_eq!((reports.len(), reports[0].entries.len()), (1, 50));
}

#[tokio::test(start_paused = true)]
async fn a_failure_goes_at_once_and_takes_what_waits_along() {
    let service = Scripted::granting();
    let client = service.client();
    report(&client, Outcome::success()).await;
    report(&client, Outcome::failure()).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let kinds = [proto::OutcomeKind::Success, proto::OutcomeKind::Failure];
    assert_eq!(service.reported_kinds(), kinds);
}

#[tokio::test(start_paused = true)]
async fn a_failure_told_with_a_question_never_overtakes_the_successes_before_it() {
    let service = Scripted::granting();
    let client = service.client();
    let question = Question::new("payments").safety(Safety::Idempotent);
    let failing = client.acquire(question).await.unwrap();
    report(&client, Outcome::success()).await;
    drop(failing.retry(Outcome::failure()).await.unwrap());
    assert_eq!(service.reported_kinds()[0], proto::OutcomeKind::Success);
}

#[tokio::test(start_paused = true)]
async fn sequence_numbers_rise_and_a_lost_report_is_repeated_once_under_its_own() {
    let service = Scripted::granting();
    let client = service.client();
    service.takes_reports(false);
    report(&client, Outcome::failure()).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    service.kill();
    tokio::time::sleep(Duration::from_millis(10)).await;
    service.start();
    service.takes_reports(true);
    assert!(client.flush(Duration::from_secs(60)).await);
    report(&client, Outcome::failure()).await;
    assert!(client.flush(Duration::from_secs(60)).await);
    let sequences: Vec<u64> = service.reports().iter().map(|r| r.sequence).collect();
    assert_eq!(sequences.len(), 3);
    assert!(sequences[0] > 0 && sequences[0] == sequences[1]);
    assert!(sequences[2] > sequences[1]);
    assert_eq!(client.counters().reports_dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_too_late_is_given_back() {
    let service = Scripted::new(|_| match grant(Duration::ZERO) {
        Reply::Answer(response) => Reply::Late(Duration::from_millis(200), response),
        other => other,
    });
    let client = service.client();
    let permit = client.acquire("payments").await.unwrap();
    assert!(permit.is_local());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let reports = service.reports();
    assert_eq!(
        kind_of(&reports[0].entries[0]),
        proto::OutcomeKind::Cancelled
    );
}

#[tokio::test(start_paused = true)]
async fn the_last_client_says_what_it_has_to_say_before_it_goes() {
    let service = Scripted::granting();
    let client = service.client();
    report(&client, Outcome::success()).await;
    drop(client);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(service.reported_kinds(), [proto::OutcomeKind::Success]);
}
