//! Compiles `proto/` into the server's stubs and the descriptor sets that reflection serves.
//! The compiler is a Rust library, so no system `protoc` is needed.

use std::{env, error::Error, fs, path::PathBuf};

use prost::Message;

/// What Envoy's files only annotate others with: reflection shows it, no code reads it.
const ANNOTATIONS: [&str; 4] = [
    "validate/",
    "udpa/",
    "xds/annotations/",
    "envoy/annotations/",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);

    let files = protox::compile(
        ["holdoff/v1/coordinator.proto", "holdoff/v1/operator.proto"],
        ["proto"],
    )?;
    fs::write(out.join("descriptors.bin"), files.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_client(false)
        .bytes(".holdoff.v1")
        .extern_path(".google.rpc", "::tonic_types::pb")
        .compile_fds(files)?;

    let mut files = protox::compile(
        ["envoy/service/ratelimit/v3/rls.proto"],
        ["proto/envoy-ratelimit"],
    )?;
    fs::write(out.join("envoy_descriptors.bin"), files.encode_to_vec())?;
    files.file.retain(|file| {
        !ANNOTATIONS
            .iter()
            .any(|start| file.name().starts_with(start))
    });
    tonic_prost_build::configure()
        .build_client(false)
        .include_file("envoy_ratelimit.rs")
        .compile_fds(files)?;
    Ok(())
}
