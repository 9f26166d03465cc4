use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use super::*;
use crate::{
    Client, OnNoDecision, Question, Safety,
    client::{Inner, Mode},
    clock::Clock,
    local::{self, Local},
};

/// A client on its own, on a machine that sleeps for as many seconds as one sets.
fn client_that_sleeps(slept: &Arc<AtomicU64>) -> Client {
    let slept = Arc::clone(slept);
    Client::of(Inner {
        mode: Mode::Bypass,
        timeout: Duration::ZERO,
        on_no_decision: OnNoDecision::Local,
        local: Local::new(local::policy()),
        clock: Clock::suspended_by(move || Duration::from_secs(slept.load(SeqCst))),
        counting: Arc::default(),
    })
}

fn question() -> Question {
    Question::new("payments").safety(Safety::Idempotent)
}

#[tokio::test(start_paused = true)]
async fn b26c_after_a_suspend_the_deadline_is_looked_at_first() {
    let slept = Arc::default();
    let client = client_that_sleeps(&slept);
    let question = question().deadline(Duration::from_secs(60));
    let permit = client.acquire(question).await.unwrap();
    let retry = permit.retry(Outcome::failure()).await.unwrap();
    slept.store(600, SeqCst);
    let denied = retry.wait().await.unwrap_err();
    assert_eq!(denied.reason, DenialReason::Deadline);
}

#[tokio::test(start_paused = true)]
async fn b26c_a_permit_whose_life_ended_in_a_suspend_is_asked_for_anew() {
    let slept = Arc::default();
    let client = client_that_sleeps(&slept);
    let permit = client.acquire(question()).await.unwrap();
    let asked_at = permit.asked_at;
    tokio::time::advance(Duration::from_secs(1)).await;
    // A permit of this process lives for a day.
    slept.store(2 * 86_400, SeqCst);
    let permit = permit.wait().await.unwrap();
    assert!(permit.asked_at > asked_at, "another one");
}

#[tokio::test(start_paused = true)]
async fn b26c_a_short_sleep_leaves_the_permit_its_rest() {
    let slept = Arc::default();
    let client = client_that_sleeps(&slept);
    let mut permit = client.acquire(question()).await.unwrap();
    (permit.lives, permit.is_probe) = (Some(Duration::from_secs(60)), true);
    slept.store(20, SeqCst);
    let permit = permit.wait().await.unwrap();
    assert_eq!(permit.limit(), Some(Duration::from_secs(34)));
}
