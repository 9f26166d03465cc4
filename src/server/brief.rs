//! The connections of the HTTP side: few at once, and none that stands still, so that what
//! hangs there takes neither descriptors nor memory from the calls of clients. One that finds
//! no room waits in the backlog of the listener.

use std::{
    future::Future,
    io,
    net::{IpAddr, SocketAddr},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::serve::Listener;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Sleep, sleep},
};

use super::{
    Gate,
    connection::SPEAK_WITHIN,
    tls::{Port, Wire},
};
use crate::access::{self, Entry, Peer};

/// Connections at once, at most: whoever scrapes or probes needs one for some milliseconds.
pub const ROOM_MAX: usize = 1_024;
/// One that moves no byte for so long is cut off. Not a usual interval of scrapes, so that
/// none of them meets the cut.
const STILL_FOR: Duration = Duration::from_secs(7);
/// A request must have come, and its answer must have begun, within so long: one that comes byte
/// by byte holds its place no longer than one that stands still.
const ASK_WITHIN: Duration = Duration::from_secs(15);
/// How HTTP/2 begins, which is not spoken here: one connection would carry many requests at
/// once, and be counted as one.
const OF_HTTP2: &[u8] = b"PRI ";

/// A listener with room for few.
#[derive(Debug)]
pub struct Brief {
    listener: TcpListener,
    places: Arc<Semaphore>,
    gate: Gate,
}

/// A connection that holds its place for as long as it lasts.
#[derive(Debug)]
pub struct BriefConnection {
    stream: Wire,
    still: Pin<Box<Sleep>>,
    /// From the first byte of a request until its answer begins.
    asking: Option<Pin<Box<Sleep>>>,
    /// How much of [`OF_HTTP2`] it has begun with; `None`: it began otherwise.
    like_http2: Option<usize>,
    /// `None` only if the semaphore was closed, which nobody does.
    _place: Option<OwnedSemaphorePermit>,
    _of_address: Option<access::Place<IpAddr>>,
}

impl Brief {
    /// With room for so many at once, [`ROOM_MAX`] at most.
    pub fn new(listener: TcpListener, room: usize, gate: Gate) -> Self {
        Self {
            listener,
            places: Arc::new(Semaphore::new(room.clamp(1, ROOM_MAX))),
            gate,
        }
    }
}

impl Listener for Brief {
    type Io = BriefConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let (stream, address, of_address) = loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            let stream = Wire::new(stream, self.gate.tls.as_ref(), Port::Http);
            match self.gate.access.enter_pages(stream.peer()) {
                None => break (stream, address, None),
                Some(Entry::Let(place)) => break (stream, address, Some(place)),
                Some(Entry::Told(place, crowded)) => {
                    stream.peer().crowd(crowded);
                    break (stream, address, Some(place));
                }
                Some(Entry::Cut) => {}
            }
        };
        let connection = BriefConnection {
            stream,
            // No byte counts before the handshake is over.
            still: Box::pin(sleep(SPEAK_WITHIN)),
            asking: None,
            like_http2: Some(0),
            _place: place,
            _of_address: of_address,
        };
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

impl BriefConnection {
    pub fn peer(&self) -> &Peer {
        self.stream.peer()
    }

    /// What the stream said, unless it has stood still for too long. Only bytes are a move: that
    /// there is nothing to flush is said at once, and of the stillest.
    fn unless_still<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
        bytes: usize,
    ) -> Poll<io::Result<T>> {
        if bytes > 0 {
            self.still.as_mut().set(sleep(STILL_FOR));
        }
        // In any case, since a timer that nobody has polled wakes nobody.
        let late = self.late(context);
        match (polled, late) {
            (Poll::Pending, Some(late)) => Poll::Ready(Err(late)),
            (polled, _) => polled,
        }
    }

    /// Whether it has had all the time that it may have.
    fn late(&mut self, context: &mut Context<'_>) -> Option<io::Error> {
        let still = self.still.as_mut().poll(context).is_ready();
        (still || self.asks_too_long(context)).then(|| io::ErrorKind::TimedOut.into())
    }

    fn asks_too_long(&mut self, context: &mut Context<'_>) -> bool {
        let asking = self.asking.as_mut();
        asking.is_some_and(|asking| asking.as_mut().poll(context).is_ready())
    }

    /// Bytes of a request have come.
    fn hear(&mut self, bytes: &[u8], context: &mut Context<'_>) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.asking.is_none() {
            self.asking = Some(Box::pin(sleep(ASK_WITHIN)));
        }
        if self.asks_too_long(context) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if let Some(begun) = self.like_http2 {
            let rest = &OF_HTTP2[begun..];
            let many = rest.len().min(bytes.len());
            self.like_http2 = (bytes[..many] == rest[..many]).then_some(begun + many);
        }
        match self.like_http2 {
            Some(begun) if begun == OF_HTTP2.len() => Err(io::ErrorKind::InvalidData.into()),
            Some(_) | None => Ok(()),
        }
    }
}

impl AsyncRead for BriefConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        let said = buffer.filled().get(before..).unwrap_or_default();
        self.hear(said, context)?;
        self.unless_still(context, polled, said.len())
    }
}

impl AsyncWrite for BriefConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        let written = match &polled {
            Poll::Ready(Ok(written)) => *written,
            Poll::Ready(Err(_)) | Poll::Pending => 0,
        };
        if written > 0 {
            // The answer has begun.
            self.asking = None;
        }
        self.unless_still(context, polled, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.unless_still(context, polled, 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.unless_still(context, polled, 0)
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
        let mut brief = Brief::new(listener, 3, Gate::open());
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

    /// Time goes on a second with each byte.
    async fn dripping(first: &[u8], drip: &[u8]) -> (u64, io::Error) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut brief = Brief::new(listener, 3, Gate::open());
        let mut peer = TcpStream::connect(address).await.unwrap();
        let (mut connection, _) = brief.accept().await;
        peer.write_all(first).await.unwrap();
        connection
            .read_exact(&mut vec![0; first.len()])
            .await
            .unwrap();
        tokio::time::pause();
        for second in 0..100 {
            peer.write_all(drip).await.unwrap();
            tokio::time::advance(Duration::from_secs(1)).await;
            if let Err(error) = connection.read_exact(&mut vec![0; drip.len()]).await {
                return (second, error);
            }
        }
        panic!("it is not cut off")
    }

    #[tokio::test]
    async fn a_request_that_comes_byte_by_byte_is_cut_off() {
        let (seconds, error) = dripping(b"GET / HTTP/1.1\r\n", b"X").await;
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(seconds <= ASK_WITHIN.as_secs(), "{seconds}");
    }

    #[tokio::test]
    async fn http_2_is_not_spoken_here() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut brief = Brief::new(listener, 3, Gate::open());
        for (said, is_spoken) in [(&b"PRI * HTTP/2.0"[..], false), (b"PRINT", true)] {
            let mut peer = TcpStream::connect(address).await.unwrap();
            let (mut connection, _) = brief.accept().await;
            peer.write_all(said).await.unwrap();
            let read = connection.read_exact(&mut vec![0; said.len()]).await;
            assert_eq!(read.is_ok(), is_spoken, "{said:?}: {read:?}");
        }
    }
}
