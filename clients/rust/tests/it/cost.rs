//! What a guarded call costs where no question is needed. Printed, and asserted nowhere:
//! the time of a test depends on its machine. `cargo test --release -p holdoff-client cost --
//! --nocapture`

use std::time::{Duration, Instant};

use holdoff_client::{Outcome, Question, Safety};

use crate::server::{Scripted, go};

const CALLS: u32 = 100_000;

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_guarded_call_on_pushed_state() {
    let service = Scripted::granting();
    service.pushes(go(1));
    let client = service.client();
    assert!(client.connect(Duration::from_secs(1)).await);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let question = Question::new("payments").safety(Safety::Idempotent);

    let begun = Instant::now();
    for _ in 0..CALLS {
        let call = client.call(question.clone());
        call.run(|_| async { Ok::<_, ()>(()) }).await.unwrap();
    }
    println!("call().run():         {:?} a call", begun.elapsed() / CALLS);

    let begun = Instant::now();
    for _ in 0..CALLS {
        let permit = client.acquire(question.clone()).await.unwrap();
        permit.report(Outcome::success());
    }
    println!("acquire() + report(): {:?} a call", begun.elapsed() / CALLS);

    assert_eq!(client.counters().pushed_grants, u64::from(2 * CALLS));
    assert_eq!(service.questions().len(), 0);
}
