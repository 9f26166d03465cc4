//! Compiles `proto/` into the server's stubs and the descriptor set that reflection serves.
//! The compiler is a Rust library, so no system `protoc` is needed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(
        ["holdoff/v1/coordinator.proto", "holdoff/v1/operator.proto"],
        ["proto"],
    )?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_client(false)
        .bytes(".holdoff.v1")
        .extern_path(".google.rpc", "::tonic_types::pb")
        .compile_fds(files)?;
    Ok(())
}
