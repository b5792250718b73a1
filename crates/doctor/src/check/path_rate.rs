//! The rate of a path from memory to memory, compared with the share of the needed rate that headers leave.

use super::{Check, CheckRun};
use crate::formula::gbit;
use crate::formula::goodput::Segments;
use crate::source::STACK;
use crate::{Citation, Finding, Path};

/// Share of the possible rate above which a short measurement counts as all of it.
const ALL: f64 = 0.9;

pub(super) const CHECK: Check = Check {
    name: "path-rate",
    about: "a path whose rate from memory to memory is below the needed rate",
    sources: &[
        Citation {
            name: "RFC 6349, Framework for TCP throughput testing",
            url: "https://www.rfc-editor.org/rfc/rfc6349",
        },
        STACK,
    ],
    run: CheckRun::Path(of),
};

fn of(path: &Path<'_>) -> Option<Finding> {
    let (rate, need) = (path.measured.rate?, path.rate());
    let share = Segments::usual(path.mtu()).share();
    if rate >= need * share * ALL {
        return None;
    }
    let title = format!("the path carried {} from memory to memory", gbit(rate));
    let finding = Finding::leaves(rate / share, need, title)
        .evidence(format!("headers leave {} of {}", gbit(need * share), gbit(need)))
        .evidence(format!("measured for two seconds with {} streams", path.measured.streams.unwrap_or(1)))
        .fix(
            "see the other findings for causes; linerate stream --streams 8 shows whether more streams help",
        );
    Some(match path.measured.limit() {
        Some(limit) => finding.evidence(limit),
        None => finding,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathMeasurements;
    use crate::testing::{fixture, found_between, lines};

    fn at(rate: f64) -> Vec<String> {
        let host = fixture("stock-10g");
        lines(&found_between(
            &CHECK,
            &host,
            &host,
            PathMeasurements { rate: Some(rate), ..PathMeasurements::default() },
        ))
    }

    #[test]
    fn a_slow_path_is_found() {
        assert_eq!(at(4e9), ["path-rate - critical 4.25 Gbit/s"]);
    }

    #[test]
    fn a_full_one_is_not() {
        assert!(at(9.3e9).is_empty());
        let host = fixture("stock-10g");
        assert!(found_between(&CHECK, &host, &host, PathMeasurements::default()).is_empty());
    }

    #[test]
    fn what_limits_it_is_reported_and_so_is_that_nothing_shows_it() {
        let host = fixture("stock-10g");
        let evidence = |limiter| {
            let measured =
                PathMeasurements { rate: Some(2e9), limiter: Some(limiter), ..PathMeasurements::default() };
            found_between(&CHECK, &host, &host, measured).remove(0).evidence.pop().unwrap()
        };
        assert_eq!(evidence("send-buffer"), "limited by: send-buffer");
        assert_eq!(evidence("not-explained"), "limit not explained");
    }
}
