//! The sockets in front of the service: each endpoint is a port that may refuse, pause,
//! swallow or answer nonsense, and come back.
//!
//! The service itself never sees a socket: bytes are copied to a pipe within the process, so
//! that pausing is not copying and breaking is dropping. A port that refuses stays bound, so
//! that nobody else gets it meanwhile.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use anyhow::Result;
use socket2::{Domain, SockRef, Socket, Type};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream},
    net::{TcpListener, TcpStream},
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;

use crate::{
    scenario::Behaviour, script::Script, script::Service,
    stubs::coordinator_service_server::CoordinatorServiceServer,
};

const GARBAGE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n\xff\xfe\xfd\xfc";
const BACKLOG: i32 = 128;
const PIPE_BYTES: usize = 1 << 16;

/// One endpoint. Dropped, all of it ends.
#[derive(Debug)]
pub struct Endpoint {
    pub address: SocketAddr,
    behaviour: watch::Sender<Behaviour>,
    listens: watch::Receiver<bool>,
    _tasks: JoinSet<()>,
}

impl Endpoint {
    /// # Errors
    /// There is no port.
    pub fn begin(
        script: &std::sync::Arc<Script>,
        index: usize,
        behaviour: Behaviour,
    ) -> Result<Self> {
        let (sender, seen) = watch::channel(behaviour);
        let bound = bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let begins = behaviour != Behaviour::Refuse;
        if begins {
            bound.listen(BACKLOG)?;
        }
        let (listening, listens) = watch::channel(begins);
        let address = bound
            .local_addr()?
            .as_socket()
            .ok_or_else(|| io::Error::other("no address of a socket"))?;
        let (pipes, incoming) = mpsc::channel(64);
        let service = Service {
            script: script.clone(),
            endpoint: index,
            behaviour: seen.clone(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let serving = Server::builder()
                .add_service(CoordinatorServiceServer::new(service))
                .serve_with_incoming(ReceiverStream::new(incoming));
            // It ends with the scenario.
            let _ = serving.await;
        });
        tasks.spawn(listen(bound, listening, seen, pipes));
        Ok(Self {
            address,
            behaviour: sender,
            listens,
            _tasks: tasks,
        })
    }

    /// It has become so when this returns.
    pub async fn become_so(&self, behaviour: Behaviour) {
        self.behaviour.send_replace(behaviour);
        let listens = behaviour != Behaviour::Refuse;
        // It ends with its listener only.
        let _ = self.listens.clone().wait_for(|now| *now == listens).await;
        // Connections see it at their next turn.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Takes connections while it does not refuse; each ends when what it was taken under is over.
async fn listen(
    mut bound: Socket,
    listening: watch::Sender<bool>,
    mut seen: watch::Receiver<Behaviour>,
    pipes: mpsc::Sender<io::Result<DuplexStream>>,
) {
    loop {
        let listens = becomes(&mut seen, |now| now != Behaviour::Refuse).await;
        // Listening twice is listening.
        if !listens || bound.listen(BACKLOG).is_err() {
            return;
        }
        let Ok(listener) = TcpListener::from_std(bound.into()) else {
            return;
        };
        let Ok(address) = listener.local_addr() else {
            return;
        };
        listening.send_replace(true);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                refuses = becomes(&mut seen, |now| now == Behaviour::Refuse) => {
                    if !refuses {
                        return;
                    }
                    break;
                }
                Ok((socket, _)) = listener.accept() => {
                    connections.spawn(connection(socket, seen.clone(), pipes.clone()));
                }
            }
        }
        drop((connections, listener));
        bound = match bind(address) {
            Ok(bound) => bound,
            Err(_) => return,
        };
        listening.send_replace(false);
    }
}

async fn connection(
    mut socket: TcpStream,
    mut seen: watch::Receiver<Behaviour>,
    pipes: mpsc::Sender<io::Result<DuplexStream>>,
) {
    // Whatever cannot be said to a peer that is gone is not missed.
    let _ = socket.set_nodelay(true);
    // A stopped process takes connections and does nothing with them.
    if !becomes(&mut seen, |now| now != Behaviour::Pause).await {
        return;
    }
    let now = *seen.borrow();
    match now {
        Behaviour::Serve | Behaviour::Unary | Behaviour::Pause => {
            let (near, far) = tokio::io::duplex(PIPE_BYTES);
            if pipes.send(Ok(far)).await.is_ok() {
                serve(socket, near, seen).await;
            }
        }
        Behaviour::BlackHole => {
            let mut swallowed = [0; 4_096];
            let swallow = async {
                while matches!(socket.read(&mut swallowed).await, Ok(count) if count > 0) {}
            };
            tokio::select! {
                () = swallow => {}
                _ = becomes(&mut seen, |now| now != Behaviour::BlackHole) => {}
            }
        }
        Behaviour::Garbage => {
            let _ = socket.write_all(GARBAGE).await;
            let _ = socket.shutdown().await;
        }
        Behaviour::Reset => {
            let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
        }
        Behaviour::Refuse => {}
    }
}

/// Until either side ends, or the endpoint serves no more.
async fn serve(socket: TcpStream, pipe: DuplexStream, seen: watch::Receiver<Behaviour>) {
    let (from_client, to_client) = socket.into_split();
    let (from_service, to_service) = tokio::io::split(pipe);
    let mut ends = seen.clone();
    tokio::select! {
        () = pump(from_client, to_service, seen.clone()) => {}
        () = pump(from_service, to_client, seen) => {}
        _ = becomes(&mut ends, |now| !passes(now) && now != Behaviour::Pause) => {}
    }
}

fn passes(now: Behaviour) -> bool {
    matches!(now, Behaviour::Serve | Behaviour::Unary)
}

/// False: the endpoint has ended.
async fn becomes(seen: &mut watch::Receiver<Behaviour>, is: fn(Behaviour) -> bool) -> bool {
    seen.wait_for(|now| is(*now)).await.is_ok()
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut seen: watch::Receiver<Behaviour>,
) {
    let mut bytes = [0; 8_192];
    loop {
        let read = tokio::select! {
            read = from.read(&mut bytes) => read,
            // What comes in a pause stays in the socket.
            pauses = becomes(&mut seen, |now| !passes(now)) => {
                if !pauses || !becomes(&mut seen, passes).await {
                    return;
                }
                continue;
            }
        };
        let count = match read {
            Ok(count) if count > 0 => count,
            Ok(_) | Err(_) => return,
        };
        let Some(part) = bytes.get(..count) else {
            return;
        };
        let goes_on = becomes(&mut seen, passes).await;
        if !goes_on || to.write_all(part).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}
