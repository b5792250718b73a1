//! Detects runs that waited for processors, memory or storage that other work used. The kernel's pressure
//! stall information in a host's recording shows such waits.

use linerate_host::sample::{self, Recording};

/// The shortest run, in seconds, that is judged. A shorter run ends before the sampler finds its processes, and a few
/// waits are a large share of its time.
const SHORTEST: f64 = 2.0;
/// The host is short of memory if all its tasks waited for memory for more than this share of the run.
const MEMORY_SHARE: f64 = 0.05;
/// A run whose data is in memory counts as disturbed if all tasks of the host waited for storage for more
/// than this share of the run.
const IO_SHARE: f64 = 0.2;
/// A run counts as disturbed if at least one task waited for a processor for more than this share of the run. A tool
/// that keeps all processors busy causes such waits itself, so the waits only count if there was also other work.
pub(super) const CPU_SHARE: f64 = 0.25;
/// The number of processors that other processes must use in user mode to count as other work. Time in the
/// kernel doesn't count, because the kernel's own threads also work for the run.
const FOREIGN_PROCESSORS: f64 = 0.25;

/// A message with the reasons why a run was disturbed by pressure. With `data_in_memory`, the run itself
/// needs no storage.
pub(crate) fn disturbed(recording: &Recording, data_in_memory: bool) -> Option<String> {
    let seconds = recording.seconds();
    if seconds < SHORTEST {
        return None;
    }
    let stalls = sample::stalls(recording);
    let share = |name: &str| {
        stalls.iter().find(|stall| stall.name == name).map_or(0.0, |stall| stall.seconds / seconds)
    };
    let mut reasons = Vec::new();
    let mut waited = |name: &str, most: f64, what: &str| {
        if share(name) > most {
            reasons.push(format!("all tasks waited for {what} for {:.0} % of the time", 100.0 * share(name)));
        }
    };
    waited("memory full", MEMORY_SHARE, "memory");
    if data_in_memory {
        waited("io full", IO_SHARE, "storage");
    }
    let foreign = foreign_processors(recording).unwrap_or(0.0);
    if foreign > FOREIGN_PROCESSORS && share("cpu some") > CPU_SHARE {
        let percent = 100.0 * share("cpu some");
        reasons.push(format!(
            "other work kept {foreign:.1} processors busy during the run, and tasks waited for a processor for {percent:.0} % of the time"
        ));
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// The number of processors that were busy in user mode for processes other than the study's.
fn foreign_processors(recording: &Recording) -> Option<f64> {
    let host = sample::cpu_seconds(recording)?;
    let own = sample::user_seconds(recording)?;
    Some((host.user + host.nice + host.guest - own).max(0.0) / recording.seconds())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording of a host with two processors over four seconds. The arguments are the host's seconds in
    /// user mode, the study's seconds in user mode, and the stalls.
    fn recording(user: u32, own: u32, stalls: &str) -> Recording {
        let mut text =
            "linerate recording 1\nhost x\nstarted 1.0\nboot 100.0\ninterval 1\nticks 100\n".to_owned();
        for (at, user, own) in [(0, 0, 0), (4, user, own)] {
            let cpu = format!("cpu  {} 0 0 {} 0 0 0 0 0 0\ncpu0 1\ncpu1 1\n", 100 * user, 800 - 100 * user);
            let process = format!("7 (x) S 1 1 1 0 -1 0 0 0 0 0 {} 300 0 0 20 0 1 0 5 0 0\n", 100 * own);
            let none = "cpu some total=0\nio full total=0\nmemory full total=0\n";
            let stalls = if at == 0 { none } else { stalls };
            text.push_str(&format!("@ {at}.0\n"));
            for (kind, part) in [("cpu", cpu.as_str()), ("pressure", stalls), ("processes", &process)] {
                text.push_str(&format!("# {kind} {}\n{part}\n", part.len()));
            }
        }
        Recording::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_run_that_keeps_all_processors_busy_disturbs_nobody() {
        let own = recording(8, 8, "cpu some total=3900000\n");
        assert_eq!(disturbed(&own, true), None);
        // Other processes use processors, but no task has to wait.
        assert_eq!(disturbed(&recording(4, 2, "cpu some total=400000\n"), true), None);
        let both = disturbed(&recording(8, 4, "cpu some total=3000000\n"), true).unwrap();
        assert!(both.contains("other work kept 1.0 processors busy") && both.contains("75 %"), "{both}");
    }

    #[test]
    fn waiting_for_memory_or_storage_is_reported() {
        let short = disturbed(&recording(1, 1, "memory full total=400000\n"), false).unwrap();
        assert_eq!(short, "all tasks waited for memory for 10 % of the time");
        let slow = recording(1, 1, "io full total=2000000\nmemory full total=100000\n");
        assert_eq!(disturbed(&slow, true).unwrap(), "all tasks waited for storage for 50 % of the time");
        assert_eq!(disturbed(&slow, false), None, "its own data is on that storage");
    }

    #[test]
    fn without_a_word_about_pressure_nothing_is_reported() {
        assert_eq!(disturbed(&recording(8, 4, ""), true), None);
        assert_eq!(disturbed(&Recording::default(), true), None);
    }
}
