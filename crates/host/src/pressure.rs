//! Reads pressure stall information (the kernel's Documentation/accounting/psi.rst).

use serde::{Deserialize, Serialize};

use crate::Fact;
use crate::root::Root;

/// The time since boot in which some runnable task waited for a processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Microseconds in which at least one task waited.
    pub some_us: u64,
}

impl Pressure {
    /// The seconds of waiting since an earlier reading; 0 if the counter went backwards.
    pub fn since(&self, earlier: &Pressure) -> f64 {
        self.some_us.saturating_sub(earlier.some_us) as f64 * 1e-6
    }
}

/// Reads /proc/pressure/cpu; not applicable on a kernel without this file.
pub(crate) fn read(root: &Root) -> Fact<Pressure> {
    let text = match root.text("proc/pressure/cpu") {
        // A kernel booted with psi=0 answers EOPNOTSUPP, which also means "not applicable".
        Fact::Unreadable(reason) if reason.contains("not supported") => return Fact::NotApplicable,
        fact => fact,
    };
    text.and_then(|text| match some_total(&text) {
        Some(some_us) => Fact::Known(Pressure { some_us }),
        None => Fact::Unreadable("/proc/pressure/cpu holds no total of \"some\"".into()),
    })
}

fn some_total(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some "))?;
    line.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_total_of_some() {
        let text =
            "some avg10=0.06 avg60=0.34 avg300=0.96 total=11353800\nfull avg10=0 avg60=0 avg300=0 total=7\n";
        assert_eq!(some_total(text), Some(11_353_800));
        assert_eq!(some_total("full total=7"), None);
        let (a, b) = (Pressure { some_us: 1_000_000 }, Pressure { some_us: 3_500_000 });
        assert_eq!(b.since(&a), 2.5);
        assert_eq!(a.since(&b), 0.0);
    }
}
