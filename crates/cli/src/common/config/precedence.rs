//! Options of the login that exclude each other: the one from the earlier source is used. Commands and `config show` both ask
//! here.

use std::ffi::OsStr;

use super::Configuration;
use super::keys::{ConfigKey, KEYS, KeyUse, find, ssh_option_name};

impl Configuration {
    /// The key whose value is used for the host instead of that of `key`; `None` if both are used, or `key` has no value.
    pub fn instead_of(&self, key: &ConfigKey, host: Option<&OsStr>) -> Option<&'static ConfigKey> {
        self.rank(key.name, host)?;
        match key.use_ {
            KeyUse::Data => None,
            KeyUse::Login if key.name == "rsh" => self.ssh_instead_of_rsh(host),
            KeyUse::Login => None,
            KeyUse::Ssh if self.is_rsh_used(host) => find("rsh"),
            KeyUse::Ssh => self.ssh_instead_of(key.name, host),
        }
    }

    /// The option of ssh because of which the configured remote shell isn't used.
    pub fn ssh_instead_of_rsh(&self, host: Option<&OsStr>) -> Option<&'static ConfigKey> {
        let rsh = self.rank("rsh", host)?;
        let of_ssh = KEYS.iter().filter(|key| key.use_ == KeyUse::Ssh);
        let ranked = of_ssh.filter_map(|key| Some((self.rank(key.name, host)?, key)));
        // Keys have no order.
        let first = ranked.min_by_key(|(rank, _)| *rank)?;
        (first.0 <= rsh).then_some(first.1)
    }

    fn is_rsh_used(&self, host: Option<&OsStr>) -> bool {
        self.rank("rsh", host).is_some() && self.ssh_instead_of_rsh(host).is_none()
    }

    /// The option of ssh that is used instead of another one, if the remote shell is ssh.
    pub fn ssh_instead_of(&self, name: &str, host: Option<&OsStr>) -> Option<&'static ConfigKey> {
        let option = find("option")?;
        let same = long_names(name);
        let long =
            self.values(option, host).into_iter().find(|it| same.contains(&&*ssh_option_name(it.value)));
        if long.is_some_and(|long| Some(long.origin.rank) < self.rank(name, host)) {
            return Some(option);
        }
        let other = match name {
            "ipv4" => "ipv6",
            "ipv6" => "ipv4",
            _ => return None,
        };
        let is_on = |name| self.value(name, host).is_some_and(|found| found.value == "true");
        let is_before = self.rank(other, host) < self.rank(name, host);
        (is_on(name) && is_on(other) && is_before).then(|| find(other)).flatten()
    }

    /// The number of sections that have precedence over the first one with this key.
    fn rank(&self, name: &str, host: Option<&OsStr>) -> Option<usize> {
        Some(self.value(name, host)?.origin.rank)
    }
}

/// The options of `-o`, in small letters, that set the same as this key. ssh would let the key's option of one letter win.
pub fn long_names(name: &str) -> &'static [&'static str] {
    match name {
        "port" => &["port"],
        "jump" => &["proxyjump", "proxycommand"],
        "ipv4" | "ipv6" => &["addressfamily"],
        _ => &[],
    }
}
