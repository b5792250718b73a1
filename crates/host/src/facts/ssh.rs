//! The installed ssh programs.

use serde::{Deserialize, Serialize};

use super::Fact;
use crate::root::Root;
use std::io;
use std::process::{Command, Stdio};

/// The usual paths of the ssh server, whose directory is rarely in an ordinary user's PATH.
const SERVERS: [&str; 4] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/sbin/sshd", "/usr/bin/sshd"];

/// The ssh programs of a host, as they describe themselves in their version messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ssh {
    /// The version of the ssh client, such as `OpenSSH_9.2p1`.
    pub client: Fact<String>,
    /// The version of the ssh server, even if the server isn't running.
    pub server: Fact<String>,
    /// The ciphers that the client offers, in the order of its preference.
    pub ciphers: Fact<Vec<String>>,
}

impl Ssh {
    /// True for a version with the patches for high-performance networks (HPN-SSH).
    pub fn is_hpn(version: &str) -> bool {
        version.to_ascii_lowercase().contains("hpn")
    }
}

impl Ssh {
    pub(super) fn read(root: &Root) -> Self {
        Self {
            client: root.answer("live/ssh/client", || said("ssh", &["-V"])).and_then(version),
            server: root.answer("live/ssh/server", server).and_then(version),
            ciphers: root
                .answer("live/ssh/config", || said("ssh", &["-G", "localhost"]))
                .and_then(|text| ciphers(&text)),
        }
    }
}

/// The ciphers in a resolved configuration (`ssh -G`). `ssh -Q` isn't used, because it prints all ciphers that were
/// compiled in, not in the order of preference.
fn ciphers(config: &str) -> Fact<Vec<String>> {
    let line = config.lines().find_map(|line| line.strip_prefix("ciphers "));
    match line {
        Some(names) => Fact::Known(names.trim().split(',').map(str::to_owned).collect()),
        None => Fact::Unreadable("its configuration names no ciphers".into()),
    }
}

/// The ssh server's version message. Old servers don't know the option -V, but their error message includes the
/// version.
fn server() -> io::Result<String> {
    let found = SERVERS.iter().find(|path| std::path::Path::new(path).exists());
    let path = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    said(path, &["-V"])
}

fn said(program: &str, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output()?;
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Ok(String::from_utf8_lossy(&text).chars().take(4096).collect())
}

/// The part of a version message before the version of the crypto library, such as `OpenSSH_9.2p1 Debian-2`.
fn version(text: String) -> Fact<String> {
    let start = text.find("OpenSSH").or_else(|| text.find("Dropbear"));
    let version = start.map(|at| text[at..].split([',', '\n']).next().unwrap_or_default().trim());
    match version {
        Some(version) => Fact::Known(version.to_owned()),
        None => Fact::Unreadable("its output has no version".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_ciphers_is_the_configured_one() {
        let config = "user me\nciphers aes256-gcm@openssh.com,chacha20-poly1305@openssh.com\nmacs x\n";
        let Fact::Known(names) = ciphers(config) else { panic!("no ciphers") };
        assert_eq!(names, ["aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com"]);
        assert!(ciphers("user me\n").known().is_none());
    }

    #[test]
    fn versions_end_before_the_library() {
        let reported = |text: &str| version(text.into()).known().cloned();
        assert_eq!(
            reported("OpenSSH_9.2p1 Debian-2, OpenSSL 3.0\n").as_deref(),
            Some("OpenSSH_9.2p1 Debian-2")
        );
        assert_eq!(reported("unknown option -- V\nOpenSSH_8.4p1, x\n").as_deref(), Some("OpenSSH_8.4p1"));
        assert_eq!(reported("usage"), None);
        assert!(Ssh::is_hpn("OpenSSH_9.3p1-hpn17v15") && !Ssh::is_hpn("OpenSSH_9.2p1"));
    }
}
