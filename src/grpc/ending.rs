//! Streams that end when the service stops: what is ready is still sent, then the reader is
//! told to connect again. Without it every stop would wait for readers that never leave.
//! So do those of a connection that is to be left for its age.
//! They end, too, when their reader may not go on; then nothing more is sent.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures_core::Stream;
use tokio::sync::watch;
use tonic::Status;

use crate::access::{Place, Watcher};

const STOPS: &str = "the service is stopping; connect again";
const OLD: &str = "this connection is as old as it may get; connect again";

/// Says when a connection is to be left: among the extensions of each request for a stream.
#[derive(Clone, Debug)]
pub struct Leaving(watch::Receiver<bool>);

impl Leaving {
    pub fn new(leaving: watch::Receiver<bool>) -> Self {
        Self(leaving)
    }

    async fn told(this: Option<Self>) {
        match this {
            Some(Self(leaving)) => said(leaving).await,
            // Nobody knows of a connection.
            None => std::future::pending().await,
        }
    }
}

/// A stream that ends by itself, because the service stops, or since its connection is to be left.
pub struct Ending<Inner> {
    inner: Inner,
    /// `None` once the reader has been told.
    stop: Option<Pin<Box<dyn Future<Output = &'static str> + Send>>>,
    lapse: Pin<Box<dyn Future<Output = Status> + Send>>,
    /// One of those that its reader may have.
    _place: Option<Place<Watcher>>,
}

impl<Inner> Ending<Inner> {
    pub fn new(
        inner: Inner,
        stopped: watch::Receiver<bool>,
        leaving: Option<Leaving>,
        lapse: impl Future<Output = Status> + Send + 'static,
    ) -> Self {
        let stop = async move {
            tokio::select! {
                () = said(stopped) => STOPS,
                () = Leaving::told(leaving) => OLD,
            }
        };
        Self {
            inner,
            stop: Some(Box::pin(stop)),
            lapse: Box::pin(lapse),
            _place: None,
        }
    }

    /// Holds a place until it is dropped.
    #[must_use]
    pub fn holding(mut self, place: Option<Place<Watcher>>) -> Self {
        self._place = place;
        self
    }
}

/// Never, where whoever could say so has gone.
async fn said(mut yes: watch::Receiver<bool>) {
    if yes.wait_for(|yes| *yes).await.is_err() {
        std::future::pending::<()>().await;
    }
}

impl<Inner, Message> Stream for Ending<Inner>
where
    Inner: Stream<Item = Result<Message, Status>> + Unpin,
{
    type Item = Result<Message, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(stop) = &mut this.stop else {
            return Poll::Ready(None);
        };
        if let Poll::Ready(lapsed) = this.lapse.as_mut().poll(context) {
            this.stop = None;
            return Poll::Ready(Some(Err(lapsed)));
        }
        let stops = stop.as_mut().poll(context);
        match (Pin::new(&mut self.inner).poll_next(context), stops) {
            (Poll::Pending, Poll::Ready(why)) => {
                self.stop = None;
                Poll::Ready(Some(Err(Status::unavailable(why))))
            }
            // Polled again after its end, the future of the stop would panic.
            (polled, Poll::Ready(why)) => {
                self.stop = Some(Box::pin(std::future::ready(why)));
                polled
            }
            (polled, Poll::Pending) => polled,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::sync::mpsc;
    use tokio_stream::{StreamExt, wrappers::ReceiverStream};

    use super::*;

    #[tokio::test]
    async fn what_is_ready_is_sent_and_then_the_stop_is_told_once() {
        let (room, messages) = mpsc::channel(4);
        let (stop, stopped) = watch::channel(false);
        let mut stream = Ending::new(ReceiverStream::new(messages), stopped, None, pending());
        room.send(Ok(1)).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), 1);
        room.send(Ok(2)).await.unwrap();
        room.send(Ok(3)).await.unwrap();
        stop.send(true).unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), 2);
        assert_eq!(stream.next().await.unwrap().unwrap(), 3);
        let told = stream.next().await.unwrap().unwrap_err();
        assert_eq!(told.code(), tonic::Code::Unavailable);
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_that_ends_by_itself_is_not_told() {
        let (room, messages) = mpsc::channel::<Result<u8, Status>>(4);
        let (stop, stopped) = watch::channel(false);
        let mut stream = Ending::new(ReceiverStream::new(messages), stopped, None, pending());
        drop((room, stop));
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_on_a_connection_that_is_to_be_left_is_told_once() {
        let (room, messages) = mpsc::channel(4);
        let (_stop, stopped) = watch::channel(false);
        let (leave, leaving) = watch::channel(false);
        let leaving = Some(Leaving::new(leaving));
        let mut stream = Ending::new(ReceiverStream::new(messages), stopped, leaving, pending());
        room.send(Ok(1)).await.unwrap();
        leave.send(true).unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), 1);
        let told = stream.next().await.unwrap().unwrap_err();
        assert_eq!(told.code(), tonic::Code::Unavailable);
        assert!(told.message().contains("connect again"), "{told:?}");
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_may_not_go_on_gets_nothing_more() {
        let (room, messages) = mpsc::channel(4);
        let (_stop, stopped) = watch::channel(false);
        let lapse = ready(Status::unauthenticated("gone"));
        let mut stream = Ending::new(ReceiverStream::new(messages), stopped, None, lapse);
        room.send(Ok(1)).await.unwrap();
        let told = stream.next().await.unwrap().unwrap_err();
        assert_eq!(told.code(), tonic::Code::Unauthenticated);
        assert!(stream.next().await.is_none());
    }
}
