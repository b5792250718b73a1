//! `--usermap` and `--groupmap`: map the sender's owners and groups to users and groups of this host.

use linerate_wire::control::{Details, IdentityFrom, IdentityRule, MAX_IDENTITY_RULES};

use super::accounts::Accounts;
use super::acl::Who;
use crate::tree::filter::matches_name;

/// The rules that map owners and groups, with the numbers that this host uses.
#[derive(Debug, Default)]
pub struct Identities {
    users: Vec<(IdentityFrom, u32)>,
    groups: Vec<(IdentityFrom, u32)>,
}

impl Identities {
    /// The rules in `details`. Rules whose target user or group doesn't exist on this host are left out, and
    /// reported to `unknown`.
    pub fn find(details: &Details, mut unknown: impl FnMut(&'static str, &str)) -> Self {
        let mut found = |rules: &[IdentityRule], option, mut accounts: Accounts| {
            let rules = rules.iter().take(MAX_IDENTITY_RULES);
            let known = rules.filter_map(|rule| {
                let number = number(&mut accounts, &rule.to);
                if number.is_none() {
                    unknown(option, &rule.to);
                }
                Some((rule.from.clone(), number?))
            });
            known.collect()
        };
        Self {
            users: found(&details.users, "--usermap", Accounts::users()),
            groups: found(&details.groups, "--groupmap", Accounts::groups()),
        }
    }

    /// The number to which the rules map the user or group `number`, which has the name `name` at the sender;
    /// `None` if no rule matches.
    pub fn of(&self, who: Who, number: u32, name: &str) -> Option<u32> {
        let rules = match who {
            Who::User => &self.users,
            Who::Group => &self.groups,
        };
        rules.iter().find(|(from, _)| fits(from, number, name)).map(|(_, to)| *to)
    }
}

fn fits(from: &IdentityFrom, number: u32, name: &str) -> bool {
    match from {
        IdentityFrom::Numbers(first, last) => (*first..=*last).contains(&number),
        IdentityFrom::Name(named) => named == name,
        IdentityFrom::Pattern(pattern) => matches_name(pattern.as_bytes(), name.as_bytes()),
    }
}

/// The number of the user or group `to`. If `to` consists of digits, it is the number itself, even if a user
/// has this name.
fn number(accounts: &mut Accounts, to: &str) -> Option<u32> {
    let is_number = !to.is_empty() && to.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { to.parse().ok() } else { accounts.number(to) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(from: IdentityFrom, to: &str) -> IdentityRule {
        IdentityRule { from, to: to.to_owned() }
    }

    #[test]
    fn the_first_rule_that_fits_counts_and_unknown_names_are_reported() {
        let pattern = |text: &str| IdentityFrom::Pattern(text.to_owned());
        let users = vec![
            rule(IdentityFrom::Name("ann".into()), "root"),
            rule(IdentityFrom::Numbers(10, 20), "7"),
            rule(IdentityFrom::Name(String::new()), "8"),
            rule(pattern("b*"), "no such user"),
            rule(pattern("[bc]?"), "9"),
        ];
        let groups = vec![rule(pattern("*"), "11")];
        let mut unknown = Vec::new();
        let found = Identities::find(&Details { users, groups, ..Details::default() }, |option, name| {
            unknown.push(format!("{option} {name}"));
        });
        assert_eq!(unknown, ["--usermap no such user"]);
        let user = |number, name| found.of(Who::User, number, name);
        assert_eq!([user(1, "ann"), user(20, "x"), user(21, ""), user(21, "bo")], [0, 7, 8, 9].map(Some));
        assert_eq!([user(21, "x"), user(21, "a/b"), user(9, "bob")], [None; 3]);
        assert_eq!([found.of(Who::Group, 0, ""), found.of(Who::Group, 5, "x")], [Some(11); 2]);
    }
}
