//! The subjects of checks: a host, or a path with both of its ends.

use linerate_host::facts::{Port, PortKind};
use linerate_host::{Fact, Facts};

use crate::formula::{gbit, trip};
use crate::limiter::Limiter;

/// The needed rate in bits a second if neither the user nor any port gives a rate.
pub const USUAL_RATE: f64 = 10e9;

/// The MTU in bytes if no port's MTU is known.
const USUAL_MTU: u32 = 1500;

/// The rate that transfers should reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Need {
    /// The user's target, in bits a second on the wire.
    Target(f64),
    /// The rates of the ports, because the user gave no target.
    OfPorts,
}

/// One host.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// The user's name for the host.
    pub name: &'a str,
    /// The host's facts.
    pub facts: &'a Facts,
    /// The rate that its transfers should reach.
    pub need: Need,
    /// The measured round trip of the path that the host is an end of, in seconds; `None` if no path was measured.
    pub rtt: Option<f64>,
}

/// A path: its two ends, and the measurements between them. After [`Path::needing`], both ends need the same rate.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    /// The end that sent.
    pub from: Host<'a>,
    /// The end that received.
    pub to: Host<'a>,
    /// The measurements between the ends.
    pub measured: PathMeasurements,
}

/// Measurements of a path, as far as they were possible.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct PathMeasurements {
    /// The shortest round-trip time, in seconds.
    pub rtt: Option<f64>,
    /// Bytes of the largest packets that one connection may send, according to both ends and the routers.
    pub mtu: Option<u32>,
    /// Bytes of packets that vanished on the path without an ICMP message, while small packets arrived.
    pub black_hole: Option<u32>,
    /// The measured rate of payload from memory to memory, in bits a second.
    pub rate: Option<f64>,
    /// The number of data streams of the measurement of the rate.
    pub streams: Option<u32>,
    /// Segments that were retransmitted during the measurement of the rate.
    pub retransmitted: Option<u64>,
    /// Segments that were sent during the measurement of the rate.
    pub sent: Option<u64>,
    /// The name of the limiter that the measurement of the rate found.
    pub limiter: Option<&'static str>,
    /// Bytes of the largest window that the receiver announced to a stream, as the mean of all streams.
    pub window: Option<u64>,
}

impl PathMeasurements {
    /// The limiter that the measurement found, in words.
    pub fn limit(&self) -> Option<String> {
        let name = self.limiter?;
        let is_open = name == Limiter::NotExplained.name();
        Some(if is_open { "limit not explained".into() } else { format!("limited by: {name}") })
    }

    /// True if the receiver's window limited the measurement: a window that limits has grown as far as it can.
    pub fn is_window_limited(&self) -> bool {
        self.limiter == Some(Limiter::Window.name())
    }

    /// Share of the segments that were retransmitted, 0 to 1.
    pub fn loss(&self) -> Option<f64> {
        let (again, sent) = (self.retransmitted?, self.sent?);
        (sent > 0).then(|| again as f64 / sent as f64)
    }
}

/// A cloud with limits of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cloud {
    /// Amazon EC2.
    Amazon,
    /// Google Compute Engine.
    Google,
}

/// The beginning of KVM's signature (CPUID leaf 0x4000_0000).
const KVM: &str = "KVMKVMKVM";

/// Drivers of ports in guests that report a speed which isn't the guest's own: Hyper-V's port reports that of the
/// physical card, and POWER's port 1 Gbit/s, whatever is below it (`SPEED_1000` in drivers/net/ethernet/ibm/ibmveth.c).
const NOMINAL: [&str; 2] = ["hv_netvsc", "ibmveth"];

impl<'a> Host<'a> {
    /// The program that runs this guest, if its user can't change the guest's virtual devices. WSL2 and Docker Desktop
    /// are known by the names of their kernels. Firecracker is known by the lack of DMI, which KVM's other usual
    /// monitors give to their guests.
    pub(crate) fn fixed_by(&self) -> Option<&'static str> {
        let (machine, kernel) = (&self.facts.machine, self.facts.kernel.known());
        let is_named = |name: &str| kernel.is_some_and(|release| release.contains(name));
        let has_no_dmi = [&machine.vendor, &machine.product, &machine.bios_vendor]
            .iter()
            .all(|text| **text == Fact::NotApplicable);
        if is_named("microsoft") && is_named("WSL2") {
            Some("WSL2")
        } else if is_named("linuxkit") {
            Some("Docker Desktop")
        } else {
            (begins(&machine.signature, KVM) && has_no_dmi).then_some("a monitor such as Firecracker")
        }
    }

    /// The cloud whose guest this host is. The machine's names or the port's driver show it, because a cloud gives its
    /// guests several kinds of ports.
    pub(crate) fn cloud(&self, port: &Port) -> Option<Cloud> {
        let machine = &self.facts.machine;
        // Chromeboxes have Google's name too, but they aren't guests.
        let is_googles = begins(&machine.vendor, "Google") && machine.guest.get() == Some(true);
        if begins(&port.driver, "gve") || is_googles || begins(&machine.product, "Google Compute Engine") {
            return Some(Cloud::Google);
        }
        (begins(&port.driver, "ena") || begins(&machine.vendor, "Amazon EC2")).then_some(Cloud::Amazon)
    }

    /// True for a guest. On x86 a flag of the processor shows it; on other processors, which have no such flag, the
    /// name of a hypervisor.
    pub(crate) fn is_guest(&self) -> bool {
        let machine = &self.facts.machine;
        match &machine.guest {
            Fact::NotApplicable => machine.hypervisor().known().is_some(),
            flag => flag.get() == Some(true),
        }
    }

    /// True for a host that is known to be a physical machine. On x86 a flag of the processor shows it; on other
    /// processors, a known vendor together with no known hypervisor.
    pub(crate) fn is_physical(&self) -> bool {
        let machine = &self.facts.machine;
        match &machine.guest {
            Fact::NotApplicable => machine.vendor.known().is_some() && !self.is_guest(),
            flag => flag.get() == Some(false),
        }
    }

    /// The host by itself, not as an end of a path.
    pub fn alone(name: &'a str, facts: &'a Facts, need: Need) -> Self {
        Self { name, facts, need, rtt: None }
    }

    /// The path's measured round trip in seconds; if no path was measured, that of a data centre.
    pub(crate) fn near_trip(&self) -> f64 {
        self.rtt.unwrap_or(trip::DATA_CENTRE)
    }

    /// The path's measured round trip in seconds; if no path was measured, that of a region.
    pub(crate) fn far_trip(&self) -> f64 {
        self.rtt.unwrap_or(trip::REGION)
    }

    /// A text about the rates that one connection reaches over the measured round trip; if none was measured, over the
    /// usual round trips of a data centre and of a region. `rate` gives the bits a second for a round trip in seconds.
    pub(crate) fn reached(&self, rate: impl Fn(f64) -> f64) -> String {
        let near = self.near_trip();
        let text =
            format!("one connection reaches {} at a round trip of {}", gbit(rate(near)), trip::text(near));
        match self.rtt {
            Some(_) => text,
            None => format!("{text}, and {} at {}", gbit(rate(trip::REGION)), trip::text(trip::REGION)),
        }
    }

    /// The rate that the host as a whole needs, in bits a second: the target, or the rate of its fastest port with a
    /// link.
    pub fn rate(&self) -> f64 {
        match self.need {
            Need::Target(rate) => rate,
            Need::OfPorts => self.fastest().unwrap_or(USUAL_RATE),
        }
    }

    /// The rate that one port needs, in bits a second: at most the port's own speed, or the host's needed rate if the
    /// port has no speed of its own, as in guests. `None` if the port's speed is unreadable, or if a physical port
    /// reports no speed, like Wi-Fi and the USB ports of management controllers: then a loss can't be computed.
    pub fn rate_of(&self, port: &Port) -> Option<f64> {
        match (&port.speed_mbps, self.need) {
            (Fact::Unreadable(_), _) => None,
            (Fact::NotApplicable, _) if port.kind.get() == Some(PortKind::Physical) => None,
            (Fact::NotApplicable, _) => Some(self.rate()),
            (Fact::Known(_), Need::OfPorts) if self.is_lent(port) => Some(self.rate()),
            (Fact::Known(_), Need::Target(rate)) if self.is_lent(port) => Some(rate),
            (Fact::Known(_), Need::Target(rate)) => speed(port).map(|own| own.min(rate)),
            (Fact::Known(_), Need::OfPorts) => speed(port),
        }
    }

    /// The rate that one port needs, or the host's needed rate if the port's speed is unreadable.
    pub(crate) fn need_of(&self, port: &Port) -> f64 {
        self.rate_of(port).unwrap_or_else(|| self.rate())
    }

    /// True for a port in a guest whose reported speed isn't the guest's own: Hyper-V's and POWER's ports, and virtual
    /// functions, whose card the host and its other guests use too. True also for a bond with such a member.
    pub(crate) fn is_lent(&self, port: &Port) -> bool {
        let is_guest = self.is_guest();
        let is = |port: &Port| {
            let is_nominal = port.driver.known().is_some_and(|driver| NOMINAL.contains(&driver.as_str()));
            is_nominal || (is_guest && port.kind.get() == Some(PortKind::VirtualFunction))
        };
        let members = port.bond.known().and_then(|bond| bond.slaves.known()).into_iter().flatten();
        is(port) || members.filter_map(|name| self.facts.port(name)).any(is)
    }

    /// Bits a second of the fastest port that has a link and a known speed of its own. At the receiving end of a path,
    /// only the ports by which packets arrive count.
    pub fn fastest(&self) -> Option<f64> {
        if let Some(mbps) = self.facts.route.known().and_then(|route| route.arrives_mbps) {
            return Some(mbps as f64 * 1e6);
        }
        let own = self.linked().filter(|port| is_line(port) && !self.is_lent(port));
        own.filter_map(speed).max_by(f64::total_cmp)
    }

    /// The time in which the host counted its losses, as words that follow a number.
    pub fn since(&self) -> String {
        match self.facts.counted_seconds.get() {
            Some(seconds) => format!("in the {seconds:.0} s of the measurement"),
            None => "since boot".into(),
        }
    }

    /// Ports that are known to be up, software ports included.
    pub fn linked(&self) -> impl Iterator<Item = &'a Port> + use<'a> {
        self.facts.ports.known().into_iter().flatten().filter(|port| is_up(port))
    }

    /// Linked ports that are devices: physical, virtual functions, emulated or paravirtual.
    pub fn devices(&self) -> impl Iterator<Item = &'a Port> + use<'a> {
        self.linked().filter(|port| port.kind.get().is_some_and(|kind| kind != PortKind::Software))
    }

    /// Linked ports with hardware of their own: physical ones and virtual functions.
    pub fn hardware(&self) -> impl Iterator<Item = &'a Port> + use<'a> {
        let is_hardware =
            |port: &&Port| matches!(port.kind.get(), Some(PortKind::Physical | PortKind::VirtualFunction));
        self.linked().filter(is_hardware)
    }
}

impl<'a> Path<'a> {
    /// The same path with the needs of its ends set: both need the rate of the slower end, over the measured round
    /// trip.
    pub fn needing(mut self) -> Path<'a> {
        let need = Need::Target(self.rate());
        for end in [&mut self.from, &mut self.to] {
            (end.need, end.rtt) = (need, self.measured.rtt);
        }
        self
    }

    /// The needed rate in bits a second: the target, or the slower end's rate.
    pub fn rate(&self) -> f64 {
        self.from.rate().min(self.to.rate())
    }

    /// Bytes of the largest packet that both ends can send over the devices that the route takes, or over all devices
    /// if the route isn't known.
    pub fn mtu(&self) -> u32 {
        let largest = |host: &Host<'_>| host.devices().filter_map(|port| port.mtu.get()).max();
        self.ends().iter().filter_map(largest).min().unwrap_or(USUAL_MTU)
    }

    /// Both ends.
    pub fn ends(&self) -> [Host<'a>; 2] {
        [self.from, self.to]
    }
}

/// A port's speed in bits a second, if it is known.
pub(crate) fn speed(port: &Port) -> Option<f64> {
    port.speed_mbps.get().map(|mbps| mbps as f64 * 1e6)
}

/// True for ports that aren't software, and for bonds: the speeds of other software ports, such as taps and veths,
/// aren't real.
pub(crate) fn is_line(port: &Port) -> bool {
    port.kind.get() != Some(PortKind::Software) || port.bond.known().is_some()
}

/// True for a port that is up. The state `unknown` counts as up, because drivers that don't report a state have it. A
/// port whose state and carrier are both unreadable may be down, and counts as down.
pub(crate) fn is_up(port: &Port) -> bool {
    let state = port.state.known().map(|state| state == "up" || state == "unknown");
    match (state, port.carrier.get()) {
        (Some(state), carrier) => state && carrier != Some(false),
        (None, carrier) => carrier == Some(true),
    }
}

/// True for a known text with this beginning.
pub(crate) fn begins(fact: &Fact<String>, name: &str) -> bool {
    fact.known().is_some_and(|value| value.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{changed, edited, fixture, port_of};

    #[test]
    fn guests_whose_devices_are_fixed_are_known() {
        let by = |facts: &Facts| Host::alone("h", facts, Need::OfPorts).fixed_by();
        let kernel = |name: &str| changed("hv-netvsc", |facts| facts.kernel = Fact::Known(name.into()));
        assert_eq!(by(&kernel("5.15.167.4-microsoft-standard-WSL2")), Some("WSL2"));
        assert_eq!(by(&kernel("6.10.14-linuxkit")), Some("Docker Desktop"));
        assert_eq!((by(&kernel("6.8.0-1017-azure")), by(&fixture("virtio-one-queue"))), (None, None));
        assert_eq!(by(&fixture("firecracker")), Some("a monitor such as Firecracker"));
    }

    /// A guest with a virtual function of a BCM57414, at the card's 25 Gbit/s; and a host with the card itself.
    #[test]
    fn a_function_is_known_by_its_device() {
        let rate = |device: &str| {
            let text = format!(
                "linerate snapshot 1\n/live/ethtool/eth0/driver:\n  driver bnxt_en\n  version\n  firmware\n\
                /proc/cpuinfo = flags : fpu hypervisor\n\
                /proc/net/dev = eth0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\
                /sys/bus/pci/devices/0000:00:05.0/device = {device}\n\
                /sys/bus/pci/devices/0000:00:05.0/vendor = 0x14e4\n\
                /sys/class/net/eth0/carrier = 1\n/sys/class/net/eth0/operstate = up\n/sys/class/net/eth0/speed = 25000\n\
                /sys/class/net/eth0/device -> /sys/devices/pci0000:00/0000:00:05.0\n"
            );
            let facts = Facts::of_snapshot(&linerate_host::Snapshot::parse(&text).unwrap());
            Host::alone("h", &facts, Need::OfPorts).rate()
        };
        assert_eq!((rate("0x16dc"), rate("0x16d7")), (USUAL_RATE, 25e9));
    }

    /// Arm has no flag for guests.
    #[test]
    fn a_guest_on_arm_is_known_by_its_hypervisor() {
        let rate = |vendor: &str| {
            let mut facts = edited("stock-10g", "eno1", |port| {
                (port.kind, port.speed_mbps) = (Fact::Known(PortKind::VirtualFunction), Fact::Known(100_000));
            });
            facts.machine.guest = Fact::NotApplicable;
            facts.machine.vendor = Fact::Known(vendor.into());
            Host::alone("h", &facts, Need::OfPorts).rate()
        };
        assert_eq!((rate("Microsoft Corporation"), rate("Ampere")), (USUAL_RATE, 100e9));
    }

    #[test]
    fn the_speed_of_a_card_that_others_use_too_is_no_need() {
        let needs = |facts: &Facts, name: &str, need| {
            let host = Host::alone("h", facts, need);
            let port = facts.port(name).unwrap();
            (host.fastest(), host.rate(), host.rate_of(port))
        };
        let usual = (None, USUAL_RATE, Some(USUAL_RATE));
        assert_eq!(needs(&fixture("hv-netvsc"), "eth0", Need::OfPorts), usual);
        let mut function = edited("stock-10g", "eno1", |port| {
            (port.kind, port.speed_mbps) = (Fact::Known(PortKind::VirtualFunction), Fact::Known(100_000));
        });
        assert_eq!(needs(&function, "eno1", Need::OfPorts), (Some(100e9), 100e9, Some(100e9)));
        function.machine.guest = Fact::Known(true);
        assert_eq!(needs(&function, "eno1", Need::OfPorts), usual);
        assert_eq!(needs(&function, "eno1", Need::Target(40e9)), (None, 40e9, Some(40e9)));
        let bond = changed("bond-layer2", |facts| {
            facts.machine.guest = Fact::Known(true);
            for name in ["eth0", "eth1"] {
                port_of(facts, name).kind = Fact::Known(PortKind::VirtualFunction);
            }
        });
        assert_eq!(needs(&bond, "bond0", Need::OfPorts), usual, "of two functions");
    }
}
