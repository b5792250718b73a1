//! Patterns of hosts, in which `*` matches any text and `?` any character, as in ssh's configuration.

use linerate_wire::path::printable;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// A pattern of hosts, in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern(String);

impl HostPattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// A message if no host can match the pattern.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || "@/[],!".contains(c)) {
            return Err(format!(
                "'{text}' matches no host: write a name or an address, with * and ?, without a user"
            ));
        }
        Ok(Self(text.to_lowercase()))
    }

    /// True if the pattern matches a [bare] host.
    ///
    /// [bare]: bare
    pub fn fits(&self, host: &str) -> bool {
        let (pattern, host): (Vec<char>, Vec<char>) = (self.0.chars().collect(), host.chars().collect());
        // `reached[n]` is true if the part of the pattern that has been read so far matches the first n characters
        // of the host.
        let mut reached = vec![false; host.len() + 1];
        reached[0] = true;
        for c in pattern {
            let mut next = vec![false; host.len() + 1];
            for at in 0..=host.len() {
                next[at] = match c {
                    '*' => reached[..=at].iter().any(|reached| *reached),
                    '?' => at > 0 && reached[at - 1],
                    c => at > 0 && reached[at - 1] && host[at - 1] == c,
                };
            }
            reached = next;
        }
        reached[host.len()]
    }
}

/// The host's name without user and brackets, in lower case.
pub fn bare(host: &OsStr) -> String {
    let shown = printable(host.as_bytes()).to_lowercase();
    let bare = shown.rsplit_once('@').map_or(&*shown, |(_, host)| host);
    bare.trim_start_matches('[').trim_end_matches(']').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_hosts_without_their_users() {
        let fits =
            |pattern: &str, host: &str| HostPattern::parse(pattern).unwrap().fits(&bare(OsStr::new(host)));
        assert!(fits("*.example.org", "user@Web1.example.org") && fits("*", "x") && fits("web?", "web1"));
        assert!(fits("WEB1", "web1") && fits("fd00::*", "[fd00::1]") && fits("a*b*c", "a-b-b-c"));
        assert!(!fits("*.example.org", "example.org") && !fits("web?", "web") && !fits("web", "web1"));
        assert!(!fits("web1", "web1@other"));
        for wrong in ["", "u@h", "a b", "a/b", "[::1]", "a,b", "!a"] {
            assert!(HostPattern::parse(wrong).is_err(), "{wrong}");
        }
        // Even a pattern with many stars is matched in little time.
        assert!(!fits(&"*a".repeat(60), &"a".repeat(50)));
    }
}
