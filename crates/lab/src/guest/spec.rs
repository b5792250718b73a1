//! The kinds of guests.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The description of a lab's virtual machines, which are all alike.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuestSpec {
    /// The program that runs the machines.
    pub kind: MachineKind,
    /// The model of the machines' network cards.
    pub nic: Nic,
    /// The number of processors of each guest.
    pub vcpus: u32,
    /// Memory of each guest in bytes, for the kernel, received files and programs.
    pub memory: u64,
    /// The number of receive queues, and of transmit queues, of each card. Only virtio cards can have more than one.
    pub queues: u32,
    /// True if an RSS table chooses the queue of a packet that the guest receives. Must be false for cards other than
    /// virtio.
    pub rss: bool,
    /// True if the card segments, merges and checksums large packets for the guest. Must be true for cards other than
    /// virtio.
    pub offload: bool,
    /// The way in which the instructions of the guests' processors are executed.
    pub accel: Accel,
    /// True if the host's kernel (vhost-net) instead of QEMU moves the packets of virtio cards.
    pub vhost: bool,
    /// True if guest i may only use processor i of the host, modulo the number of processors.
    pub pinned: bool,
}

/// A program that runs virtual machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum MachineKind {
    /// QEMU, with KVM or without.
    #[default]
    Qemu,
    /// User-mode Linux: a kernel that is an ordinary program. The guest's programs compute at the host's speed even
    /// without KVM, but each of their system calls passes through ptrace(2). A machine has one processor.
    Uml,
}

/// A model of network card that a guest can have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Nic {
    /// virtio-net, a card made for guests.
    #[default]
    Virtio,
    /// VMware's card for guests.
    Vmxnet3,
    /// Intel 82540EM, a card of 1 Gbit/s in full emulation.
    E1000,
    /// Intel 82574L, a card of 1 Gbit/s in full emulation.
    E1000e,
    /// Intel 82576, which has virtual functions. This card needs QEMU 8.0.
    Igb,
    /// The card of user-mode Linux.
    Vector,
}

/// How the instructions of a guest's processors are executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Accel {
    /// `Kvm` if a guest boots under KVM, otherwise `Tcg`.
    #[default]
    Auto,
    /// The host's processors execute the instructions directly, by hardware virtualization (KVM).
    Kvm,
    /// QEMU emulates each instruction, which is about ten times slower.
    Tcg,
}

/// The error for a text that isn't the name of a card.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a guest's network card; write virtio, vmxnet3, e1000, e1000e, igb or vector")]
pub struct NicError(String);

/// The error for a text that isn't the name of a program that runs virtual machines.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a kind of virtual machine; write qemu or uml")]
pub struct MachineKindError(String);

/// The error for a text that isn't the name of a way to run a guest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a way to run a guest; write auto, kvm or tcg")]
pub struct AccelError(String);

/// The error for a text that isn't a description of a guest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{part:?} isn't a property of a guest: {reason}; write for example nic=virtio,vcpus=4,queues=4,memory=512MiB"
)]
pub struct GuestSpecError {
    part: String,
    reason: String,
}

/// The default memory of a guest in bytes. The kernel and this program take 90 MB of the memory.
const MEMORY: u64 = 224 << 20;

/// The smallest memory, in bytes, with which a guest boots.
const LEAST_MEMORY: u64 = 128 << 20;

/// The greatest number of processors of a guest.
const MOST_VCPUS: u32 = 64;

impl Default for GuestSpec {
    fn default() -> Self {
        Self {
            kind: MachineKind::default(),
            nic: Nic::default(),
            vcpus: 1,
            memory: MEMORY,
            queues: 1,
            rss: false,
            offload: true,
            accel: Accel::default(),
            vhost: false,
            pinned: false,
        }
    }
}

impl GuestSpec {
    /// The reason why such a guest is impossible, if it is.
    pub fn fault(&self) -> Option<String> {
        let Self { kind, nic, vcpus, memory, queues, rss, offload, vhost, .. } = self;
        let (uml, virtio) = (*kind == MachineKind::Uml, *nic == Nic::Virtio);
        match () {
            () if uml != (*nic == Nic::Vector) => Some(format!(
                "a guest of the kind {kind} with the card {nic}: uml has only the card vector, which no other kind has"
            )),
            () if uml && *vcpus != 1 => {
                Some(format!("a guest of the kind uml with {vcpus} processors: it has 1; use qemu"))
            }
            () if uml && self.accel != Accel::Auto => {
                Some("accel for a guest of the kind uml: only qemu has it".into())
            }
            () if !(1..=MOST_VCPUS).contains(vcpus) => {
                Some(format!("a guest with {vcpus} processors: it can have 1 to {MOST_VCPUS}"))
            }
            () if *memory < LEAST_MEMORY => {
                Some(format!("a guest with {memory} bytes of memory: it needs {} MiB", LEAST_MEMORY >> 20))
            }
            () if *queues == 0 || *queues > *vcpus => Some(format!(
                "a guest's card with {queues} queues: it can have 1 for each of the guest's {vcpus} processors"
            )),
            () if *queues > 1 && !virtio => Some(format!(
                "{nic} with {queues} queues: QEMU receives on only one queue of this card; use virtio, or 1 queue"
            )),
            () if !offload && !virtio => {
                Some(format!("{nic} without offload: only virtio can do without; use virtio"))
            }
            () if *rss && !virtio => Some(format!("RSS with {nic}: only virtio has it; use virtio")),
            () if *vhost && !virtio => Some(format!("vhost with {nic}: only virtio has it; use virtio")),
            () => None,
        }
    }

    /// How the guests run, for users: `QEMU by tcg`, or `user-mode Linux`.
    pub fn runs_by(&self) -> String {
        match self.kind {
            MachineKind::Qemu => format!("QEMU by {}", self.accel),
            MachineKind::Uml => "user-mode Linux".into(),
        }
    }

    /// Kernel modules that the card needs.
    pub(crate) fn modules(&self) -> &'static [&'static str] {
        match self.nic {
            Nic::Virtio => &["virtio_net"],
            Nic::Vmxnet3 => &["vmxnet3"],
            Nic::E1000 => &["e1000"],
            Nic::E1000e => &["e1000e"],
            Nic::Igb => &["igb", "igbvf"],
            // The card is a part of this kernel, but IPv6 isn't.
            Nic::Vector => &["ipv6"],
        }
    }
}

impl GuestSpec {
    /// Sets one property by its name.
    ///
    /// # Errors
    /// The reason, if there is no such property or it can't have this value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = || value.parse().map_err(|_| format!("{value:?} is not a whole number"));
        let flag = || match value {
            "on" | "true" => Ok(true),
            "off" | "false" => Ok(false),
            _ => Err(format!("{value:?} is neither on nor off")),
        };
        match name {
            "kind" => {
                *self = Self {
                    kind: value.parse().map_err(|error: MachineKindError| error.to_string())?,
                    ..self.clone()
                }
                .with_own_card()
            }
            "nic" => self.nic = value.parse().map_err(|error: NicError| error.to_string())?,
            "accel" => self.accel = value.parse().map_err(|error: AccelError| error.to_string())?,
            "memory" => self.memory = linerate_quantity::bytes(value)?,
            "vcpus" => self.vcpus = number()?,
            "queues" => self.queues = number()?,
            "rss" => self.rss = flag()?,
            "offload" => self.offload = flag()?,
            "vhost" => self.vhost = flag()?,
            "pinned" => self.pinned = flag()?,
            _ => return Err(format!("a guest has no property {name:?}; it has {}", Self::NAMES.join(", "))),
        }
        Ok(())
    }

    /// With the card of the machine's kind, if no other was chosen.
    pub fn with_own_card(self) -> Self {
        let nic =
            if self.kind == MachineKind::Uml && self.nic == Nic::default() { Nic::Vector } else { self.nic };
        Self { nic, ..self }
    }

    /// Guests of this kind with default properties.
    pub fn of(kind: MachineKind) -> Self {
        Self { kind, ..Self::default() }.with_own_card()
    }

    /// The names of all properties.
    pub const NAMES: [&str; 10] =
        ["kind", "nic", "vcpus", "memory", "queues", "rss", "offload", "accel", "vhost", "pinned"];
}

impl FromStr for GuestSpec {
    type Err = GuestSpecError;

    /// Parses `NAME=VALUE,...`.
    fn from_str(text: &str) -> Result<Self, GuestSpecError> {
        let mut spec = Self::default();
        for part in text.split(',') {
            let error = |reason: String| GuestSpecError { part: part.to_owned(), reason };
            let (name, value) = part.split_once('=').ok_or_else(|| error("the = is missing".into()))?;
            spec.set(name.trim(), value.trim()).map_err(error)?;
        }
        spec.fault().map_or(Ok(spec), |reason| Err(GuestSpecError { part: text.to_owned(), reason }))
    }
}

impl fmt::Display for GuestSpec {
    /// Writes a description for users: `virtio, 4 processors, 4 queues, 224 MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nic, vcpus, memory, queues, rss, offload, vhost, pinned, .. } = self;
        let of = |n: &u32, what: &str| format!("{n} {what}{}", if *n == 1 { "" } else { "s" });
        write!(f, "{nic}, {}, {}", of(vcpus, "processor"), of(queues, "queue"))?;
        write!(f, ", {} MiB", memory >> 20)?;
        for (given, text) in
            [(*rss, "RSS"), (!offload, "without offload"), (*vhost, "vhost"), (*pinned, "pinned")]
        {
            if given {
                write!(f, ", {text}")?;
            }
        }
        Ok(())
    }
}

impl Nic {
    const ALL: [(Self, &str); 6] = [
        (Self::Virtio, "virtio"),
        (Self::Vmxnet3, "vmxnet3"),
        (Self::E1000, "e1000"),
        (Self::E1000e, "e1000e"),
        (Self::Igb, "igb"),
        (Self::Vector, "vector"),
    ];

    /// QEMU's name of the device.
    pub(crate) fn device(self) -> &'static str {
        match self {
            Self::Virtio => "virtio-net-pci",
            other => name(&Self::ALL, other),
        }
    }
}

impl MachineKind {
    const ALL: [(Self, &str); 2] = [(Self::Qemu, "qemu"), (Self::Uml, "uml")];
}

impl Accel {
    const ALL: [(Self, &str); 3] = [(Self::Auto, "auto"), (Self::Kvm, "kvm"), (Self::Tcg, "tcg")];
}

fn name<T: Copy + PartialEq>(all: &[(T, &'static str)], one: T) -> &'static str {
    all.iter().find(|(other, _)| *other == one).map_or("", |(_, name)| name)
}

fn named<T: Copy>(all: &[(T, &str)], text: &str) -> Option<T> {
    all.iter().find(|(_, name)| *name == text).map(|(one, _)| *one)
}

/// Implements `FromStr` and `Display` by a table of names.
macro_rules! by_name {
    ($kind:ident, $error:ident) => {
        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(name(&Self::ALL, *self))
            }
        }

        impl FromStr for $kind {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                named(&Self::ALL, text).ok_or_else(|| $error(text.to_owned()))
            }
        }

        impl TryFrom<String> for $kind {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                text.parse()
            }
        }

        impl From<$kind> for String {
            fn from(one: $kind) -> Self {
                one.to_string()
            }
        }
    };
}

by_name!(MachineKind, MachineKindError);
by_name!(Nic, NicError);
by_name!(Accel, AccelError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_read_as_they_are_written() {
        for (nic, text) in Nic::ALL {
            assert_eq!((text.parse(), nic.to_string().as_str()), (Ok(nic), text));
        }
        assert!("rtl8139".parse::<Nic>().is_err());
        let spec = GuestSpec { nic: Nic::Vmxnet3, accel: Accel::Tcg, ..GuestSpec::default() };
        let text = serde_json::to_string(&spec).expect("it is plain data");
        assert!(text.contains("\"vmxnet3\"") && text.contains("\"tcg\""), "{text}");
        assert_eq!(serde_json::from_str::<GuestSpec>(&text).expect("as written"), spec);
    }

    #[test]
    fn guests_that_can_not_be_are_refused_with_the_reason() {
        let spec = GuestSpec::default();
        assert_eq!(spec.fault(), None);
        let queues = GuestSpec { queues: 4, vcpus: 4, ..spec.clone() };
        assert_eq!(queues.fault(), None);
        for (wrong, part) in [
            (GuestSpec { vcpus: 0, ..spec.clone() }, "1 to 64"),
            (GuestSpec { vcpus: 2, ..queues.clone() }, "1 for each"),
            (GuestSpec { nic: Nic::E1000, ..queues.clone() }, "one queue"),
            (GuestSpec { nic: Nic::Vmxnet3, offload: false, ..spec.clone() }, "without offload"),
            (GuestSpec { nic: Nic::E1000e, vhost: true, ..spec.clone() }, "vhost"),
            (GuestSpec { memory: 1 << 20, ..spec.clone() }, "128 MiB"),
            (GuestSpec { nic: Nic::Vector, ..spec.clone() }, "only the card vector"),
            (GuestSpec { kind: MachineKind::Uml, ..spec.clone() }, "only the card vector"),
            (GuestSpec { vcpus: 2, ..GuestSpec::of(MachineKind::Uml) }, "it has 1"),
            (GuestSpec { accel: Accel::Kvm, ..GuestSpec::of(MachineKind::Uml) }, "only qemu"),
        ] {
            assert!(wrong.fault().is_some_and(|fault| fault.contains(part)), "{wrong:?}");
        }
    }

    #[test]
    fn a_guest_is_read_from_names_and_values() {
        let read = |text: &str| text.parse::<GuestSpec>();
        let spec =
            read("nic=virtio, vcpus=4,queues=2,memory=512MiB,offload=off,accel=tcg,vhost=on,pinned=on");
        let expected = GuestSpec {
            vcpus: 4,
            queues: 2,
            memory: 512 << 20,
            offload: false,
            accel: Accel::Tcg,
            vhost: true,
            pinned: true,
            ..GuestSpec::default()
        };
        assert_eq!(spec, Ok(expected));
        assert_eq!(read("kind=uml,memory=256MiB").expect("a guest").nic, Nic::Vector);
        for (wrong, part) in [
            ("nic", "the = is missing"),
            ("nic=rtl8139", "virtio, vmxnet3"),
            ("kind=xen", "write qemu or uml"),
            ("kind=uml,nic=e1000", "only the card vector"),
            ("kind=uml,queues=2,vcpus=2", "it has 1"),
            ("disk=1", "it has kind"),
            ("vcpus=x", "whole number"),
            ("offload=maybe", "neither on nor off"),
            ("nic=e1000,vcpus=2,queues=2", "one queue"),
        ] {
            assert!(read(wrong).expect_err(wrong).to_string().contains(part), "{wrong}");
        }
    }

    #[test]
    fn a_guest_is_described_for_people() {
        let spec = GuestSpec { vcpus: 4, queues: 4, pinned: true, ..GuestSpec::default() };
        assert_eq!(spec.to_string(), "virtio, 4 processors, 4 queues, 224 MiB, pinned");
    }
}
