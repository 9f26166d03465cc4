pub mod durable;
pub mod proto;
