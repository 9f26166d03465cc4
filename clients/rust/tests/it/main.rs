//! The client against a scripted service.

mod alone;
mod away;
mod checks;
mod cost;
mod credentials;
mod fleet;
mod hostile;
mod layer;
mod load;
mod logs;
mod on_state;
mod outage;
mod outlived;
mod reports;
#[cfg(feature = "reqwest")]
mod reqwest;
mod server;
mod sockets;
mod supervisor;
