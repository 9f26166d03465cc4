//! Streams that end when the service stops: what is ready is still sent, then the reader is
//! told to connect again. Without it every stop would wait for readers that never leave.
//! They end, too, when their reader may not go on; then nothing more is sent.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use futures_core::Stream;
use tokio::sync::watch;
use tonic::Status;

/// A stream that ends by itself, or because the service stops.
pub struct Ending<Inner> {
    inner: Inner,
    /// `None` once the reader has been told.
    stop: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    lapse: Pin<Box<dyn Future<Output = Status> + Send>>,
}

impl<Inner> Ending<Inner> {
    pub fn new(
        inner: Inner,
        mut stopped: watch::Receiver<bool>,
        lapse: impl Future<Output = Status> + Send + 'static,
    ) -> Self {
        let stop = async move {
            if stopped.wait_for(|stopped| *stopped).await.is_err() {
                // Who could say stop has gone without doing so.
                std::future::pending::<()>().await;
            }
        };
        Self {
            inner,
            stop: Some(Box::pin(stop)),
            lapse: Box::pin(lapse),
        }
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
        let stops = stop.as_mut().poll(context).is_ready();
        match Pin::new(&mut self.inner).poll_next(context) {
            Poll::Pending if stops => {
                self.stop = None;
                let told = Status::unavailable("the service is stopping; connect again");
                Poll::Ready(Some(Err(told)))
            }
            // Polled again after its end, the future of the stop would panic.
            polled if stops => {
                self.stop = Some(Box::pin(std::future::ready(())));
                polled
            }
            polled => polled,
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
        let mut stream = Ending::new(ReceiverStream::new(messages), stopped, pending());
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
        let mut stream = Ending::new(ReceiverStream::new(messages), stopped, pending());
        drop((room, stop));
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn a_reader_that_may_not_go_on_gets_nothing_more() {
        let (room, messages) = mpsc::channel(4);
        let (_stop, stopped) = watch::channel(false);
        let lapse = ready(Status::unauthenticated("gone"));
        let mut stream = Ending::new(ReceiverStream::new(messages), stopped, lapse);
        room.send(Ok(1)).await.unwrap();
        let told = stream.next().await.unwrap().unwrap_err();
        assert_eq!(told.code(), tonic::Code::Unauthenticated);
        assert!(stream.next().await.is_none());
    }
}
