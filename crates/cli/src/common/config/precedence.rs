//! Decides between options for a login that exclude each other: the option from the source with the highest
//! precedence is used. Both commands and `config show` use this module.

use std::ffi::OsStr;

use super::Configuration;
use super::keys::{ConfigKey, KEYS, KeyUse, find, ssh_option_name};

impl Configuration {
    /// The key whose value is used for the host instead of the value of `key`; `None` if both values are
    /// used, or if `key` has no value.
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

    /// The option for ssh because of which the configured remote shell isn't used.
    pub fn ssh_instead_of_rsh(&self, host: Option<&OsStr>) -> Option<&'static ConfigKey> {
        let rsh = self.rank("rsh", host)?;
        let of_ssh = KEYS.iter().filter(|key| key.use_ == KeyUse::Ssh);
        let ranked = of_ssh.filter_map(|key| Some((self.rank(key.name, host)?, key)));
        // If no key has a value, there is no rank.
        let first = ranked.min_by_key(|(rank, _)| *rank)?;
        (first.0 <= rsh).then_some(first.1)
    }

    fn is_rsh_used(&self, host: Option<&OsStr>) -> bool {
        self.rank("rsh", host).is_some() && self.ssh_instead_of_rsh(host).is_none()
    }

    /// The option for ssh that is used instead of the option `name`, if the remote shell is ssh; `None` if `name` is
    /// used.
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

    /// The number of sections that have precedence over the first section with this key.
    fn rank(&self, name: &str, host: Option<&OsStr>) -> Option<usize> {
        Some(self.value(name, host)?.origin.rank)
    }
}

/// The names, in lower case, of options for `-o` that have the same effect as this key. If both were given,
/// ssh would use the one-letter option of the key.
pub fn long_names(name: &str) -> &'static [&'static str] {
    match name {
        "port" => &["port"],
        "jump" => &["proxyjump", "proxycommand"],
        "ipv4" | "ipv6" => &["addressfamily"],
        _ => &[],
    }
}
