//! Memory that is nearly used up.

use super::{Check, CheckRun};
use crate::formula::{bytes, percent};
use crate::source::PSI;
use crate::{Citation, Finding, Host, Severity};

/// Share of the memory that should be available.
const LITTLE: f64 = 0.05;
/// Percent of the last minute in which tasks waited for memory.
const WAITS: f64 = 1.0;

pub(super) const CHECK: Check = Check {
    name: "memory-pressure",
    about: "a host with little available memory, or with tasks that wait for memory",
    sources: &[
        PSI,
        Citation {
            name: "proc_meminfo(5): MemAvailable",
            url: "https://man7.org/linux/man-pages/man5/proc_meminfo.5.html",
        },
    ],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let signs: Vec<String> = [short(host), waits(host)].into_iter().flatten().collect();
    if signs.is_empty() {
        return None;
    }
    let finding = Finding::new(Severity::Minor, "memory is short");
    let finding = signs.into_iter().fold(finding, Finding::evidence);
    Some(finding.evidence("buffers and the page cache shrink first, and a transfer needs both").fix(
        "find the programs that use the memory: ps -eo rss,comm --sort -rss | head (files in tmpfs count too); \
             or add memory",
    ))
}

fn short(host: &Host<'_>) -> Option<String> {
    let memory = &host.facts.memory;
    let (total, available) = (memory.total.get()? as f64, memory.available.get()? as f64);
    // Huge pages are reserved for programs that use them, and ZFS's cache gives way as the page cache does.
    let total = total - memory.huge.get().unwrap_or(0) as f64;
    let available = (available + memory.arc.get().unwrap_or(0) as f64).min(total);
    (total > 0.0 && available / total < LITTLE).then(|| {
        format!("{} of {} are available ({})", bytes(available), bytes(total), percent(available / total))
    })
}

fn waits(host: &Host<'_>) -> Option<String> {
    let stall = host.facts.strain.memory.known()?;
    (stall.some_60 >= WAITS)
        .then(|| format!("tasks waited for memory in {:.1} % of the last minute", stall.some_60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;
    use linerate_host::facts::StallShares;

    #[test]
    fn little_memory_and_waiting_for_it_are_found() {
        let little = changed("stock-10g", |facts| facts.memory.available = Fact::Known(1 << 30));
        assert_eq!(lines(&found(&CHECK, &little)), ["memory-pressure - minor -"]);
        let cached = changed("stock-10g", |facts| {
            (facts.memory.available, facts.memory.arc) = (Fact::Known(1 << 30), Fact::Known(16 << 30));
        });
        assert!(found(&CHECK, &cached).is_empty(), "ZFS's cache");
        let waits = changed("stock-10g", |facts| {
            facts.strain.memory = Fact::Known(StallShares { some_60: 3.0, ..StallShares::default() })
        });
        assert_eq!(lines(&found(&CHECK, &waits)), ["memory-pressure - minor -"]);
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
