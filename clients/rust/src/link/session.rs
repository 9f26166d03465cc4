//! One stream. The writer sends whatever is queued when it wakes as one message, so that
//! questions asked together travel together; the reader hands answers out by id.

use std::sync::{Mutex, MutexGuard, PoisonError};

use prost::Message as _;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Duration, Instant},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::{
    Ask, End, NoAnswer, Shared, Wanted, following::Following, is_configuration,
    outstanding::Outstanding, tell,
};
use crate::{
    credentials::Route,
    proto::{
        self, AcquireBatchResponse, SessionRequest, SessionResponse,
        coordinator_service_client::CoordinatorServiceClient, session_response,
    },
    reports::{Batch, MESSAGE_BYTES_MAX},
};

/// Questions in one message.
const BATCH_MAX: usize = 1_000;
/// Messages that the connection has not taken yet.
const MESSAGES_AHEAD: usize = 8;
/// The last outcomes of a client that is gone are waited for so long.
const FAREWELL: Duration = Duration::from_secs(1);

/// A service that nobody waits for any longer has so long to take a new stream.
const SEARCH: Duration = Duration::from_secs(1);
/// A gap between questions is waited for so long.
const GAP: Duration = Duration::from_millis(100);

struct Session<'a> {
    shared: &'a Shared,
    outstanding: Mutex<Outstanding>,
    following: Mutex<Following>,
    waiting_for_connection: Mutex<Vec<oneshot::Sender<bool>>>,
}

/// Until the stream ends. Also returns the questions that were never taken, where there is
/// no such stream.
pub(super) async fn run(
    shared: &Shared,
    (index, channel): (usize, Route),
    first: Vec<Wanted>,
    wanted: &mut mpsc::Receiver<Wanted>,
) -> (End, Vec<Wanted>) {
    let session = Session {
        shared,
        outstanding: Mutex::default(),
        following: Mutex::default(),
        waiting_for_connection: Mutex::default(),
    };
    let (out, outbound) = mpsc::channel(MESSAGES_AHEAD);
    let mut silent = std::pin::pin!(shared.silent.notified());
    silent.as_mut().enable();
    let end = tokio::select! {
        end = session.read(channel, outbound) => end,
        end = session.write(out, first, wanted) => end,
        () = silent => End::Silent,
        () = session.unheard() => End::Silent,
        () = session.homecoming(index) => End::Again,
    };
    session.close(end)
}

impl Session<'_> {
    async fn write(
        &self,
        out: mpsc::Sender<SessionRequest>,
        first: Vec<Wanted>,
        wanted: &mut mpsc::Receiver<Wanted>,
    ) -> End {
        let mut next = first;
        let mut leaving = Following::schedule();
        let mut is_open = self
            .send_messages(&out, Following::greeting(self.shared))
            .await;
        while is_open {
            is_open = self.send(&out, std::mem::take(&mut next)).await;
            // Fair, so that under load neither starves the other.
            tokio::select! {
                count = wanted.recv_many(&mut next, BATCH_MAX) => if count == 0 {
                    return self.farewell(&out).await;
                },
                () = self.shared.reports.due() => is_open &= self.send_report(&out).await,
                _ = leaving.tick() => {
                    let leave = lock(&self.following).leave_idle(self.shared);
                    is_open &= self.send_messages(&out, leave).await;
                }
            }
        }
        // The reader knows why the stream ended.
        std::future::pending().await
    }

    /// False: the stream is over.
    async fn send_messages(
        &self,
        out: &mpsc::Sender<SessionRequest>,
        messages: impl IntoIterator<Item = SessionRequest>,
    ) -> bool {
        for message in messages {
            if out.send(message).await.is_err() {
                return false;
            }
        }
        true
    }

    /// False: the stream is over.
    async fn send(&self, out: &mpsc::Sender<SessionRequest>, wanted: Vec<Wanted>) -> bool {
        let asks = self.asks_of(wanted);
        let tells_a_failure = asks.iter().any(|ask| ask.request.previous.is_some());
        if tells_a_failure && !self.send_all_reports(out).await {
            return false;
        }
        let names = asks.iter().map(|ask| &*ask.request.dependency);
        let again = lock(&self.following).resume(names);
        if !self.send_messages(out, again).await {
            return false;
        }
        for asks in in_messages(asks) {
            let message = self.outstanding().ask(self.shared, asks);
            if let Some(message) = message
                && out.send(message).await.is_err()
            {
                return false;
            }
        }
        true
    }

    /// Questions that somebody still waits for.
    fn asks_of(&self, wanted: Vec<Wanted>) -> Vec<Ask> {
        let mut asks = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            match wanted {
                Wanted::Answer(ask) if ask.reply.is_closed() => {}
                Wanted::Answer(ask) => asks.push(*ask),
                Wanted::Connection(reply) if self.outstanding().is_open => {
                    tell(reply, true);
                }
                Wanted::Connection(reply) => lock(&self.waiting_for_connection).push(reply),
            }
        }
        asks
    }

    /// All that waits. False: the stream is over.
    async fn send_all_reports(&self, out: &mpsc::Sender<SessionRequest>) -> bool {
        while let Some(batch) = self.shared.reports.take() {
            if !self.send_batch(out, batch).await {
                return false;
            }
        }
        true
    }

    async fn send_report(&self, out: &mpsc::Sender<SessionRequest>) -> bool {
        match self.shared.reports.take() {
            Some(batch) => self.send_batch(out, batch).await,
            None => true,
        }
    }

    async fn send_batch(&self, out: &mpsc::Sender<SessionRequest>, batch: Batch) -> bool {
        let report = proto::ReportRequest {
            namespace: self.shared.hello.namespace.clone(),
            caller: self.shared.hello.caller.clone(),
            entries: batch.entries,
            sequence: batch.sequence,
        };
        let message = self.outstanding().report(report);
        out.send(message).await.is_ok()
    }

    async fn farewell(&self, out: &mpsc::Sender<SessionRequest>) -> End {
        let said = async {
            self.send_all_reports(out).await;
            while !self.outstanding().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // Whoever has no time for the answer has at least sent it.
        let _ = tokio::time::timeout(FAREWELL, said).await;
        End::Unwanted
    }

    /// Leaves for the preferred endpoint, between questions if they leave a gap.
    async fn homecoming(&self, index: usize) {
        self.shared.dialer.preferred_is_back(index).await;
        let between = async {
            while !self.outstanding().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        let _ = tokio::time::timeout(GAP, between).await;
    }

    async fn read(&self, channel: Route, outbound: mpsc::Receiver<SessionRequest>) -> End {
        let mut client = CoordinatorServiceClient::new(channel);
        let opened = client.session(ReceiverStream::new(outbound)).await;
        let mut inbound = match opened {
            Ok(response) => response.into_inner(),
            Err(status) => return self.end_of(&status),
        };
        self.opened();
        loop {
            match inbound.message().await {
                Ok(Some(message)) => self.take(message),
                Ok(None) => return self.broken(),
                Err(status) => return self.end_of(&status),
            }
        }
    }

    /// Returns where the service is looked for at nobody's wait and does not even take the stream.
    async fn unheard(&self) {
        let was_shut = self.shared.gate.shut_until(Instant::now()).is_some();
        tokio::time::sleep(SEARCH).await;
        let is_awaited = !was_shut && !self.shared.patience.is_over();
        if is_awaited || self.outstanding().is_open {
            std::future::pending().await
        }
    }

    fn opened(&self) {
        self.shared.heard();
        self.outstanding().is_open = true;
        for reply in std::mem::take(&mut *lock(&self.waiting_for_connection)) {
            tell(reply, true);
        }
    }

    fn end_of(&self, status: &Status) -> End {
        let is_proven = self.outstanding().is_proven;
        match status.code() {
            Code::Unimplemented if !is_proven => End::Unimplemented,
            code if is_configuration(code) => {
                // Told first, so that it is not told as a connection that broke.
                let (standing, address) = (&self.shared.standing, self.shared.address());
                standing.unreachable(&address, status.message());
                self.broken()
            }
            _ => self.broken(),
        }
    }

    fn broken(&self) -> End {
        End::Broken {
            answered: self.outstanding().is_proven,
        }
    }

    fn take(&self, response: SessionResponse) {
        let id = response.id;
        match response.message {
            Some(session_response::Message::Acquired(answers)) => self.hand_out(id, answers),
            Some(session_response::Message::Reported(_)) => self.reported(id, true),
            Some(session_response::Message::Update(update)) => self.shared.pushed.store(update),
            Some(session_response::Message::Status(status)) => self.refused(id, &status),
            // Something newer than this client.
            None => {}
        }
        self.outstanding().is_proven = true;
    }

    fn hand_out(&self, id: u64, answers: AcquireBatchResponse) {
        let replies = self.outstanding().take(id);
        let mut items = answers.items.into_iter();
        for reply in replies {
            let answer = match items.next().and_then(|item| item.result) {
                Some(proto::acquire_item::Result::Response(response)) => Ok(response),
                Some(proto::acquire_item::Result::Status(status)) => Err(failed(&status)),
                None => Err(NoAnswer::Failed(Code::Internal, "no answer in it".into())),
            };
            self.shared.reply(reply, answer);
        }
    }

    fn reported(&self, id: u64, was_taken: bool) {
        let sequence = self.outstanding().take_report(id);
        if let Some(sequence) = sequence {
            self.shared.reports.answered(sequence, was_taken);
        }
    }

    /// A whole message was refused.
    fn refused(&self, id: u64, status: &tonic_types::Status) {
        if id == 0 {
            self.shared.warn_following(&status.message);
        }
        self.reported(id, false);
        let replies = self.outstanding().take(id);
        for reply in replies {
            self.shared.reply(reply, Err(failed(status)));
        }
    }

    fn close(self, end: End) -> (End, Vec<Wanted>) {
        let outstanding = self.outstanding.into_inner();
        let outstanding = outstanding.unwrap_or_else(PoisonError::into_inner);
        let waiting = self.waiting_for_connection.into_inner();
        let waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        match end {
            End::Unimplemented => {
                let mut unsent = outstanding.into_unsent();
                unsent.extend(waiting.into_iter().map(Wanted::Connection));
                (end, unsent)
            }
            // Dropped, the questions are lost, and those who wait learn it at once.
            End::Unwanted | End::Broken { .. } | End::Silent | End::Again => (end, Vec::new()),
        }
    }

    fn outstanding(&self) -> MutexGuard<'_, Outstanding> {
        lock(&self.outstanding)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(status: &tonic_types::Status) -> NoAnswer {
    NoAnswer::Failed(Code::from(status.code), status.message.clone())
}

/// Groups that the service takes as one message each.
fn in_messages(asks: Vec<Ask>) -> Vec<Vec<Ask>> {
    let mut messages: Vec<Vec<Ask>> = Vec::new();
    let mut bytes = usize::MAX;
    for ask in asks {
        let size = ask.request.encoded_len() + 8;
        bytes = bytes.saturating_add(size);
        match messages.last_mut() {
            Some(last) if bytes <= MESSAGE_BYTES_MAX && last.len() < BATCH_MAX => last.push(ask),
            Some(_) | None => {
                messages.push(vec![ask]);
                bytes = size;
            }
        }
    }
    messages
}

/// A question that nobody waits for, for tests of the grouping.
#[cfg(test)]
fn ask_of(bytes: usize) -> Ask {
    let (reply, _) = oneshot::channel();
    Ask {
        request: proto::AcquireRequest {
            call_id: "x".repeat(bytes),
            ..Default::default()
        },
        reply,
        is_sent: Default::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_holds_at_most_a_thousand_questions_and_what_the_service_takes() {
        let sizes =
            |asks: Vec<Ask>| -> Vec<usize> { in_messages(asks).iter().map(Vec::len).collect() };
        let small = (0..2_100).map(|_| ask_of(16)).collect();
        assert_eq!(sizes(small), [1_000, 1_000, 100]);
        let large = (0..30).map(|_| ask_of(10_000)).collect();
        assert_eq!(sizes(large), [19, 11]);
        assert!(sizes(Vec::new()).is_empty());
    }
}
