//! Tasks that fall, alone and together.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use holdoff_client::{Attempt, Client, DenialReason, Failure, Stopped, proto};
use tokio::time::Instant;

use crate::server::{Reply, Scripted, deny, go, grant, wire};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// When each start was made, and its number.
#[derive(Clone)]
struct Starts {
    begun: Instant,
    seen: Arc<Mutex<Vec<(Duration, u32)>>>,
}

impl Starts {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            seen: Arc::default(),
        }
    }

    fn note(&self, attempt: Attempt) -> usize {
        let mut seen = self.seen.lock().unwrap();
        seen.push((self.begun.elapsed(), attempt.number));
        seen.len()
    }

    fn at_ms(&self) -> Vec<u128> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(at, _)| at.as_millis()).collect()
    }

    fn numbers(&self) -> Vec<u32> {
        let seen = self.seen.lock().unwrap();
        seen.iter().map(|(_, number)| *number).collect()
    }
}

/// Fails so often, each time after so long, and then succeeds.
async fn falls(client: &Client, times: usize, after: Duration) -> Starts {
    let starts = Starts::new();
    let noted = starts.clone();
    let task = move |attempt| {
        let start = noted.note(attempt);
        async move {
            if start > times {
                return Ok(start);
            }
            tokio::time::sleep(after).await;
            Err("fell")
        }
    };
    let ended = client.supervise("consumer", task).await;
    assert_eq!(ended.unwrap(), times + 1);
    starts
}

#[tokio::test(start_paused = true)]
async fn a_task_that_falls_is_restarted_as_the_service_says_without_a_limit_of_attempts() {
    let service = Scripted::new(|question| grant(SECOND * (question.attempt - 1)));
    let client = service.client();
    let starts = falls(&client, 14, Duration::ZERO).await;
    assert_eq!(starts.numbers(), (1..=15).collect::<Vec<_>>());
    assert_eq!(starts.at_ms()[..4], [0, 1_000, 3_000, 6_000]);
    let questions = service.questions();
    let attempts: Vec<u32> = questions.iter().map(|q| q.attempt).collect();
    assert_eq!(attempts, (1..=15).collect::<Vec<_>>());
    assert!(
        questions
            .iter()
            .all(|q| q.safety() == proto::Safety::Idempotent)
    );
    assert!(client.flush(SECOND).await);
    assert_eq!(service.reported_kinds(), [proto::OutcomeKind::Success]);
}

#[tokio::test(start_paused = true)]
async fn the_first_start_is_made_without_a_question_where_first_attempts_go() {
    let service = Scripted::granting();
    let mut update = go(3);
    update.dependency = "consumer".into();
    service.pushes(update);
    let client = service.client();
    assert!(client.connect(SECOND).await);
    tokio::time::sleep(Duration::from_millis(1)).await;
    falls(&client, 1, Duration::ZERO).await;
    let questions = service.questions();
    assert_eq!(questions.len(), 1);
    let told = questions[0].previous.clone().unwrap();
    assert_eq!(told.made_under, Some(proto::previous::MadeUnder::Epoch(3)));
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_like_any_and_can_be_final() {
    let service = Scripted::granting();
    let client = service.client();
    let starts = Starts::new();
    let noted = starts.clone();
    let ended = client
        .supervise("consumer", move |attempt| {
            let start = noted.note(attempt);
            async move {
                assert!(start != 1, "the first one falls");
                if start == 2 {
                    Err("fell")
                } else {
                    panic!("number {start}")
                }
            }
        })
        .stop_if(
            |failure: &Failure<&str>| matches!(failure, Failure::Panic(text) if text == "number 3"),
        )
        .run::<(), _>()
        .await;
    assert!(
        matches!(ended, Err(Stopped::Final(Failure::Panic(_)))),
        "{ended:?}"
    );
    assert_eq!(starts.numbers(), [1, 2, 3]);
    assert!(client.flush(SECOND).await);
    assert_eq!(service.reported_kinds(), [proto::OutcomeKind::Failure]);
}

#[tokio::test(start_paused = true)]
async fn a_healthy_run_ends_a_series_and_the_next_fall_is_a_first_one_with_a_delay() {
    let service = Scripted::new(|question| grant(SECOND * (question.attempt - 1)));
    let client = service.client();
    let starts = Starts::new();
    let noted = starts.clone();
    let run = client
        .supervise("consumer", move |attempt| {
            let start = noted.note(attempt);
            async move {
                match start {
                    4 => tokio::time::sleep(MINUTE * 60).await,
                    6 => return Ok(()),
                    _ => {}
                }
                Err(())
            }
        })
        .healthy_after(Duration::from_secs(30));
    run.await.unwrap();
    assert_eq!(starts.numbers(), [1, 2, 3, 4, 2, 3]);
    let attempts: Vec<u32> = service.questions().iter().map(|q| q.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 2, 3]);
    assert!(client.flush(SECOND).await);
    let success = proto::OutcomeKind::Success;
    assert_eq!(
        service.reported_kinds(),
        [success, success],
        "told after 30 s, and at the end"
    );
}

#[tokio::test(start_paused = true)]
async fn a_start_is_reported_before_its_permit_ends_and_its_fall_still_counts_on() {
    let service = Scripted::new(|_| {
        crate::server::answer(proto::Grant {
            permit_ttl: Some(wire(Duration::from_secs(10))),
            ..crate::server::granted(Duration::ZERO)
        })
    });
    let client = service.client();
    let starts = falls(&client, 8, Duration::from_secs(20)).await;
    assert_eq!(starts.numbers(), (1..=9).collect::<Vec<_>>());
    let attempts: Vec<u32> = service.questions().iter().map(|q| q.attempt).collect();
    assert_eq!(
        attempts,
        [1, 2, 2, 2, 2, 2, 2, 2, 2],
        "a start that was told is over"
    );
    let gaps: Vec<u128> = starts
        .at_ms()
        .windows(2)
        .map(|w| w[1] - w[0] - 20_000)
        .collect();
    let ceilings = [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000];
    assert!(
        gaps.iter()
            .zip(ceilings)
            .all(|(gap, ceiling)| *gap <= ceiling + 2),
        "{gaps:?}"
    );
    assert!(
        gaps[4..].iter().sum::<u128>() > 1_000,
        "its own delays: {gaps:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn where_the_service_allows_no_further_attempt_own_delays_go_on_to_the_policys_longest() {
    let service = Scripted::new(|question| match question.attempt {
        1..=3 => grant(Duration::ZERO),
        _ => deny(proto::DenialReason::AttemptsExhausted, None),
    });
    let client = service.client();
    let starts = falls(&client, 400, Duration::ZERO).await;
    assert_eq!(starts.numbers(), (1..=401).collect::<Vec<_>>());
    let at = starts.at_ms();
    let gaps: Vec<u128> = at.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps.iter().all(|gap| *gap <= 10_002), "{gaps:?}");
    let late = &gaps[50..];
    let mean = late.iter().sum::<u128>() / late.len() as u128;
    assert!(
        (4_300..=5_700).contains(&mean),
        "uniform below 10 s: {mean} ms"
    );
}

#[tokio::test(start_paused = true)]
async fn a_denial_with_a_time_is_waited_for() {
    let mut asked = 0;
    let service = Scripted::new(move |_| {
        asked += 1;
        match asked {
            2 | 3 => deny(proto::DenialReason::BreakerOpen, Some(10 * SECOND)),
            _ => grant(Duration::ZERO),
        }
    });
    let starts = falls(&service.client(), 1, Duration::ZERO).await;
    assert_eq!(starts.at_ms(), [0, 20_000]);
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_budget_is_asked_again_and_not_gone_around() {
    let mut asked = 0;
    let service = Scripted::new(move |_| {
        asked += 1;
        match asked {
            2..=5 => deny(proto::DenialReason::BudgetExhausted, None),
            _ => grant(Duration::ZERO),
        }
    });
    falls(&service.client(), 1, Duration::ZERO).await;
    let attempts: Vec<u32> = service.questions().iter().map(|q| q.attempt).collect();
    assert_eq!(attempts, [1, 2, 2, 2, 2, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_service_is_no_reason_not_to_restart() {
    let service = Scripted::new(|_| Reply::Never);
    let starts = falls(&service.client(), 20, Duration::ZERO).await;
    assert_eq!(starts.numbers().len(), 21);
}

#[tokio::test(start_paused = true)]
async fn dropped_or_told_to_stop_the_task_is_aborted_wherever_it_is() {
    struct Ends(Arc<AtomicBool>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    let service = Scripted::granting();
    let client = service.client();
    let begin = |ended: &Arc<AtomicBool>| {
        let ended = Arc::clone(ended);
        client.supervise("consumer", move |_| {
            let guard = Ends(Arc::clone(&ended));
            async move {
                std::future::pending::<()>().await;
                drop(guard);
                Err::<(), _>(())
            }
        })
    };
    let ended = Arc::<AtomicBool>::default();
    let run = begin(&ended).until(tokio::time::sleep(SECOND));
    assert!(matches!(run.await, Err(Stopped::Told)));
    tokio::task::yield_now().await;
    assert!(ended.load(SeqCst));

    let ended = Arc::<AtomicBool>::default();
    drop(tokio::time::timeout(SECOND, begin(&ended).run()).await);
    tokio::task::yield_now().await;
    assert!(ended.load(SeqCst));
    assert!(client.flush(SECOND).await);
    let cancelled = proto::OutcomeKind::Cancelled;
    assert_eq!(service.reported_kinds(), [cancelled, cancelled]);
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_a_delay_ends_it() {
    let service = Scripted::new(|question| grant(MINUTE * (question.attempt - 1)));
    let client = service.client();
    let begun = Instant::now();
    let task = client.supervise("consumer", |_| async { Err::<(), _>(()) });
    let ended = task.until(tokio::time::sleep(SECOND)).run().await;
    assert!(matches!(ended, Err(Stopped::Told)));
    assert_eq!(begun.elapsed().as_secs(), 1);
}

#[tokio::test(start_paused = true)]
async fn in_testing_mode_it_gives_up_after_three_starts_without_waiting() {
    let begun = Instant::now();
    let starts = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&starts);
    let ended = Client::testing()
        .supervise("consumer", move |_| {
            counted.fetch_add(1, SeqCst);
            async { Err::<(), _>("fell") }
        })
        .await;
    match ended {
        Err(Stopped::GaveUp {
            last: Some(Failure::Error("fell")),
            why,
        }) => {
            assert_eq!(why.reason, DenialReason::AttemptsExhausted);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((starts.load(SeqCst), begun.elapsed()), (3, Duration::ZERO));
}

/// The second starts of 500 supervised tasks, each of a process of its own, that have run
/// for an hour and fall in the same instant; in ms after it.
async fn fall_together(service: &Scripted) -> Vec<u128> {
    const TASKS: usize = 500;
    let fall_at = Instant::now() + MINUTE * 60;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..TASKS {
        let client = service
            .builder()
            .instance(format!("i{number}"))
            .build()
            .unwrap();
        tasks.spawn(async move {
            let mut starts = 0;
            let task = move |_| {
                starts += 1;
                let start = starts;
                async move {
                    if start == 1 {
                        tokio::time::sleep_until(fall_at).await;
                        return Err(());
                    }
                    Ok(fall_at.elapsed().as_millis())
                }
            };
            client.supervise("consumer", task).await.unwrap()
        });
    }
    let mut at = Vec::new();
    while let Some(restarted) = tasks.join_next().await {
        at.push(restarted.unwrap());
    }
    at.sort_unstable();
    assert_eq!(at.len(), TASKS);
    at
}

fn fullest(at: &[u128], slot_ms: u128) -> usize {
    let slots = at.iter().map(|ms| ms / slot_ms).collect::<Vec<_>>();
    let busiest = slots.chunk_by(|a, b| a == b).map(<[u128]>::len).max();
    busiest.unwrap_or(0)
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_falls_together_comes_back_in_the_places_of_the_calendar() {
    // The service promises a place every 20 ms.
    let mut places = 0;
    let service = Scripted::new(move |question| match question.attempt {
        1 => grant(Duration::ZERO),
        _ => {
            places += 1;
            grant(Duration::from_millis(20) * places)
        }
    });
    let at = fall_together(&service).await;
    assert!(fullest(&at, 100) <= 6, "{at:?}");
    assert!(at[499] >= 9_900 && at[499] <= 10_100, "{}", at[499]);
    let questions = service.questions();
    let restarts = questions.iter().filter(|question| question.attempt == 2);
    assert_eq!(restarts.count(), 500);
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_falls_together_without_a_service_comes_back_spread() {
    let service = Scripted::granting();
    service.kill();
    let at = fall_together(&service).await;
    // Uniform in the first ceiling of 100 ms: fifty are expected in a tenth of it.
    assert!(at[499] <= 102, "{}", at[499]);
    assert!(fullest(&at, 10) <= 85, "{at:?}");
    assert!(at[0] <= 10 && at[499] >= 90);
    println!("fullest 10 ms of 100: {}", fullest(&at, 10));
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_keeps_falling_without_a_service_spreads_further_each_time() {
    const TASKS: usize = 500;
    let service = Scripted::granting();
    service.kill();
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let client = service.client();
        tasks.spawn(async move {
            let task = move |attempt: Attempt| async move {
                match attempt.number {
                    8 => Ok(begun.elapsed().as_millis()),
                    _ => Err(()),
                }
            };
            client.supervise("consumer", task).await.unwrap()
        });
    }
    let mut at = Vec::new();
    while let Some(restarted) = tasks.join_next().await {
        at.push(restarted.unwrap());
    }
    at.sort_unstable();
    let spread = at[474] - at[24];
    println!(
        "eighth starts: 90 % within {spread} ms, fullest 100 ms {}",
        fullest(&at, 100)
    );
    assert!(spread > 5_000, "{at:?}");
    assert!(fullest(&at, 100) <= 25, "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn a_trip_during_a_delay_ends_the_chain_and_the_refusal_is_waited_for() {
    let service = Scripted::new(|question| grant(MINUTE * (question.attempt - 1)));
    let client = service.client();
    let trip = {
        let service = service.clone();
        async move {
            tokio::time::sleep(SECOND).await;
            let mut update = crate::server::refuse(9, 10 * SECOND);
            update.dependency = "consumer".into();
            service.pushes_now(update).await;
        }
    };
    let (starts, ()) = tokio::join!(falls(&client, 1, Duration::ZERO), trip);
    let second = starts.at_ms()[1];
    assert!((11_000..=11_005).contains(&second), "{second}");
    let attempts: Vec<u32> = service.questions().iter().map(|q| q.attempt).collect();
    assert_eq!(attempts, [1, 2, 1]);
}
