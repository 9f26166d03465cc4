//! The client against a scripted service.

mod away;
mod fleet;
mod hostile;
mod layer;
mod load;
mod reports;
mod server;
mod sockets;
