//! Stands in for the composition root.

use crate::settings::ServeSettings;

/// Runs the service.
///
/// # Errors
/// Always, here.
pub fn run(_settings: ServeSettings) -> anyhow::Result<()> {
    anyhow::bail!("this build has no service")
}
