//! What other replicas and operators are told of this one: where it is and what it is.

use std::net::SocketAddr;

use crate::{
    coordinator::About,
    settings::{Decisions, ServeSettings, StoreSettings},
};

pub fn of(settings: &ServeSettings, grpc_at: SocketAddr, http_at: Option<SocketAddr>) -> About {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    // An address of all interfaces leads nobody here.
    let at = |address: SocketAddr| match address.ip().is_unspecified() {
        true => format!("{host}:{}", address.port()),
        false => address.to_string(),
    };
    About {
        name: format!("{host}:{}", grpc_at.port()),
        address: at(grpc_at),
        http: http_at.map(at).unwrap_or_default(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        decisions: match &settings.store {
            StoreSettings::Memory => "memory",
            StoreSettings::Shared(_, Decisions::Strict) => "strict",
            StoreSettings::Shared(_, Decisions::Leased) => "leased",
        }
        .to_owned(),
    }
}
