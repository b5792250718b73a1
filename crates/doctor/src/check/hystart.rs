//! CUBIC's slow start that ends when acknowledgements come close together.

use super::{Check, CheckRun};
use crate::{Citation, Finding, Host, Severity};

const DETECT: &str = "/sys/module/tcp_cubic/parameters/hystart_detect";

pub(super) const CHECK: Check = Check {
    name: "hystart",
    about: "a slow start that may end early because acknowledgements arrive close together",
    sources: &[Citation {
        name: "Google Cloud, TCP optimization for network performance",
        url: "https://cloud.google.com/compute/docs/networking/tcp-optimization-for-network-performance-in-gcp-and-hybrid",
    }],
    run: CheckRun::HostOne(of),
};

fn of(host: &Host<'_>) -> Option<Finding> {
    let tcp = &host.facts.tcp;
    let uses_it =
        tcp.congestion_control.known().is_some_and(|name| name == "cubic") && tcp.hystart.get()? != 0;
    let detect = tcp.hystart_detect.get()?;
    // Bit 0 is the trains of acknowledgements, bit 1 the growing delay.
    if !uses_it || detect & 1 == 0 {
        return None;
    }
    let finding = Finding::new(Severity::Note, "trains of acknowledgements may end CUBIC's slow start early")
        .evidence(format!("hystart_detect is {detect}: CUBIC interprets acknowledgements that arrive close together as a full path"))
        .evidence("cards and virtual switches that join packets cause such trains; the connection then grows slowly")
        .fix(format!("echo 2 > {DETECT}"))
        .undo(format!("echo {detect} > {DETECT}"))
        .conflict("Google advises this between its own instances; on paths with small buffers a longer slow start loses more packets");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, fixture, found, lines};
    use linerate_host::Fact;

    #[test]
    fn it_is_noted_under_cubic_alone() {
        let with = |control: &str, on: u32, detect: u32| {
            lines(&found(
                &CHECK,
                &changed("stock-10g", |facts| {
                    facts.tcp.congestion_control = Fact::Known(control.into());
                    facts.tcp.hystart = Fact::Known(on);
                    facts.tcp.hystart_detect = Fact::Known(detect);
                }),
            ))
        };
        assert_eq!(with("cubic", 1, 3), ["hystart - note -"]);
        assert!(
            with("cubic", 1, 2).is_empty() && with("cubic", 0, 3).is_empty() && with("bbr", 1, 3).is_empty()
        );
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
