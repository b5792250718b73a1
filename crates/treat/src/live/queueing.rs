//! A port's root queueing discipline and its largest MTU, by netlink (rtnetlink(7)).

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use linerate_host::netlink::{attribute, attributes, error, find, message, number, request};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with,
};

/// The flags of a request: NLM_F_REQUEST with NLM_F_ACK; with NLM_F_DUMP; with NLM_F_ACK, NLM_F_CREATE and
/// NLM_F_REPLACE.
const ACK: u16 = 0x5;
const DUMP: u16 = 0x301;
const REPLACE: u16 = ACK | 0x400 | 0x100;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// The types of messages RTM_GETLINK, RTM_NEWQDISC, RTM_DELQDISC and RTM_GETQDISC.
const GET_LINK: u16 = 18;
const NEW_QDISC: u16 = 36;
const DEL_QDISC: u16 = 37;
const GET_QDISC: u16 = 38;
/// The kernel's numbers TC_H_ROOT, TC_H_INGRESS, TCA_KIND, TCA_OPTIONS and IFLA_MAX_MTU.
const ROOT: u32 = 0xffff_ffff;
const INGRESS: u32 = 0xffff_fff1;
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const MAX_MTU: u16 = 51;

/// The beginning of the name of a root discipline with queues.
const QUEUES: &str = "mq ";
/// A discipline that every kernel has. When it is removed, the kernel attaches its default.
const ANY: &str = "pfifo";

/// The disciplines whose quantum comes from the MTU: the kind, the number of the option with the quantum, and the
/// number of packets of the largest size in a quantum.
const QUANTA: [(&str, u16, u32); 3] = [("fq_codel", 6, 1), ("fq", 3, 2), ("fq_pie", 7, 1)];
/// The bytes of Ethernet's header.
const HEADER: u32 = 14;

/// A virtual port's discipline, whatever the default is.
const NONE: &str = "noqueue";
const DEFAULT: &str = "/proc/sys/net/core/default_qdisc";

/// A root discipline.
pub struct RootQdisc {
    /// The discipline's kind, such as `fq_codel`; `mq KIND` if the kernel has attached a discipline of this kind to
    /// each queue.
    pub kind: String,
    /// 0 if the kernel attached this discipline by itself: then the kernel attaches it again when a later discipline is
    /// removed.
    handle: u32,
    /// The quantum of this discipline, or of all disciplines below it, if the kernel attached them by itself.
    quantum: Option<u32>,
}

/// The root discipline of a port. If the port has several queues, and the kernel has given each queue the same kind,
/// the root discipline is `mq KIND`.
pub fn root(port: &str) -> Result<RootQdisc, String> {
    let index = index(port)?;
    let (mut found, mut below, mut quanta) = (None, BTreeSet::new(), BTreeSet::new());
    talk(&request(GET_QDISC, DUMP, &[0; 20]), |inside| {
        let parent = number(inside, 12, 4).unwrap_or(0) as u32;
        let kind = attributes(inside.get(20..).unwrap_or_default()).find(|(kind, _)| *kind == KIND);
        let Some((_, kind)) = kind.filter(|_| number(inside, 4, 4) == Some(index.into())) else { return };
        let kind = String::from_utf8_lossy(kind).trim_end_matches('\0').to_owned();
        let handle = number(inside, 8, 4).unwrap_or(0) as u32;
        let quantum = option_quantum(&kind, inside.get(20..).unwrap_or_default()).filter(|_| handle == 0);
        match parent {
            ROOT => found = Some(RootQdisc { kind, handle, quantum }),
            INGRESS => {}
            _ => {
                quanta.insert(quantum);
                below.insert((kind, handle));
            }
        }
    })
    .map_err(failed)?;
    let root = found.ok_or_else(|| format!("the kernel names no root discipline of {port}"))?;
    let below: Vec<_> = below.into_iter().collect();
    match below.as_slice() {
        [(kind, 0)] if root.kind == "mq" && root.handle == 0 => {
            let quantum = quanta.first().copied().flatten().filter(|_| quanta.len() == 1);
            Ok(RootQdisc { kind: format!("mq {kind}"), quantum, ..root })
        }
        _ => Ok(root),
    }
}

/// The quantum among the attributes of a discipline of this kind.
fn option_quantum(kind: &str, inside: &[u8]) -> Option<u32> {
    let (_, option, _) = QUANTA.iter().find(|(name, ..)| *name == kind)?;
    let value = find(find(inside, OPTIONS)?, *option)?;
    number(value, 0, 4).and_then(|quantum| quantum.try_into().ok())
}

/// The kind and the quantum of the disciplines that the kernel has attached by itself.
pub fn quantum(port: &str) -> Result<String, String> {
    let root = root(port)?;
    match root.quantum {
        Some(quantum) => Ok(format!("{} {quantum}", root.kind.trim_start_matches(QUEUES))),
        None => Err("the kernel has attached no discipline with a quantum".into()),
    }
}

/// Lets the kernel create its disciplines again, if they then get this quantum.
pub fn set_quantum(port: &str, value: &str) -> Result<(), String> {
    let mtu = super::files::read(&format!("/sys/class/net/{port}/mtu"))?;
    let why = || format!("the kernel computes the quantum from the port's MTU, which is {mtu} now");
    let now = root(port)?;
    let usual = usual_quantum(now.kind.trim_start_matches(QUEUES), &mtu);
    if now.handle != 0 || now.quantum.is_none() || now.quantum == usual || !comes_back(&now.kind) {
        return Err(why());
    }
    let tcmsg = tcmsg(index(port)?);
    attach(&tcmsg, ANY)?;
    talk(&request(DEL_QDISC, ACK, &tcmsg), |_| {}).map_err(failed)?;
    if quantum(port)? == value { Ok(()) } else { Err(why()) }
}

/// The quantum that the kernel gives a discipline for this MTU, at an Ethernet port.
fn usual_quantum(kind: &str, mtu: &str) -> Option<u32> {
    let (.., packets) = QUANTA.iter().find(|(name, ..)| *name == kind)?;
    mtu.parse::<u32>().ok()?.checked_add(HEADER)?.checked_mul(*packets)
}

/// Attaches a discipline with its usual options. The kernel's own discipline comes back when the other is removed, and
/// its queues get the default discipline of that moment.
pub fn set_root(port: &str, kind: &str) -> Result<(), String> {
    let tcmsg = tcmsg(index(port)?);
    let remove = || talk(&request(DEL_QDISC, ACK, &tcmsg), |_| {}).map_err(failed);
    let now = root(port)?;
    if now.kind == kind && !comes_back(kind) {
        return Ok(());
    }
    if now.handle != 0 {
        remove()?;
        if root(port)?.kind == kind {
            return Ok(());
        }
    }
    if kind.starts_with(QUEUES) {
        attach(&tcmsg, ANY)?;
        remove()?;
        let now = root(port)?.kind;
        return if now == kind { Ok(()) } else { Err(format!("the kernel sets {now} instead")) };
    }
    attach(&tcmsg, kind)
}

/// Checks that a port has the discipline that the kernel attached by itself before.
pub fn check_back(port: &str, before: &str) -> Result<(), String> {
    let now = root(port)?;
    if now.kind != before {
        return Err(format!("the kernel reports {}, although {before} was set", now.kind));
    }
    if now.handle == 0 {
        return Ok(());
    }
    let default = super::files::read(DEFAULT).unwrap_or_else(|_| "another one".into());
    Err(format!(
        "it is {before} again, but no longer by the kernel's own choice, which is {default} now; \
         tc qdisc del dev {port} root leaves it to the kernel"
    ))
}

/// True if the kernel attaches this discipline by itself, as far as that is known.
fn comes_back(kind: &str) -> bool {
    let kind = kind.trim_start_matches(QUEUES);
    kind == NONE
        || super::files::read(DEFAULT).is_ok_and(|default| default == kind)
        || !fs::exists(DEFAULT).unwrap_or(false)
}

fn attach(tcmsg: &[u8], kind: &str) -> Result<(), String> {
    let text = [kind.as_bytes(), b"\0"].concat();
    let body = [tcmsg, &attribute(KIND, &text)].concat();
    talk(&request(NEW_QDISC, REPLACE, &body), |_| {}).map_err(failed)
}

/// Checks that a port can have this root discipline. A discipline that somebody has chosen stays, because its options
/// can't be restored.
pub fn can_root(port: &str, kind: &str) -> Result<(), String> {
    let now = root(port)?;
    if now.handle != 0 {
        return Err(format!("somebody has chosen {} for it, perhaps with options", now.kind));
    }
    if !comes_back(&now.kind) {
        return Err(format!("{} couldn't be restored: it is no longer the kernel's default", now.kind));
    }
    if now.kind.starts_with("mq") && !(now.kind.starts_with(QUEUES) && kind.starts_with(QUEUES)) {
        return Err("its queues have their own disciplines".into());
    }
    let kind = kind.trim_start_matches(QUEUES);
    if has_module(&format!("sch_{kind}")) { Ok(()) } else { Err(format!("this kernel has no {kind}")) }
}

/// Checks that a port takes packets of this size.
pub fn can_mtu(port: &str, new: &str) -> Result<(), String> {
    let (index, mut most) = (index(port)?, None);
    links(|inside| {
        if number(inside, 4, 4) == Some(index.into()) {
            let all = attributes(inside.get(16..).unwrap_or_default());
            most = all.filter(|(kind, _)| *kind == MAX_MTU).find_map(|(_, value)| number(value, 0, 4));
        }
    })
    .map_err(failed)?;
    let wanted: u64 = new.parse().map_err(|_| format!("{new:?} isn't an MTU"))?;
    match most.filter(|most| *most > 0 && wanted > *most) {
        Some(most) => Err(format!("the driver allows at most {most}")),
        None => Ok(()),
    }
}

/// Calls `each` with the payload of each port's message.
pub fn links(each: impl FnMut(&[u8])) -> io::Result<()> {
    talk(&request(GET_LINK, DUMP, &[0; 16]), each)
}

/// True if the kernel has a module built in, loaded or on disk.
fn has_module(name: &str) -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let listed = |list: &str| {
        let text = fs::read_to_string(format!("/lib/modules/{}/{list}", release.trim())).unwrap_or_default();
        text.lines()
            .any(|line| line.split(':').next().is_some_and(|path| path.contains(&format!("/{name}.ko"))))
    };
    // The kernel's symbols also show built-in modules that no list has.
    let symbols = || fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let ops = format!(" {}_qdisc_ops", name.trim_start_matches("sch_"));
    fs::exists(format!("/sys/module/{name}")).unwrap_or(false)
        || listed("modules.builtin")
        || listed("modules.dep")
        || symbols().lines().any(|line| line.split('\t').next().is_some_and(|line| line.ends_with(&ops)))
}

fn index(port: &str) -> Result<u32, String> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
    let index = socket.and_then(|socket| netdevice::name_to_index(&socket, port));
    index.map_err(|error| format!("there is no port {port} here: {error}"))
}

/// The bytes of `struct tcmsg` for the root discipline of a port.
fn tcmsg(index: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[12..16].copy_from_slice(&ROOT.to_ne_bytes());
    bytes
}

/// Sends a request, and calls `each` with the payload of each answer until the last one.
fn talk(request: &[u8], mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let socket: OwnedFd = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    send(&socket, request, SendFlags::empty())?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (got, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = buffer.get(..got).unwrap_or_default();
        if got == 0 {
            return Err(io::Error::other("the kernel doesn't answer"));
        }
        while let Some((kind, inside, after)) = message(rest) {
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => return error(inside).map(|_| ()),
                _ => each(inside),
            }
            rest = after;
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub fn failed(error: io::Error) -> String {
    match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
        Some(rustix::io::Errno::PERM) => "this needs root (CAP_NET_ADMIN)".into(),
        Some(rustix::io::Errno::NOENT) => "this kernel doesn't have it".into(),
        _ => format!("the kernel refuses it: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_a_root_discipline_and_no_other_port_does() {
        assert!(!root("lo").unwrap().kind.is_empty());
        assert!(root("no-such-port").is_err_and(|why| why.contains("no port")));
        assert!(can_mtu("lo", "1500").is_ok() && !has_module("sch_there_is_none"));
    }

    #[test]
    fn a_quantum_is_read_from_the_options() {
        let options = attribute(
            OPTIONS | 0x8000,
            &[attribute(1, &[1; 4]), attribute(6, &1514_u32.to_ne_bytes())].concat(),
        );
        let inside = [attribute(KIND, b"fq_codel\0"), options].concat();
        assert_eq!(option_quantum("fq_codel", &inside), usual_quantum("fq_codel", "1500"));
        assert_eq!((option_quantum("fq", &inside), option_quantum("pfifo_fast", &inside)), (None, None));
        assert_eq!((usual_quantum("fq", "9000"), usual_quantum("pfifo", "9000")), (Some(18_028), None));
        assert!(quantum("lo").is_err() && set_quantum("lo", "fq_codel 1514").is_err());
    }
}
