//! What was measured from memory to memory, against the need.

use super::{Check, Run};
use crate::formula::gbit;
use crate::formula::goodput::Segments;
use crate::source::{ESNET, TRANSFER_PAPER};
use crate::{Finding, Host, Path};

pub(super) const CHECK: Check = Check {
    name: "path-rate",
    about: "a path that carries less than is needed",
    sources: &[TRANSFER_PAPER, ESNET],
    run: Run::Path(|path| of(path).into_iter().collect()),
};

/// Measurements of seconds are no closer than this.
const CLOSE: f64 = 0.97;

fn of(path: &Path<'_>) -> Option<Finding> {
    let (rate, need) = (path.measured.rate?, path.rate());
    let mtu = path.ends().iter().filter_map(mtu).min().unwrap_or(1500);
    let share = Segments::usual(mtu).share();
    if rate >= need * share * CLOSE {
        return None;
    }
    let streams = path.measured.streams.unwrap_or(1);
    let finding = Finding::leaves(rate / share, need, format!("the path carried {} of payload", gbit(rate)))
        .evidence(format!(
            "from memory to memory with {streams} streams; headers at MTU {mtu} \
                    leave {} of {}",
            gbit(need * share),
            gbit(need)
        ))
        .evidence("no tool that moves files is faster than this")
        .fix(
            "mend what else is found on the path and its ends; then measure by \
                    streams: linerate bench run quick, iperf3 -P 8",
        )
        .conflict("a measurement of seconds includes the start: on long paths look at a minute");
    Some(finding)
}

fn mtu(host: &Host<'_>) -> Option<u32> {
    host.devices().max_by_key(|port| port.speed_mbps.get())?.mtu.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measured;
    use crate::testing::{fixture, found_between, lines};

    fn carrying(rate: Option<f64>) -> Vec<String> {
        let measured = Measured { rate, streams: Some(4), ..Measured::default() };
        lines(&found_between(&CHECK, &fixture("stock-10g"), &fixture("stock-10g"), measured))
    }

    #[test]
    fn a_slow_path_is_found() {
        assert_eq!(carrying(Some(4.7e9)), ["path-rate - critical 5.0 Gbit/s"]);
    }

    #[test]
    fn what_headers_leave_is_all_there_is() {
        assert!(carrying(Some(9.35e9)).is_empty());
        assert!(carrying(None).is_empty());
    }
}
