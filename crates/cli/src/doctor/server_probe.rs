//! Measurements by a few connections to a host's ssh server, before the host's facts are read: the round-trip time, the
//! size of packets, and whether full packets arrive.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use linerate_sys::tcp::TcpInfo;

use crate::common::login::{LoginOptions, ssh_settings};

/// The number of connections. It is small, because the server logs each connection.
const TRIES: usize = 3;
/// The largest number of addresses of a name that are tried.
const MOST_ADDRESSES: usize = 8;
/// The time limit for making one connection, and for the server's first answer.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest time to wait for full packets.
const DEADLINE: Duration = Duration::from_secs(5);
/// The shortest time after which full packets count as lost.
const SHORTEST: Duration = Duration::from_millis(2500);
/// Full packets count as lost only if the kernel has retransmitted at least this number of segments.
const AGAIN: u32 = 4;
/// The MTU of Ethernet in bytes, assumed for the packets that the other end sends.
const USUAL_MTU: u32 = 1500;
/// Options with which ssh asks no questions and uses no existing connection.
const ALONE: [&str; 7] = ["-T", "-o", "BatchMode=yes", "-o", "ControlMaster=no", "-o", "ControlPath=none"];
/// Options with which ssh doesn't log in.
const NO_LOGIN: [&str; 2] = ["-o", "PreferredAuthentications=none"];
/// A command for a host's shell. It prints a line, waits for a line, and then prints several full packets.
const COMMAND: &str = "exec sh -c 'echo linerate; read line; head -c 18000 /dev/zero'";
/// The first line that [`COMMAND`] prints.
const FIRST_LINE: &[u8] = b"linerate\n";
/// The largest number of bytes of one line that are read.
const LONGEST_LINE: u64 = 4096;
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The number of checks within [`DEADLINE`]. A wait counts its checks and not the clock's time, so that it doesn't end
/// at once if this process was stopped meanwhile.
const CHECKS: u128 = DEADLINE.as_millis() / CHECK_INTERVAL.as_millis();
/// The program's name in ssh's protocol, which is sent as a small packet.
const NAME: &[u8] = b"SSH-2.0-linerate\r\n";
/// The payload in bytes of a message that servers ignore (RFC 4253, 11.2). It fills several full packets.
const FULL: usize = 18_000;
/// The bytes of the IP and TCP headers of a packet: with IPv4, and with IPv6.
const HEADERS: [u32; 2] = [40, 60];
/// The bytes of TCP's timestamps in a packet.
const TIMESTAMPS: u32 = 12;

/// The measurements, as far as they were possible.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerProbe {
    /// The server's address, if it answered.
    pub address: Option<SocketAddr>,
    /// The shortest time that making a connection took, in seconds.
    pub rtt: Option<f64>,
    /// The size in bytes of full packets, if they arrived.
    pub mtu: Option<u32>,
    /// The size in bytes of full packets, if they vanished.
    pub black_hole: Option<u32>,
}

/// Measures the path to a host's ssh server. Measures nothing if ssh doesn't connect directly. Like ssh, this function
/// uses the first address that answers.
pub fn probe(host: &OsStr, login: &LoginOptions) -> ServerProbe {
    let mut answers = server(host, login).into_iter().map(look).enumerate();
    let (place, seen) = answers.find(|(_, seen)| seen.address.is_some()).unwrap_or_default();
    // If this host's full packets arrive, those of the server are tested too: the server's keys fill full packets,
    // unless the keys are short; the output of a command does so in any case. If the first address doesn't answer,
    // nothing is tested, because ssh would wait for that address, as if packets vanished.
    let is_silent = place == 0
        && seen.mtu.is_some()
        && (keys_come(host, login) == Some(false) || answers_come(host, login) == Some(false));
    ServerProbe { black_hole: seen.black_hole.or(is_silent.then_some(USUAL_MTU)), ..seen }
}

/// False if ssh still waits for the server's keys after [`DEADLINE`], within which any server has sent them. ssh runs
/// without any method of login, so it ends as soon as it has the keys.
fn keys_come(host: &OsStr, login: &LoginOptions) -> Option<bool> {
    let mut child =
        ssh(host, login, &NO_LOGIN, "true")?.stdin(Stdio::null()).stdout(Stdio::null()).spawn().ok()?;
    for _ in 0..CHECKS {
        match child.try_wait() {
            Ok(None) => sleep(CHECK_INTERVAL),
            Ok(Some(_)) => return Some(true),
            Err(_) => return None,
        }
    }
    end(child);
    Some(false)
}

/// False if the first line of [`COMMAND`] arrives, but none of the full packets that the command prints next. `None` if
/// a login without questions isn't possible, or if the login runs another command.
fn answers_come(host: &OsStr, login: &LoginOptions) -> Option<bool> {
    let mut child =
        ssh(host, login, &[], COMMAND)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
    let (mut input, output) = (child.stdin.take()?, child.stdout.take()?);
    let (sender, arrived) = mpsc::channel();
    // The thread ends when the child ends, if not earlier.
    thread::spawn(move || read_answer(BufReader::new(output), &sender));
    let come = match await_part(&arrived) {
        Ok(()) if input.write_all(b"\n").is_ok() => match await_part(&arrived) {
            Ok(()) => Some(true),
            Err(RecvTimeoutError::Timeout) => Some(false),
            Err(RecvTimeoutError::Disconnected) => None,
        },
        _ => None,
    };
    end(child);
    come
}

/// Waits for the next message, at most for [`DEADLINE`].
fn await_part(arrived: &Receiver<()>) -> Result<(), RecvTimeoutError> {
    let mut waits = (0..CHECKS).map(|_| arrived.recv_timeout(CHECK_INTERVAL));
    waits.find(|wait| *wait != Err(RecvTimeoutError::Timeout)).unwrap_or(Err(RecvTimeoutError::Timeout))
}

/// Sends a message to `arrived` when the first line of [`COMMAND`] has arrived, and another one when the first byte
/// after this line has arrived: the kernel delivers this byte only when the first full packet has arrived. Other output
/// of the login may come before the line.
fn read_answer(mut output: impl BufRead, arrived: &Sender<()>) {
    let mut line = Vec::new();
    while line != FIRST_LINE {
        line.clear();
        if !matches!(output.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line), Ok(1..)) {
            return;
        }
    }
    // After the deadline, nobody receives the messages.
    let _ = arrived.send(());
    if output.read_exact(&mut [0]).is_ok() {
        let _ = arrived.send(());
    }
}

/// The command for an ssh that asks no questions and runs `shell` on the host.
fn ssh(host: &OsStr, login: &LoginOptions, options: &[&str], shell: &str) -> Option<Command> {
    let mut words = login.configured(host).ok()?.ssh()?.into_iter();
    let mut command = Command::new(words.next()?);
    command.args(words).args(ALONE).args(options).arg("--").arg(host).arg(shell).stderr(Stdio::null());
    Some(command)
}

/// Ends a child. `kill` and `wait` don't fail for a child that hasn't been waited for.
fn end(mut child: Child) {
    let _ = (child.kill(), child.wait());
}

fn server(host: &OsStr, login: &LoginOptions) -> Vec<SocketAddr> {
    let asked = || {
        let words = login.configured(host).ok()?.ssh()?;
        addresses(&ssh_settings(&words, host)?)
    };
    asked().unwrap_or_default()
}

fn look(address: SocketAddr) -> ServerProbe {
    let connect = || {
        let begun = Instant::now();
        TcpStream::connect_timeout(&address, CONNECTION_TIMEOUT)
            .ok()
            .map(|stream| (begun.elapsed().as_secs_f64(), stream))
    };
    let mut all: Vec<_> = (0..TRIES).map_while(|_| connect()).collect();
    let rtt = all.iter().map(|(seconds, _)| *seconds).min_by(f64::total_cmp);
    let (mtu, black_hole) = match all.pop().map(|(_, stream)| full_packets(stream)) {
        Some(Some(PacketFate::Arrived(bytes))) => (Some(bytes), None),
        Some(Some(PacketFate::Vanished(bytes))) => (None, Some(bytes)),
        _ => (None, None),
    };
    ServerProbe { address: rtt.map(|_| address), rtt, mtu, black_hole }
}

/// The fate of full packets, with their size in bytes.
#[derive(Debug, PartialEq)]
enum PacketFate {
    Arrived(u32),
    Vanished(u32),
}

/// Sends a small packet and then full ones, and watches the kernel's counters; `None` if the server closes the connection.
fn full_packets(mut stream: TcpStream) -> Option<PacketFate> {
    stream.set_nodelay(true).ok()?;
    stream.set_read_timeout(Some(CONNECTION_TIMEOUT)).ok()?;
    stream.write_all(NAME).ok()?;
    // The server's name may come late, because some servers look up the name of this host's address first.
    let mut banner = [0; 4];
    stream.read_exact(&mut banner).ok().filter(|()| banner == *b"SSH-")?;
    let before = TcpInfo::of(stream.as_fd()).ok()?;
    stream.write_all(&ignored()).ok()?;
    let (begun, headers) = (Instant::now(), HEADERS[usize::from(stream.peer_addr().ok()?.is_ipv6())]);
    let bytes = |info: &TcpInfo| info.segment_size + headers + if info.timestamps { TIMESTAMPS } else { 0 };
    loop {
        let info = TcpInfo::of(stream.as_fd()).ok()?;
        let fate = judged(&before, &info, begun.elapsed());
        if let Some(has_arrived) = fate {
            return Some(if has_arrived {
                PacketFate::Arrived(bytes(&info))
            } else {
                PacketFate::Vanished(bytes(&before))
            });
        }
        if begun.elapsed() >= DEADLINE {
            return None;
        }
        sleep(CHECK_INTERVAL);
    }
}

/// True once full packets have arrived, and false once they count as lost. Packets count as lost if they were sent
/// several times and never acknowledged at their first size, or if none leaves this host because its own firewall
/// discards them. A kernel that probes for the MTU (tcp_mtu_probing) makes lost packets smaller in the end, and then
/// they arrive; they count as lost, too.
fn judged(before: &TcpInfo, now: &TcpInfo, elapsed: Duration) -> Option<bool> {
    let arrived = now.acknowledged.saturating_sub(before.acknowledged);
    let (again, is_smaller) =
        (now.retransmits - before.retransmits.min(now.retransmits), now.segment_size < before.segment_size);
    // If a router reports a smaller MTU, the size falls at once: this isn't a loss. If one packet can hold the whole
    // message, as on the loopback interface, only this packet has to arrive.
    let whole = u64::from(now.segment_size).min(FULL as u64);
    if arrived >= whole && !(is_smaller && elapsed >= SHORTEST / 2 && again >= 2) {
        return Some(true);
    }
    let is_long = is_smaller || elapsed >= SHORTEST;
    // TCP probes the other end's window although the window is open only if no segment leaves this host.
    let stays_here = now.repeats && now.in_flight == 0 && now.unsent > 0 && now.peer_window > 0;
    (is_long && (again >= AGAIN || stays_here && arrived == 0)).then_some(false)
}

/// An unencrypted packet of ssh's protocol (RFC 4253, 6) with a message that the server ignores.
fn ignored() -> Vec<u8> {
    const IGNORE: u8 = 2;
    let inside = 1 + 4 + FULL;
    let padding = 8 - (4 + 1 + inside) % 8 + 8;
    let length = u32::try_from(1 + inside + padding).unwrap_or(0);
    let mut packet = length.to_be_bytes().to_vec();
    packet.extend([u8::try_from(padding).unwrap_or(8), IGNORE]);
    packet.extend(u32::try_from(FULL).unwrap_or(0).to_be_bytes());
    packet.resize(packet.len() + FULL + padding, 0);
    packet
}

/// The addresses to which ssh would connect, one after the other, according to its configuration (`ssh -G`); `None`
/// if ssh doesn't connect directly.
fn addresses(configuration: &str) -> Option<Vec<SocketAddr>> {
    let value = |key: &str| {
        let line = configuration.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.map(str::trim).filter(|value| *value != "none")
    };
    if value("proxyjump").or(value("proxycommand")).is_some() {
        return None;
    }
    let all = (value("hostname")?, value("port")?.parse().ok()?).to_socket_addrs().ok()?;
    let is_meant = |address: &SocketAddr| match value("addressfamily") {
        Some("inet") => address.is_ipv4(),
        Some("inet6") => address.is_ipv6(),
        _ => true,
    };
    Some(all.filter(is_meant).take(MOST_ADDRESSES).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_address_is_reported_by_ssh_unless_another_host_is_between() {
        let direct = "user a\nhostname 127.0.0.1\nport 2222\nproxycommand none\n";
        let here = vec![SocketAddr::from(([127, 0, 0, 1], 2222))];
        assert_eq!(addresses(direct), Some(here.clone()));
        assert_eq!(addresses(&format!("{direct}addressfamily inet\n")), Some(here));
        assert_eq!(addresses(&format!("{direct}addressfamily inet6\n")), Some(Vec::new()));
        assert_eq!(addresses("hostname 127.0.0.1\nport 22\nproxyjump gate\n"), None);
        assert_eq!(addresses("hostname 127.0.0.1\n"), None);
    }

    #[test]
    fn an_answer_is_its_line_and_then_some_of_its_packets() {
        let count = |text: &[u8], zeros: usize| {
            let (sender, arrived) = mpsc::channel();
            read_answer([text, &vec![0; zeros]].concat().as_slice(), &sender);
            drop(sender);
            arrived.iter().count()
        };
        assert_eq!(count(b"Welcome\nlinerate\n", 1), 2, "a long path may bring the rest later");
        assert_eq!(count(b"linerate\n", 0), 1);
        assert_eq!(count(b"menu: exec sh -c 'echo linerate; read'\n> ", FULL), 0, "another command");
        assert!(COMMAND.contains(&format!(" {FULL} ")), "{COMMAND}");
    }

    #[test]
    fn a_message_to_be_ignored_is_whole() {
        let packet = ignored();
        let length = u32::from_be_bytes(packet[..4].try_into().unwrap()) as usize;
        assert_eq!((length + 4, packet.len() % 8), (packet.len(), 0));
        assert!(packet[4] >= 4 && packet[5] == 2 && length < 35_000, "RFC 4253, 6.1");
    }

    #[test]
    fn packets_that_nobody_acknowledges_have_vanished() {
        let info = |acknowledged, retransmits, segment_size| TcpInfo {
            acknowledged,
            retransmits,
            segment_size,
            ..TcpInfo::default()
        };
        let (before, late) = (info(19, 0, 1448), Duration::from_secs(3));
        assert_eq!(judged(&before, &info(5000, 0, 1448), Duration::ZERO), Some(true));
        assert_eq!(
            judged(&before, &info(5000, 1, 1348), Duration::from_millis(30)),
            Some(true),
            "a router's report"
        );
        assert_eq!(judged(&before, &info(19, 5, 1448), late), Some(false));
        assert_eq!(judged(&before, &info(19, 1, 1448), late), None, "one loss");
        assert_eq!(judged(&before, &info(1043, 5, 1024), late), Some(false), "only smaller ones arrive");
        let own = TcpInfo { repeats: true, unsent: 18_000, peer_window: 65_535, ..info(19, 0, 1448) };
        assert_eq!(judged(&before, &own, late), Some(false), "this host's own firewall");
        assert_eq!(
            judged(&before, &TcpInfo { peer_window: 0, ..own }, late),
            None,
            "a server that reads nothing"
        );
    }

    #[test]
    fn a_server_that_answers_is_measured_and_one_that_does_not_is_left() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let serving = thread::spawn(move || {
            for mut stream in server.incoming().take(TRIES).flatten() {
                let _ = stream.write_all(b"SSH-2.0-x\r\n");
                thread::spawn(move || stream.read_to_end(&mut Vec::new()));
            }
        });
        let seen = look(address);
        assert!(seen.rtt.is_some_and(|rtt| rtt < 1.0) && seen.black_hole.is_none(), "{seen:?}");
        assert!(seen.mtu.is_some_and(|mtu| mtu > 1280), "{seen:?}");
        serving.join().unwrap();
        assert_eq!(look(address), ServerProbe::default(), "nobody listens");
    }
}
