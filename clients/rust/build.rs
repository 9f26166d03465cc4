//! Compiles `proto/` into the client's stubs. No system `protoc` is needed.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let root = "../../proto";
    println!("cargo::rerun-if-changed={root}");
    let files = protox::compile(
        ["holdoff/v1/coordinator.proto", "holdoff/v1/operator.proto"],
        [root],
    )?;
    tonic_prost_build::configure()
        .build_server(false)
        .bytes(".holdoff.v1")
        .extern_path(".google.rpc", "::tonic_types::pb")
        .compile_fds(files)?;
    Ok(())
}
