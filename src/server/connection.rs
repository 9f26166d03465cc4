//! Connections that are counted and that must begin to speak.
//!
//! There is room for so many at once over all listeners; one that finds none waits in the backlog of the
//! listener. A peer that has not finished the handshake of TLS, where there is TLS, and said the
//! preface of HTTP/2 after a while is cut off, so silent connections cannot fill the room;
//! keepalive finds those that fall silent later.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{OwnedSemaphorePermit, oneshot},
    time::Sleep,
};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::{Connected, TcpIncoming};

use super::{
    Gate,
    tls::{Port, Wire},
};
use crate::{
    access::{self, Entry, Peer},
    telemetry::{Counter, Telemetry},
};

/// A peer that has not agreed on TLS and sent the preface within so long is cut off.
pub const SPEAK_WITHIN: Duration = Duration::from_secs(5);
/// What every client of HTTP/2 sends first, and before which there is no keepalive.
const PREFACE: usize = 24;

/// A connection that holds its place for as long as it lasts.
#[derive(Debug)]
pub struct Connection {
    stream: Wire,
    /// Gone once the peer has spoken.
    silence: Option<Pin<Box<Sleep>>>,
    /// When it is cut off, whatever is said: it was told to go before.
    cut: Option<Pin<Box<Sleep>>>,
    /// Bytes of the preface that have not come yet.
    unsaid: usize,
    /// Its address has too many: it is told so, and cut off whatever it says.
    is_crowded: bool,
    _place: Place,
    _of_address: Option<access::Place<IpAddr>>,
    /// Gone with it.
    _alive: Option<oneshot::Sender<Infallible>>,
}

/// Counted for as long as it is taken.
#[derive(Debug)]
struct Place {
    telemetry: Arc<Telemetry>,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    fn new(telemetry: Arc<Telemetry>, permit: OwnedSemaphorePermit) -> Self {
        telemetry.add(Counter::ConnectionOpened);
        Self {
            telemetry,
            _permit: permit,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.telemetry.add(Counter::ConnectionClosed);
    }
}

/// The connections of a listener, each with a place of its own.
pub fn counted(
    incoming: TcpIncoming,
    telemetry: Arc<Telemetry>,
    gate: Gate,
) -> impl Stream<Item = io::Result<Connection>> {
    let connections = incoming.then(move |stream| {
        let (telemetry, gate) = (Arc::clone(&telemetry), gate.clone());
        async move {
            let stream = Wire::new(stream?, gate.tls.as_ref(), Port::Grpc);
            let (is_crowded, of_address) = match gate.access.enter(stream.peer()) {
                None => (false, None),
                Some(Entry::Let(place)) => (false, Some(place)),
                Some(Entry::Told(place, crowded)) => {
                    stream.peer().crowd(crowded);
                    (true, Some(place))
                }
                Some(Entry::Cut) => return Ok(None),
            };
            // The semaphore is never closed.
            let places = gate.connections.places;
            let place = places.acquire_owned().await.map_err(io::Error::other)?;
            let silence = Some(Box::pin(tokio::time::sleep(SPEAK_WITHIN)));
            io::Result::Ok(Some(Connection {
                stream,
                silence,
                cut: None,
                unsaid: PREFACE,
                is_crowded,
                _place: Place::new(telemetry, place),
                _of_address: of_address,
                _alive: None,
            }))
        }
    });
    connections.filter_map(io::Result::transpose)
}

impl Connection {
    /// Ends it so long from now, whatever is said.
    pub fn cut_after(&mut self, span: Duration) {
        self.cut = Some(Box::pin(tokio::time::sleep(span)));
    }

    /// An error once it has ended.
    pub fn ended(&mut self) -> oneshot::Receiver<Infallible> {
        let (alive, ended) = oneshot::channel();
        self._alive = Some(alive);
        ended
    }

    /// What the stream said, unless its peer has been silent for too long, or its time is over.
    fn unless_silent<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let silent = match &mut self.silence {
            Some(silence) => polled.is_pending() && silence.as_mut().poll(context).is_ready(),
            None => false,
        };
        let cut = self.cut.as_mut();
        let over = cut.is_some_and(|cut| cut.as_mut().poll(context).is_ready());
        match silent || over {
            true => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            false => polled,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let said = buffer.filled().len().saturating_sub(before);
        self.unsaid = self.unsaid.saturating_sub(said);
        if self.unsaid == 0 && !self.is_crowded {
            self.silence = None;
        }
        self.unless_silent(context, read)
    }
}

/// The first that is written waits for the handshake, so the time is looked at here too.
impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.unless_silent(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.unless_silent(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.unless_silent(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl Connected for Connection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.stream.peer().clone()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::{TcpListener, TcpStream},
    };

    use super::*;
    use crate::{server::lifetime::Connections, settings::ConnectionSettings};

    fn with_room_for_one() -> Gate {
        Gate {
            connections: Connections::new(ConnectionSettings {
                most: std::num::NonZeroU32::new(1),
                ..ConnectionSettings::default()
            }),
            ..Gate::open()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_peer_is_cut_off_and_gives_its_place_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gate = with_room_for_one();
        let places = Arc::clone(&gate.connections.places);
        let (incoming, telemetry) = (TcpIncoming::from(listener), Arc::<Telemetry>::default());
        let mut connections = Box::pin(counted(incoming, Arc::clone(&telemetry), gate));
        let _silent = TcpStream::connect(address).await.unwrap();
        let mut connection = connections.next().await.unwrap().unwrap();
        assert_eq!(places.available_permits(), 0);
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let open = || telemetry.open(Counter::ConnectionOpened, Counter::ConnectionClosed);
        assert_eq!(open(), 1);
        drop(connection);
        assert_eq!(places.available_permits(), 1);
        assert_eq!(open(), 0);
    }

    #[tokio::test]
    async fn a_part_of_the_preface_is_no_way_to_keep_a_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let incoming = TcpIncoming::from(listener);
        let mut connections = Box::pin(counted(incoming, Arc::default(), with_room_for_one()));
        let mut dripping = TcpStream::connect(address).await.unwrap();
        dripping.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
        let mut connection = connections.next().await.unwrap().unwrap();
        let mut said = [0; 16];
        connection.read_exact(&mut said).await.unwrap();
        assert!(connection.silence.is_some());
        tokio::time::pause();
        let error = connection.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_peer_that_has_said_the_preface_may_be_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let incoming = TcpIncoming::from(listener);
        let mut connections = Box::pin(counted(incoming, Arc::default(), with_room_for_one()));
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.write_all(&[b'x'; PREFACE]).await.unwrap();
        let mut connection = connections.next().await.unwrap().unwrap();
        connection.read_exact(&mut [0; PREFACE]).await.unwrap();
        assert!(connection.silence.is_none());
    }
}
