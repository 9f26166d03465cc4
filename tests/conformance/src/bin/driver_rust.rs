//! The driver of the Rust client: plays the client's side of scenarios as
//! `docs/conformance.md` says.
//!
//! With `--broken` it does what no driver may, for the test that shows that this is found: it
//! takes every call for idempotent.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use holdoff_client::{
    Attempt, CallError, Client, Denied, OnDenied, OnNoDecision, Outcome, OutcomeKind, Permit,
    Priority, Question, Safety, classify,
};
use holdoff_conformance::{fetch, normal::word, request};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tonic::{Status, metadata::MetadataMap};

const CLOSE: Duration = Duration::from_millis(300);

#[tokio::main]
async fn main() -> Result<()> {
    let is_broken = std::env::args().any(|argument| argument == "--broken");
    let output = Arc::new(tokio::sync::Mutex::new(tokio::io::stdout()));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut playing = tokio::task::JoinSet::new();
    while let Some(line) = lines.next_line().await? {
        let output = Arc::clone(&output);
        playing.spawn(async move {
            let line: Value = serde_json::from_str(&line)?;
            let mut answer = match play(&line, is_broken).await {
                Ok(results) => json!({"results": results}),
                Err(why) => json!({"failed": format!("{why:#}")}),
            };
            answer["id"] = line["id"].clone();
            let mut output = output.lock().await;
            output.write_all(format!("{answer}\n").as_bytes()).await?;
            output.flush().await?;
            anyhow::Ok(())
        });
    }
    while let Some(played) = playing.join_next().await {
        played??;
    }
    Ok(())
}

/// One scenario.
struct Play {
    client: Client,
    control: String,
    permits: HashMap<String, Permit>,
    is_broken: bool,
    results: Vec<Value>,
}

async fn play(line: &Value, is_broken: bool) -> Result<Vec<Value>> {
    let mut play = Play {
        client: client(line)?,
        control: text(line, "control")?.to_owned(),
        permits: HashMap::new(),
        is_broken,
        results: Vec::new(),
    };
    for step in line["client"]["steps"].as_array().context("no steps")? {
        play.step(step).await?;
    }
    play.permits.clear();
    play.client.flush(CLOSE).await;
    Ok(play.results)
}

fn client(line: &Value) -> Result<Client> {
    let options = &line["client"]["options"];
    if options["mode"] == "testing" {
        return Ok(Client::testing());
    }
    let names = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(|name| name.as_str().map(str::to_owned))
            .collect()
    };
    let endpoints = names(&line["endpoints"]);
    let or = |name: &str, otherwise: &str| options[name].as_str().unwrap_or(otherwise).to_owned();
    let client = Client::builder()
        .endpoints(
            endpoints
                .iter()
                .map(|endpoint| format!("http://{endpoint}")),
        )
        .service(or("service", "checkout"))
        .instance(or("instance", "test-1"))
        .namespace(or("namespace", ""))
        .timeout(millis(&options["timeout_ms"]).unwrap_or(Duration::from_millis(50)))
        .follow(names(&options["follow"]))
        .on_no_decision(match options["on_no_decision"].as_str() {
            None | Some("local") => OnNoDecision::Local,
            Some("allow") => OnNoDecision::Allow,
            Some("deny") => OnNoDecision::Deny,
            Some(other) => bail!("on_no_decision `{other}`"),
        });
    Ok(client.build()?)
}

fn text<'a>(json: &'a Value, name: &str) -> Result<&'a str> {
    json[name]
        .as_str()
        .with_context(|| format!("no `{name}` in {json}"))
}

fn millis(value: &Value) -> Option<Duration> {
    value.as_u64().map(Duration::from_millis)
}

impl Play {
    async fn step(&mut self, step: &Value) -> Result<()> {
        let within = millis(&step["within_ms"]).unwrap_or(Duration::from_secs(1));
        let result = match text(step, "do")? {
            "connect" => Some(json!({"done": self.client.connect(within).await})),
            "flush" => Some(json!({"done": self.client.flush(within).await})),
            "wait" => {
                tokio::time::sleep(millis(&step["ms"]).unwrap_or_default()).await;
                None
            }
            "server" => {
                self.ask_server(text(step, "action")?).await?;
                None
            }
            "call" => Some(self.calls(step).await?),
            "request" => Some(request::send(&self.client, step).await?),
            "parallel" => {
                let calls = step["calls"].as_array().context("no calls")?;
                let calls = calls.iter().map(|call| self.calls(call));
                for (call, result) in calls_of(step).zip(all(calls).await) {
                    self.results.push(named(call, result?));
                }
                None
            }
            "acquire" => {
                let asked = self.client.acquire(self.question(step)?).await;
                Some(self.keep(step, asked).await?)
            }
            "retry" => {
                let asked = self.permit(step)?.retry(outcome(&step["outcome"])?).await;
                Some(self.keep(step, asked).await?)
            }
            "report" => {
                self.permit(step)?.report(outcome(&step["outcome"])?);
                None
            }
            "drop" => {
                drop(self.permit(step)?);
                None
            }
            "until_fleet" => Some(self.until_fleet(step, within).await?),
            "repeat" => Some(self.repeat(step).await?),
            other => bail!("no step `{other}`"),
        };
        if let Some(result) = result.filter(|_| !step["name"].is_null()) {
            self.results.push(named(step, result));
        }
        Ok(())
    }

    async fn ask_server(&self, action: &str) -> Result<()> {
        let mut socket = tokio::net::TcpStream::connect(&self.control).await?;
        socket.write_all(format!("{action}\n").as_bytes()).await?;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await?;
        match answer.trim_end() {
            "done" => Ok(()),
            other => bail!("the server said `{other}`"),
        }
    }

    fn permit(&mut self, step: &Value) -> Result<Permit> {
        let name = text(step, "permit")?;
        self.permits
            .remove(name)
            .with_context(|| format!("no permit `{name}`"))
    }

    async fn keep(&mut self, step: &Value, asked: Result<Permit, Denied>) -> Result<Value> {
        let asked = match asked {
            Ok(permit) => permit.wait().await,
            Err(denied) => Err(denied),
        };
        Ok(match asked {
            Ok(permit) => {
                let shown = json!({
                    "granted": true,
                    "attempt": permit.attempt(),
                    "probe": permit.is_probe(),
                    "local": permit.is_local(),
                });
                self.permits.insert(text(step, "name")?.to_owned(), permit);
                shown
            }
            Err(denied) => {
                let mut shown = stopped(&denied);
                shown["granted"] = json!(false);
                shown
            }
        })
    }

    async fn until_fleet(&self, step: &Value, within: Duration) -> Result<Value> {
        let begun = Instant::now();
        let every = millis(&step["every_ms"]).unwrap_or(Duration::from_millis(20));
        let dependency = text(step, "dependency")?;
        while begun.elapsed() < within {
            let is_local = AtomicBool::new(true);
            let call = self.client.call(dependency);
            let run = call.run(|attempt| {
                is_local.store(attempt.is_local, SeqCst);
                async { Ok::<_, ()>(()) }
            });
            if run.await.is_ok() && !is_local.load(SeqCst) {
                return Ok(json!({"back": true, "after_ms": whole_millis(begun)}));
            }
            tokio::time::sleep(every).await;
        }
        Ok(json!({"back": false, "after_ms": whole_millis(begun)}))
    }

    /// Calls, one each `every_ms`, for so long.
    async fn repeat(&self, step: &Value) -> Result<Value> {
        let lasts = millis(&step["for_ms"]).context("no for_ms")?;
        let every = millis(&step["every_ms"]).context("no every_ms")?;
        let begun = Instant::now();
        let (mut calls, mut succeeded, mut refused) = (0, 0, 0);
        while begun.elapsed() < lasts {
            let shown = self.call(step).await?;
            calls += 1;
            succeeded += u32::from(!shown["value"].is_null());
            refused += u32::from(shown["runs"] == 0);
            tokio::time::sleep(every).await;
        }
        Ok(json!({"calls": calls, "succeeded": succeeded, "refused": refused}))
    }

    fn question(&self, step: &Value) -> Result<Question> {
        let mut question = Question::new(text(step, "dependency")?);
        if step["idempotent"] == true || self.is_broken {
            question = question.safety(Safety::Idempotent);
        }
        if let Some(deadline) = millis(&step["deadline_ms"]) {
            question = question.deadline(deadline);
        }
        if let Some(most) = step["max_attempts"].as_u64() {
            question = question.max_attempts(u32::try_from(most)?);
        }
        if let Some(timeout) = millis(&step["attempt_timeout_ms"]) {
            question = question.attempt_timeout(timeout);
        }
        if let Some(cost) = step["cost"].as_u64() {
            question = question.cost(u32::try_from(cost)?);
        }
        if let Some(id) = step["call_id"].as_str() {
            question = question.call_id(id);
        }
        Ok(match step["priority"].as_str() {
            None | Some("normal") => question,
            Some("low") => question.priority(Priority::Low),
            Some("high") => question.priority(Priority::High),
            Some(other) => bail!("priority `{other}`"),
        })
    }

    /// One call after the other.
    async fn calls(&self, step: &Value) -> Result<Value> {
        let mut last = Value::Null;
        let (mut runs, mut longest) = (0, 0);
        for _ in 0..step["times"].as_u64().unwrap_or(1) {
            last = self.call(step).await?;
            runs += last["runs"].as_u64().unwrap_or_default();
            longest = longest.max(last["total_ms"].as_u64().unwrap_or_default());
        }
        (last["runs"], last["total_ms"]) = (json!(runs), json!(longest));
        Ok(last)
    }

    async fn call(&self, step: &Value) -> Result<Value> {
        let function = Function::new(step)?;
        let on_denied = match step["on_denied"].as_str() {
            None | Some("fail") => OnDenied::Fail,
            Some("wait") => OnDenied::Wait,
            Some(other) => bail!("on_denied `{other}`"),
        };
        let call = self.client.call(self.question(step)?);
        let call = call.on_denied(on_denied).classify(read);
        let operation = |attempt| function.run(attempt);
        let ended = async {
            match step["fallback"].as_str() {
                None => call.run(operation).await,
                Some(value) => {
                    let value = value.to_owned();
                    call.run_or(operation, |_| async { Ok(value) }).await
                }
            }
        };
        let ended = match millis(&step["cancel_after_ms"]) {
            None => Some(ended.await),
            Some(after) => tokio::time::timeout(after, ended).await.ok(),
        };
        let mut shown = match ended {
            Some(Ok(value)) => json!({"value": value, "error": null, "reason": null, "by": null,
                "retry_after_ms": null}),
            Some(Err(error)) => failed(&error),
            None => json!({"value": null, "error": null, "reason": "CANCELLED", "by": "CALLER",
                "retry_after_ms": null}),
        };
        shown["runs"] = json!(function.runs.load(SeqCst));
        shown["starts_ms"] = json!(*function.starts());
        shown["total_ms"] = json!(whole_millis(function.begun));
        Ok(shown)
    }
}

fn calls_of(step: &Value) -> impl Iterator<Item = &Value> {
    step["calls"].as_array().into_iter().flatten()
}

/// All at once; the results in their order.
async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut is_ready = true;
        for (future, result) in &mut futures {
            if result.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *result = Some(value),
                    std::task::Poll::Pending => is_ready = false,
                }
            }
        }
        match is_ready {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    futures
        .into_iter()
        .filter_map(|(_, result)| result)
        .collect()
}

fn named(step: &Value, mut result: Value) -> Value {
    result["name"] = step["name"].clone();
    result
}

fn stopped(denied: &Denied) -> Value {
    json!({
        "reason": word(&denied.reason),
        "by": word(&denied.by),
        "retry_after_ms": denied.retry_after.map(|wait| wait.as_millis() as u64),
    })
}

fn failed(error: &CallError<Failed>) -> Value {
    let mut shown = stopped(&error.why);
    shown["value"] = Value::Null;
    shown["error"] = json!(error.last.as_ref().map(Failed::text));
    shown
}

fn whole_millis(begun: Instant) -> u64 {
    begun.elapsed().as_millis() as u64
}

/// What the user's function does at each of its runs.
struct Function<'a> {
    entries: &'a [Value],
    takes: Duration,
    begun: Instant,
    runs: AtomicUsize,
    starts: Mutex<Vec<u64>>,
}

impl<'a> Function<'a> {
    fn new(step: &'a Value) -> Result<Self> {
        let entries = step["function"].as_array().context("no function")?;
        if entries.is_empty() {
            bail!("a function does something");
        }
        Ok(Self {
            entries,
            takes: millis(&step["takes_ms"]).unwrap_or_default(),
            begun: Instant::now(),
            runs: AtomicUsize::new(0),
            starts: Mutex::default(),
        })
    }

    fn starts(&self) -> std::sync::MutexGuard<'_, Vec<u64>> {
        self.starts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, attempt: Attempt) -> Result<String, Failed> {
        let run = self.runs.fetch_add(1, SeqCst);
        self.starts().push(whole_millis(self.begun));
        let entry = self.entries.get(run).or(self.entries.last());
        let entry = entry.unwrap_or(&Value::Null);
        let takes = millis(&entry["takes_ms"]).unwrap_or(self.takes);
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        if let Some(url) = entry["get"].as_str() {
            let answer = fetch::get(url, attempt.number, attempt.is_probe).await;
            let status = answer.map_err(|why| Failed::Plain(format!("{why:#}")))?;
            return match StatusCode::from_u16(status) {
                Ok(status) if status.is_success() => Ok("got".to_owned()),
                Ok(status) => Err(Failed::Http(status, HeaderMap::new())),
                Err(why) => Err(Failed::Plain(why.to_string())),
            };
        }
        match entry["ok"].as_str() {
            Some(value) => Ok(value.to_owned()),
            None => Err(Failed::of(entry)),
        }
    }
}

/// How the user's function fails.
#[derive(Debug)]
enum Failed {
    Plain(String),
    Http(StatusCode, HeaderMap),
    Grpc(Box<Status>),
}

impl Failed {
    fn of(entry: &Value) -> Self {
        if let Some(code) = entry["http"].as_u64() {
            let status = u16::try_from(code).ok();
            let status = status.and_then(|code| StatusCode::from_u16(code).ok());
            return Self::Http(status.unwrap_or_default(), headers(&entry["headers"]));
        }
        if let Some(code) = entry["grpc"].as_i64() {
            let metadata = MetadataMap::from_headers(headers(&entry["trailers"]));
            let code = i32::try_from(code).unwrap_or(2).into();
            return Self::Grpc(Box::new(Status::with_metadata(code, "scripted", metadata)));
        }
        Self::Plain(
            entry["error"]
                .as_str()
                .unwrap_or("no such function")
                .to_owned(),
        )
    }

    fn text(&self) -> String {
        match self {
            Self::Plain(text) => text.clone(),
            Self::Http(status, _) => format!("http {}", status.as_u16()),
            Self::Grpc(status) => format!("grpc {}", status.code() as i32),
        }
    }
}

fn headers(json: &Value) -> HeaderMap {
    let fields = json.as_object().into_iter().flatten();
    fields
        .filter_map(|(name, value)| {
            let name: HeaderName = name.parse().ok()?;
            let value: HeaderValue = value.as_str()?.parse().ok()?;
            Some((name, value))
        })
        .collect()
}

fn read(result: &Result<String, Failed>) -> Outcome {
    match result {
        Ok(_) => Outcome::success(),
        Err(Failed::Plain(_)) => Outcome::failure(),
        Err(Failed::Http(status, headers)) => classify::http(*status, headers),
        Err(Failed::Grpc(status)) => classify::grpc(status),
    }
}

fn outcome(json: &Value) -> Result<Outcome> {
    let mut outcome = Outcome::new(match text(json, "kind")? {
        "success" => OutcomeKind::Success,
        "failure" => OutcomeKind::Failure,
        "timeout" => OutcomeKind::Timeout,
        "not_sent" => OutcomeKind::NotSent,
        "throttled" => OutcomeKind::Throttled,
        "rejected" => OutcomeKind::Rejected,
        "ignored" => OutcomeKind::Ignored,
        "cancelled" => OutcomeKind::Cancelled,
        other => bail!("no kind `{other}`"),
    });
    if let Some(wait) = millis(&json["pushback_ms"]) {
        outcome = outcome.pushback(wait);
    }
    if json["do_not_retry"] == true {
        outcome = outcome.do_not_retry();
    }
    if json["retried_below"] == true {
        outcome = outcome.retried_below();
    }
    if let Some(code) = json["status_code"].as_u64() {
        outcome = outcome.status_code(u32::try_from(code)?);
    }
    Ok(outcome)
}
