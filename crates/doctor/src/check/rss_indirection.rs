//! Receive queues that a card's indirection table never names.

use linerate_host::facts::{Port, Rss};

use super::{Check, CheckRun, processors};
use crate::formula::percent;
use crate::source::{RED_HAT, SCALING};
use crate::{Finding, Host, Severity};

/// A queue's share of the table, as a multiple of an even share, above which the table is uneven.
const UNEVEN: f64 = 1.5;

/// The number of queues above which a command with all weights is too long to be of use.
const MOST_QUEUES: u32 = 1024;

pub(super) const CHECK: Check = Check {
    name: "rss-indirection",
    about: "a card's indirection table that leaves receive queues out",
    sources: &[SCALING, RED_HAT],
    run: CheckRun::Host(run),
};

fn run(host: &Host<'_>) -> Vec<Finding> {
    host.devices().filter_map(|port| of(port, host.rate_of(port)?)).collect()
}

fn of(port: &Port, need: f64) -> Option<Finding> {
    let rss = port.rss.known().filter(|rss| rss.rings > 1 && !rss.slots.is_empty())?;
    let used = u32::try_from(rss.slots.len()).ok()?;
    let (total, most) = (rss.slots.values().map(|n| f64::from(*n)).sum::<f64>(), *rss.slots.values().max()?);
    let share = f64::from(most) / total.max(1.0);
    if used >= rss.rings && share * f64::from(rss.rings) < UNEVEN {
        return None;
    }
    let title = if used < rss.rings {
        format!("{} gives packets to {used} of its {} receive queues", port.name, rss.rings)
    } else {
        format!("{} gives one of its {} receive queues more packets than others", port.name, rss.rings)
    };
    let finding =
        processors::short_of(port, used, need, &title).unwrap_or_else(|| Finding::new(Severity::Note, title));
    let finding = finding
        .at(&port.name)
        .evidence(format!("the busiest queue has {} of the table's {total} entries", percent(share)))
        .fix(format!(
            "ethtool -X {} equal {}; if the driver refuses it, use a smaller number: some cards spread over 16 queues at most",
            port.name, rss.rings
        ))
        .undo(as_now(port, rss))
        .conflict("an uneven table may be intended: it keeps queues free for one program");
    Some(finding)
}

/// The command that restores each queue's present number of entries.
pub(super) fn as_now(port: &Port, rss: &Rss) -> String {
    let last = rss.slots.keys().next_back().copied().unwrap_or(0);
    if last > MOST_QUEUES {
        return "ethtool -X with the previous weights: note them first (ethtool -x)".into();
    }
    let weights: Vec<String> =
        (0..=last).map(|ring| rss.slots.get(&ring).copied().unwrap_or(0).to_string()).collect();
    format!("ethtool -X {} weight {}", port.name, weights.join(" "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::{edited, fixture, found, lines};
    use linerate_host::Fact;

    fn with(slots: &[(u32, u32)]) -> Vec<String> {
        let slots = BTreeMap::from_iter(slots.iter().copied());
        let host = edited("stock-10g", "eno1", |port| port.rss = Fact::Known(Rss { rings: 4, slots }));
        lines(&found(&CHECK, &host))
    }

    #[test]
    fn queues_that_get_nothing_are_found() {
        assert_eq!(with(&[(0, 128)]), ["rss-indirection eno1 note 12.3 Gbit/s"]);
        assert_eq!(with(&[(0, 100), (1, 10), (2, 9), (3, 9)]), ["rss-indirection eno1 note -"]);
    }

    #[test]
    fn the_table_of_before_is_restored() {
        let slots = BTreeMap::from([(0, 100), (2, 28)]);
        let host = edited("stock-10g", "eno1", |port| port.rss = Fact::Known(Rss { rings: 4, slots }));
        assert_eq!(found(&CHECK, &host)[0].undo.as_deref(), Some("ethtool -X eno1 weight 100 0 28"));
        let slots = BTreeMap::from([(u32::MAX, 128)]);
        let odd = edited("stock-10g", "eno1", |port| port.rss = Fact::Known(Rss { rings: 4, slots }));
        assert!(found(&CHECK, &odd)[0].undo.as_deref().is_some_and(|undo| undo.contains("ethtool -x")));
    }

    #[test]
    fn an_even_table_is_not() {
        assert!(with(&[(0, 32), (1, 32), (2, 32), (3, 32)]).is_empty());
        for host in ["igb-sriov", "bare-gen1-x4", "mlx5-25g-tuned"] {
            assert!(found(&CHECK, &fixture(host)).is_empty(), "{host}");
        }
    }
}
