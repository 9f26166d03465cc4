//! What Linux says of this process. Elsewhere there is no `/proc`, and these have no series.

use std::fs;

use super::{
    Family, Value,
    table::{PROCESS_CPU, PROCESS_FDS, PROCESS_FDS_LIMIT, PROCESS_MEMORY},
};

/// CPU, memory and descriptors. Reads files that the kernel makes up: no disk is waited for.
pub fn families() -> Vec<Family> {
    let mut families = Vec::new();
    if let Some((cpu_seconds, resident_bytes)) = stat() {
        families.push(Family::alone(&PROCESS_CPU, Value::Number(cpu_seconds)));
        families.push(Family::alone(&PROCESS_MEMORY, resident_bytes));
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // The folder that is read is open, too.
        let open = open.count().saturating_sub(1) as u64;
        families.push(Family::alone(&PROCESS_FDS, open));
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    if let Some(limit) = limit {
        families.push(Family::alone(&PROCESS_FDS_LIMIT, limit));
    }
    families
}

/// Seconds of CPU and resident bytes, as proc(5) has them.
fn stat() -> Option<(f64, u64)> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the name, in parentheses, and may hold anything.
    let (_, fields) = text.rsplit_once(") ")?;
    let field = |number: usize| fields.split(' ').nth(number - 3)?.parse::<u64>().ok();
    let ticks = field(14)? + field(15)?;
    let pages = field(24)?;
    let cpu_seconds = ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    Some((cpu_seconds, pages * rustix::param::page_size() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_knows_its_memory_files_and_cpu() {
        let value = |metric| {
            let families = families();
            let family = families.into_iter().find(|family| family.metric == metric);
            match family.unwrap().series[0].1 {
                Value::Whole(value) => value as f64,
                Value::Number(value) => value,
                Value::Times(_) => unreachable!("none of these is a histogram"),
            }
        };
        assert!(value(&PROCESS_MEMORY) > 1e6);
        assert!(value(&PROCESS_FDS) >= 3.0);
        assert!(value(&PROCESS_FDS) <= value(&PROCESS_FDS_LIMIT));
        assert!(value(&PROCESS_CPU) >= 0.0);
    }
}
