//! Compiles `proto/` into the client's stubs, and apart from them the server's, which only
//! the tests include. No system `protoc` is needed.

use std::{env, error::Error, fs, path::PathBuf};

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
        .compile_fds(files.clone())?;
    let scripted = PathBuf::from(env::var("OUT_DIR")?).join("scripted");
    fs::create_dir_all(&scripted)?;
    tonic_prost_build::configure()
        .build_client(false)
        .extern_path(".holdoff.v1", "::holdoff_client::proto")
        .out_dir(scripted)
        .compile_fds(files)?;
    Ok(())
}
