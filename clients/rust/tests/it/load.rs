//! Many calls: time and memory stay bounded.

use std::time::Duration;

use holdoff_client::{Outcome, Question, Safety};

use crate::server::Scripted;

#[tokio::test(start_paused = true)]
async fn under_load_every_outcome_arrives_and_none_is_dropped() {
    let service = Scripted::granting();
    let client = service.client();
    assert!(client.connect(Duration::from_secs(1)).await);
    let mut calling = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let client = client.clone();
        calling.spawn(async move {
            for _ in 0..50 {
                let question = Question::new("payments").safety(Safety::Idempotent);
                let permit = client.acquire(question).await.unwrap();
                tokio::task::yield_now().await;
                permit.report(Outcome::success());
            }
        });
    }
    while let Some(done) = calling.join_next().await {
        done.unwrap();
    }
    assert!(client.flush(Duration::from_secs(10)).await);
    let counters = client.counters();
    assert_eq!(counters.local_grants, 0, "{counters:?}");
    assert_eq!((counters.answered, counters.reported), (10_000, 10_000));
    assert_eq!(service.reported_kinds().len(), 10_000);
}

#[tokio::test(start_paused = true)]
async fn cl5_while_the_service_is_away_nothing_piles_up() {
    let service = Scripted::granting();
    let client = service.client();
    let permits = {
        let mut permits = Vec::new();
        for _ in 0..10 {
            permits.push(client.acquire("payments").await.unwrap());
        }
        permits
    };
    service.kill();
    permits
        .into_iter()
        .for_each(|permit| permit.report(Outcome::success()));
    for _ in 0..100_000 {
        let permit = client.acquire("payments").await.unwrap();
        permit.report(Outcome::success());
    }
    let counters = client.counters();
    assert_eq!(counters.local_grants, 100_000);
    assert_eq!(
        (counters.reported, counters.reports_dropped),
        (0, 0),
        "ten still wait"
    );
}
