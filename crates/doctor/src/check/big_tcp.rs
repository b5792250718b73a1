//! Fast ports whose packets inside the host stay below 64 KiB.

use linerate_host::facts::Port;

use super::{Check, CheckRun};
use crate::formula::cpu::connection;
use crate::formula::{bytes, gbit};
use crate::source::STACK;
use crate::{Citation, Finding, Severity};

/// Bytes of the largest packet without BIG TCP.
const USUAL: u32 = 65_536;

pub(super) const CHECK: Check = Check {
    name: "big-tcp",
    about: "a port that could take packets larger than 64 KiB from the kernel",
    sources: &[
        Citation { name: "LWN, Going big with TCP packets", url: "https://lwn.net/Articles/884104/" },
        STACK,
    ],
    run: CheckRun::Host(|host| host.hardware().filter_map(|port| of(port, host.rate_of(port)?)).collect()),
};

fn of(port: &Port, need: f64) -> Option<Finding> {
    let layer = port.layer.known()?;
    let (possible, now) = (layer.tso_max?, layer.gso_max?);
    let one = connection(port.mtu.get()?, true);
    // Larger packets save work for the core that handles one connection. They gain nothing if one core is enough.
    if possible <= USUAL || now > USUAL || need <= one.high {
        return None;
    }
    let name = &port.name;
    let finding = Finding::new(Severity::Note, format!("{name} could take packets of {} from the kernel", bytes(f64::from(possible))))
        .at(name)
        .evidence(format!("gso_max_size is {now}; the device takes up to {possible}"))
        .evidence(format!("one core receives {} to {} for one connection; needed: {}", gbit(one.low), gbit(one.high), gbit(need)))
        .fix(format!("ip link set dev {name} gso_max_size {possible} gro_max_size {possible}; for IPv4 (Linux 6.3) gso_ipv4_max_size and gro_ipv4_max_size too"))
        .undo(format!("ip link set dev {name} gso_max_size {now} gro_max_size {}", layer.gro_max.unwrap_or(now)))
        .conflict("several connections use several cores even without BIG TCP; programs that capture packets must be able to handle packets of this size");
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{edited, found, lines};
    use linerate_host::Fact;
    use linerate_host::facts::PortLayer;

    fn with(speed: u64, tso_max: Option<u32>, gso_max: u32) -> Vec<String> {
        let facts = edited("bare-gen1-x4", "eth2", |port| {
            port.speed_mbps = Fact::Known(speed);
            port.layer = Fact::Known(PortLayer { tso_max, gso_max: Some(gso_max), ..PortLayer::default() });
        });
        lines(&found(&CHECK, &facts))
    }

    #[test]
    fn a_port_that_one_core_cannot_fill_is_noted_where_its_device_can_do_it() {
        assert_eq!(with(100_000, Some(524_280), 65_536), ["big-tcp eth2 note -"]);
        assert!(with(100_000, Some(65_536), 65_536).is_empty(), "the device can't");
        assert!(with(100_000, None, 65_536).is_empty(), "an older kernel");
        assert!(with(100_000, Some(524_280), 185_000).is_empty(), "it is on");
        assert!(with(10_000, Some(524_280), 65_536).is_empty(), "one core is enough");
    }
}
