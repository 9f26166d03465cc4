pub mod cli;
pub mod proto;
pub mod server;
pub mod settings;
