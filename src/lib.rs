pub mod cli;
pub mod policy;
pub mod proto;
pub mod server;
pub mod settings;
