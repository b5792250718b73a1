//! Filter rules for the names of extended attributes: the rules with the modifier `x`.

use linerate_wire::filter::{Rule, Rules};

use super::Side;
use super::rule::{Base, Compiled};

/// The rules for the names of extended attributes that apply on one side, in their order.
#[derive(Clone, Debug, Default)]
pub struct AttributeRules(Vec<Compiled>);

impl AttributeRules {
    /// Selects those of `rules` that are for the names of extended attributes and apply on `side`.
    pub fn new(rules: &Rules, side: Side) -> Self {
        let patterns = rules.as_slice().iter().filter_map(|rule| match rule {
            Rule::Pattern(rule) => Some(rule),
            Rule::Merge(_) => None,
        });
        let own = patterns.filter(|rule| rule.attributes && side.has(rule.sides));
        Self(own.map(|rule| Compiled::new(rule, &Base::root(), b"")).collect())
    }

    /// True if an attribute of this name isn't sent (at the sender), or is left unchanged (at the receiver).
    pub fn leave_out(&self, name: &[u8]) -> bool {
        let first = self.0.iter().find(|rule| rule.applies(name, false));
        first.is_some_and(|rule| !rule.include)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::filter::{Builder, Reading};

    #[test]
    fn the_first_rule_for_names_of_attributes_decides() {
        let mut builder = Builder::new(Reading::default());
        for rule in ["+x user.keep*", "-x user.*", "- trusted.x", "-xs trusted.sent", "Px trusted.had"] {
            builder.filter(rule.as_bytes()).unwrap();
        }
        let rules = builder.build().unwrap();
        let left_out = |side, name: &str| AttributeRules::new(&rules, side).leave_out(name.as_bytes());
        for (name, sender, receiver) in [
            ("user.keep1", false, false),
            ("user.other", true, true),
            ("trusted.x", false, false),
            ("trusted.sent", true, false),
            ("trusted.had", false, true),
        ] {
            assert_eq!(
                (left_out(Side::Sender, name), left_out(Side::Receiver, name)),
                (sender, receiver),
                "{name}"
            );
        }
    }
}
