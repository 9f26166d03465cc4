//! Listening sockets.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use socket2::{Domain, Protocol, Socket, Type};
use tonic::transport::server::TcpIncoming;

/// Connections that may wait to be accepted: a fleet comes back at once.
const BACKLOG: i32 = 4_096;

/// Listeners on one port.
#[derive(Debug)]
pub struct Listeners {
    pub address: SocketAddr,
    pub sockets: Vec<TcpListener>,
}

/// So many listeners that share an address; port 0 picks a free one.
///
/// # Errors
/// The port is taken, also by another holdoff, or may not be used.
pub fn many(address: SocketAddr, count: usize) -> io::Result<Listeners> {
    // Sharing must not hide that another process has the port already.
    drop(bind(address, Sharing::Alone)?);
    let first = bind(address, Sharing::Shared)?;
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..count {
        sockets.push(bind(address, Sharing::Shared)?);
    }
    Ok(Listeners { address, sockets })
}

/// One listener that shares its port with nobody.
///
/// # Errors
/// The port is taken or may not be used.
pub fn one(address: SocketAddr) -> io::Result<TcpListener> {
    bind(address, Sharing::Alone)
}

/// A socket as a stream of connections, on the present runtime. What is written goes out at
/// once: a small answer that waits for the one before to be acknowledged waits 40 ms.
///
/// # Errors
/// There is no runtime.
pub fn incoming(socket: TcpListener) -> io::Result<TcpIncoming> {
    let listener = tokio::net::TcpListener::from_std(socket)?;
    Ok(TcpIncoming::from(listener).with_nodelay(Some(true)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    Alone,
    Shared,
}

fn bind(address: SocketAddr, sharing: Sharing) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(sharing == Sharing::Shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
