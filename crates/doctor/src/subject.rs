//! What checks look at: a host, or a path with both of its ends.

use linerate_host::facts::{Kind, Port};
use linerate_host::{Fact, Facts};

/// Bits a second that are taken as needed where neither the user nor any port tells.
pub const USUAL_RATE: f64 = 10e9;

/// Bytes of a packet where no port tells.
const USUAL_MTU: u32 = 1500;

/// The rate that transfers shall have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Need {
    /// What the user wants, in bits a second on the wire.
    Target(f64),
    /// What the ports can.
    OfPorts,
}

/// One host.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// As the user calls it.
    pub name: &'a str,
    /// Its facts.
    pub facts: &'a Facts,
    /// What is needed of it.
    pub need: Need,
}

/// Both ends, and what was measured between them. The ends' needs are the same.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    /// The end that sent.
    pub from: Host<'a>,
    /// The end that received.
    pub to: Host<'a>,
    /// What was measured.
    pub measured: Measured,
}

/// What was measured on a path. Not everything can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Measured {
    /// Round-trip time in seconds: the least that was seen.
    pub rtt: Option<f64>,
    /// Payload from memory to memory, in bits a second.
    pub rate: Option<f64>,
    /// Data streams of that measurement.
    pub streams: Option<u32>,
    /// Segments that were sent again meanwhile.
    pub retransmitted: Option<u64>,
    /// Segments that were sent meanwhile.
    pub sent: Option<u64>,
    /// What held the measurement back, by the limiter's name.
    pub limiter: Option<&'static str>,
}

impl Measured {
    /// Share of the segments that were sent again, 0 to 1.
    pub fn loss(&self) -> Option<f64> {
        let (again, sent) = (self.retransmitted?, self.sent?);
        (sent > 0).then(|| again as f64 / sent as f64)
    }
}

impl<'a> Host<'a> {
    /// Bits a second needed of the host as a whole: the target, or the rate of its fastest port that has a link.
    pub fn rate(&self) -> f64 {
        match self.need {
            Need::Target(rate) => rate,
            Need::OfPorts => self.fastest().unwrap_or(USUAL_RATE),
        }
    }

    /// Bits a second needed of one port: no more than it can, and what the host does where it has no speed of its own.
    /// None where its speed can't be read: then nobody knows whether anything is lost.
    pub fn rate_of(&self, port: &Port) -> Option<f64> {
        match (&port.speed_mbps, self.need) {
            (Fact::Unreadable(_), _) => None,
            (Fact::NotApplicable, _) => Some(self.rate()),
            (Fact::Known(_), Need::Target(rate)) => speed(port).map(|own| own.min(rate)),
            (Fact::Known(_), Need::OfPorts) => speed(port),
        }
    }

    /// Bits a second of the fastest port that has a link and tells its speed.
    pub fn fastest(&self) -> Option<f64> {
        self.linked().filter(|port| is_line(port)).filter_map(speed).max_by(f64::total_cmp)
    }

    /// Ports that are known to be up, the kernel's own too.
    pub fn linked(&self) -> impl Iterator<Item = &'a Port> + use<'a> {
        self.facts.ports.known().into_iter().flatten().filter(|port| is_up(port))
    }

    /// Of them, devices: real, lent, emulated or paravirtual ones.
    pub fn devices(&self) -> impl Iterator<Item = &'a Port> + use<'a> {
        self.linked().filter(|port| port.kind.get().is_some_and(|kind| kind != Kind::Software))
    }

    /// Of them, those with a device of their own: real ones and virtual functions.
    pub fn hardware(&self) -> impl Iterator<Item = &'a Port> + use<'a> {
        let is_hardware =
            |port: &&Port| matches!(port.kind.get(), Some(Kind::Physical | Kind::VirtualFunction));
        self.linked().filter(is_hardware)
    }
}

impl<'a> Path<'a> {
    /// The same path, of whose ends neither needs more than the other can.
    pub fn needing(mut self) -> Path<'a> {
        let need = Need::Target(self.rate());
        (self.from.need, self.to.need) = (need, need);
        self
    }

    /// Bits a second needed: the target, or what the slower end can.
    pub fn rate(&self) -> f64 {
        self.from.rate().min(self.to.rate())
    }

    /// Bytes of the largest packet that both ends can send: by their devices, since nobody tells which of them is used.
    pub fn mtu(&self) -> u32 {
        let largest = |host: &Host<'_>| host.devices().filter_map(|port| port.mtu.get()).max();
        self.ends().iter().filter_map(largest).min().unwrap_or(USUAL_MTU)
    }

    /// Both ends.
    pub fn ends(&self) -> [Host<'a>; 2] {
        [self.from, self.to]
    }
}

/// A port's speed in bits a second, where it tells one.
pub(crate) fn speed(port: &Port) -> Option<f64> {
    port.speed_mbps.get().map(|mbps| mbps as f64 * 1e6)
}

/// Cables end in it: not a tap or a veth, whose speeds are made up.
fn is_line(port: &Port) -> bool {
    port.kind.get() != Some(Kind::Software) || port.bond.known().is_some()
}

/// What isn't up has no carrier either; `unknown` is what drivers say that don't tell. A port of which neither can be
/// read may be down, and nothing is said of it.
fn is_up(port: &Port) -> bool {
    let state = port.state.known().map(|state| state == "up" || state == "unknown");
    match (state, port.carrier.get()) {
        (Some(state), carrier) => state && carrier != Some(false),
        (None, carrier) => carrier == Some(true),
    }
}
