//! The `holdoff` binary.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> anyhow::Result<()> {
    holdoff::server::run(holdoff::settings::ServeSettings::default())
}
