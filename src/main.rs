//! The binary `holdoff`: an allocator and an entry point. All else is in the library.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    holdoff::cli::main()
}
