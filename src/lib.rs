pub mod policy;
pub mod proto;
