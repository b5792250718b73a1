//! A lab's name, which is part of the names of namespaces, directories and configuration files.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A lab's name: 1 to 32 lower-case letters, digits and dashes. A dash can't be the first or last character. Such a
/// name never needs quoting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabName(String);

/// The error of a text that isn't a [`LabName`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} can't name a lab: use 1 to 32 lower-case letters, digits and dashes, a letter or digit first and last"
)]
pub struct LabNameError(String);

impl LabName {
    /// The name of a lab for which the user chose no name; the name contains the number of the lab's address block.
    pub(crate) fn of_slot(slot: u8) -> Self {
        Self(format!("lab{slot}"))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name, for `ip netns`, of the network namespace of host `a` or `b`.
    pub(crate) fn namespace(&self, host: char) -> String {
        format!("linerate-{}-{host}", self.0)
    }

    /// The name of the network namespace of the guest with this number, from 0.
    pub(crate) fn guest(&self, number: u32) -> String {
        format!("linerate-{}-g{number}", self.0)
    }

    /// The name of the network namespace of the switch of the site with this number, from 1.
    pub(crate) fn site(&self, site: u8) -> String {
        format!("linerate-{}-s{site}", self.0)
    }

    /// The name of the network namespace of the host with the number `host` at the site with the number `site`; both
    /// count from 1.
    pub(crate) fn site_host(&self, site: u8, host: u8) -> String {
        format!("{}h{host}", self.site(site))
    }

    /// True if a network namespace of this name belongs to a guest, a site's switch or a site's host of this lab.
    pub(crate) fn is_further(&self, namespace: &str) -> bool {
        let end = namespace.strip_prefix("linerate-").and_then(|rest| rest.strip_prefix(&self.0));
        let end = end.unwrap_or_default();
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_site = |text: &str| match text.split_once('h') {
            Some((site, host)) => is_number(site) && is_number(host),
            None => is_number(text),
        };
        end.strip_prefix("-g").is_some_and(is_number) || end.strip_prefix("-s").is_some_and(is_site)
    }
}

impl FromStr for LabName {
    type Err = LabNameError;

    fn from_str(text: &str) -> Result<Self, LabNameError> {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let dashed = text.starts_with('-') || text.ends_with('-');
        let good = (1..=32).contains(&text.len()) && text.bytes().all(inner) && !dashed;
        if good { Ok(Self(text.to_owned())) } else { Err(LabNameError(text.to_owned())) }
    }
}

impl fmt::Display for LabName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for LabName {
    type Error = LabNameError;

    fn try_from(text: String) -> Result<Self, LabNameError> {
        text.parse()
    }
}

impl From<LabName> for String {
    fn from(name: LabName) -> Self {
        name.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "lab0", "my-lab", "0", &"x".repeat(32)] {
            assert_eq!(good.parse::<LabName>().expect(good).as_str(), good);
        }
        for bad in ["", "-a", "a-", "A", "a b", "a/b", "..", "ä", "a.b", &"x".repeat(33)] {
            assert!(bad.parse::<LabName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn guests_and_hosts_of_sites_are_known_by_their_namespaces() {
        let name: LabName = "x".parse().expect("a good name");
        for own in [name.guest(12), name.site(2), name.site_host(1, 16)] {
            assert!(name.is_further(&own), "{own}");
        }
        for other in [
            "linerate-x-a",
            "linerate-x-g",
            "linerate-x-g1-a",
            "linerate-y-g1",
            "linerate-xx-g1",
            "x-g1",
            "linerate-x-s",
            "linerate-x-sh1",
            "linerate-x-s1h",
            "linerate-x-s1h1-a",
            "linerate-x-s1h1h1",
            "linerate-y-s1h1",
        ] {
            assert!(!name.is_further(other), "{other}");
        }
    }

    #[test]
    fn a_bad_name_in_a_state_file_is_refused() {
        assert!(serde_json::from_str::<LabName>("\"../x\"").is_err());
    }
}
