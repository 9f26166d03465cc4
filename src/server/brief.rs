//! The connections of the HTTP side: few at once, and none that stands still, so that what
//! hangs there takes neither descriptors nor memory from the calls of clients. One that finds
//! no room waits in the backlog of the listener.

use std::{
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::connect_info::Connected,
    serve::{IncomingStream, Listener},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};

use super::{
    connection::SPEAK_WITHIN,
    tls::{Port, Tls, Wire},
};
use crate::access::Peer;

/// Connections at once, at most: whoever scrapes or probes needs one for some milliseconds.
pub const ROOM_MAX: usize = 1_024;
/// One that moves no byte for so long is cut off. Not a usual interval of scrapes, so that
/// none of them meets the cut.
const STILL_FOR: Duration = Duration::from_secs(7);

/// A listener with room for few.
#[derive(Debug)]
pub struct Brief {
    listener: TcpListener,
    places: Arc<Semaphore>,
    tls: Option<Tls>,
}

/// A connection that holds its place for as long as it lasts.
#[derive(Debug)]
pub struct BriefConnection {
    stream: Wire,
    still: Pin<Box<Sleep>>,
    /// `None` only if the semaphore was closed, which nobody does.
    _place: Option<OwnedSemaphorePermit>,
}

impl Brief {
    /// With room for so many at once, [`ROOM_MAX`] at most.
    pub fn new(listener: TcpListener, room: usize, tls: Option<Tls>) -> Self {
        Self {
            listener,
            places: Arc::new(Semaphore::new(room.clamp(1, ROOM_MAX))),
            tls,
        }
    }
}

impl Listener for Brief {
    type Io = BriefConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, address) = Listener::accept(&mut self.listener).await;
        let connection = BriefConnection {
            stream: Wire::new(stream, self.tls.as_ref(), Port::Http),
            // No byte counts before the handshake is over.
            still: Box::pin(sleep(SPEAK_WITHIN)),
            _place: place,
        };
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl BriefConnection {
    /// What the stream said, unless it has stood still for too long.
    fn moved<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.still.as_mut().set(sleep(STILL_FOR));
            return polled;
        }
        match self.still.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Connected<IncomingStream<'_, Brief>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Brief>) -> Self {
        stream.io().stream.peer().clone()
    }
}

impl AsyncRead for BriefConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.moved(context, polled)
    }
}

impl AsyncWrite for BriefConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.moved(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.moved(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.moved(context, polled)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    use super::*;

    #[tokio::test]
    async fn a_request_that_stands_still_gives_its_place_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut brief = Brief::new(listener, 3, None);
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.write_all(b"GET").await.unwrap();
        let (mut connection, _) = brief.accept().await;
        assert_eq!(brief.places.available_permits(), 2);
        connection.read_exact(&mut [0; 3]).await.unwrap();
        tokio::time::pause();
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(connection);
        assert_eq!(brief.places.available_permits(), 3);
    }
}
