//! The round-trip time to an ssh server: how long a TCP connection takes to stand.

use std::ffi::OsStr;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::reach::Reach;

/// The number of connections. It is small, because the server logs each one.
const TRIES: usize = 3;
/// The longest time for one connection.
const PATIENCE: Duration = Duration::from_secs(1);

/// The shortest time of a connection in seconds; none if ssh doesn't connect directly.
pub fn to(host: &OsStr, reach: &Reach) -> Option<f64> {
    let mut words = reach.configured(host).ok()?.ssh()?.into_iter();
    let mut command = Command::new(words.next()?);
    command.args(words).arg("-G").arg("--").arg(host).stdin(Stdio::null()).stderr(Stdio::null());
    let address = address(&String::from_utf8(command.output().ok()?.stdout).ok()?)?;
    let connect = || {
        let begun = Instant::now();
        TcpStream::connect_timeout(&address, PATIENCE).ok().map(|_| begun.elapsed().as_secs_f64())
    };
    (0..TRIES).map_while(|_| connect()).min_by(f64::total_cmp)
}

/// The address to which ssh would connect, from its configuration (`ssh -G`).
fn address(configuration: &str) -> Option<SocketAddr> {
    let value = |key: &str| {
        let line = configuration.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
        line.map(str::trim).filter(|value| *value != "none")
    };
    if value("proxyjump").or(value("proxycommand")).is_some() {
        return None;
    }
    (value("hostname")?, value("port")?.parse().ok()?).to_socket_addrs().ok()?.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_by_ssh_unless_another_host_is_between() {
        let direct = "user a\nhostname 127.0.0.1\nport 2222\nproxycommand none\n";
        assert_eq!(address(direct), Some(SocketAddr::from(([127, 0, 0, 1], 2222))));
        assert_eq!(address("hostname 127.0.0.1\nport 22\nproxyjump gate\n"), None);
        assert_eq!(address("hostname 127.0.0.1\n"), None);
    }
}
