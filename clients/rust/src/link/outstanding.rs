//! Questions on a stream that have no answer yet, by the id of their message.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use tokio::sync::oneshot;

use super::{ASKS_MAX, Ask, NoAnswer, Reply, Shared, Wanted};
use crate::proto;

#[derive(Debug, Default)]
pub(super) struct Outstanding {
    next_id: u64,
    batches: HashMap<u64, Asked>,
    /// The sequence numbers of reports.
    reports: HashMap<u64, u64>,
    questions: usize,
    /// The service has taken the stream.
    pub(super) is_open: bool,
    /// It has said something on it.
    pub(super) is_proven: bool,
}

#[derive(Debug)]
struct Asked {
    replies: Vec<oneshot::Sender<Reply>>,
    /// Kept until the stream is proven: a service without streams is asked without one.
    requests: Vec<proto::AcquireRequest>,
}

impl Outstanding {
    /// The message that asks them all.
    pub(super) fn ask(&mut self, shared: &Shared, asks: Vec<Ask>) -> Option<proto::SessionRequest> {
        if self.questions + asks.len() > ASKS_MAX {
            self.forget_those_given_up();
        }
        if self.questions + asks.len() > ASKS_MAX {
            asks.into_iter()
                .for_each(|ask| shared.reply(ask.reply, Err(NoAnswer::Busy)));
            return None;
        }
        self.questions += asks.len();
        let (requests, replies): (Vec<_>, Vec<_>) = asks
            .into_iter()
            .map(|ask| {
                ask.is_sent.store(true, Relaxed);
                (ask.request, ask.reply)
            })
            .unzip();
        let kept = match self.is_proven {
            true => Vec::new(),
            false => requests.clone(),
        };
        let id = self.id();
        let asked = Asked {
            replies,
            requests: kept,
        };
        self.batches.insert(id, asked);
        Some(proto::SessionRequest {
            id,
            message: Some(proto::session_request::Message::Acquire(
                proto::AcquireBatch { requests },
            )),
        })
    }

    pub(super) fn report(&mut self, report: proto::ReportRequest) -> proto::SessionRequest {
        let id = self.id();
        self.reports.insert(id, report.sequence);
        proto::SessionRequest {
            id,
            message: Some(proto::session_request::Message::Report(report)),
        }
    }

    /// Whom an answer to questions is for.
    pub(super) fn take(&mut self, id: u64) -> Vec<oneshot::Sender<Reply>> {
        let replies = self.batches.remove(&id).map(|asked| asked.replies);
        let replies = replies.unwrap_or_default();
        self.questions = self.questions.saturating_sub(replies.len());
        replies
    }

    /// The sequence number of a report.
    pub(super) fn take_report(&mut self, id: u64) -> Option<u64> {
        self.reports.remove(&id)
    }

    /// All questions whose requests were kept.
    pub(super) fn into_unsent(self) -> Vec<Wanted> {
        let ask = |(reply, request)| {
            let is_sent = Arc::default();
            Wanted::Answer(Box::new(Ask {
                request,
                reply,
                is_sent,
            }))
        };
        self.batches
            .into_values()
            .flat_map(|asked| asked.replies.into_iter().zip(asked.requests).map(ask))
            .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.reports.is_empty()
    }

    /// 0 is what is pushed.
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// A message of which somebody still waits is kept whole, since answers have its order.
    /// A permit in a forgotten answer ends by itself.
    fn forget_those_given_up(&mut self) {
        self.batches
            .retain(|_, asked| asked.replies.iter().any(|reply| !reply.is_closed()));
        self.questions = self.batches.values().map(|asked| asked.replies.len()).sum();
    }
}
