//! Generates the server's side of the contract; its messages are those of the Rust client.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let root = "../../proto";
    println!("cargo::rerun-if-changed={root}");
    let files = protox::compile(["holdoff/v1/coordinator.proto"], [root])?;
    tonic_prost_build::configure()
        .build_client(false)
        .extern_path(".google.rpc", "::tonic_types::pb")
        .extern_path(".holdoff.v1", "::holdoff_client::proto")
        .compile_fds(files)?;
    Ok(())
}
