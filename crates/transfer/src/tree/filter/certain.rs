//! The filter rules of a command line that apply whatever the sender's tree contains. The end that sent the
//! request can check that the sender obeys them.

use linerate_wire::filter::{Rule, Rules, Sides};
use linerate_wire::path::RelPath;

use super::rule::{Base, Compiled};

/// Rules whose result doesn't depend on the sender's tree. A merge file in that tree may include any entry, and so may
/// an include rule that is matched against an absolute path. Therefore, rules after such a rule don't belong to this
/// set.
#[derive(Clone, Debug, Default)]
pub struct Certain(Vec<Compiled>);

impl Certain {
    /// Selects those of `rules` whose result is certain, and by which a sender leaves entries out.
    pub fn new(rules: &Rules) -> Self {
        let mut certain = Vec::new();
        for rule in rules.as_slice() {
            match rule {
                Rule::Merge(_) => break,
                Rule::Pattern(rule) if rule.sides == Sides::Receiver || rule.attributes => {}
                Rule::Pattern(rule) if rule.absolute && rule.include => break,
                Rule::Pattern(rule) if rule.absolute => {}
                Rule::Pattern(rule) => certain.push(Compiled::new(rule, &Base::root(), b"")),
            }
        }
        Self(certain)
    }

    /// True if this set has no rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if every sender leaves out `path`, which is relative to the source. The directories above it must be
    /// checked separately.
    pub fn excludes(&self, path: &RelPath, is_directory: bool) -> bool {
        let decides = self.0.iter().find(|rule| rule.applies(path.as_bytes(), is_directory));
        decides.is_some_and(|rule| !rule.include)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::filter::{Builder, Reading};

    fn excluded(rules: &[&str], path: &str, is_directory: bool) -> bool {
        let mut builder = Builder::new(Reading::default());
        rules.iter().for_each(|rule| builder.filter(rule.as_bytes()).unwrap());
        let certain = Certain::new(&builder.build().unwrap());
        certain.excludes(&RelPath::new(path.as_bytes()).unwrap(), is_directory)
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        assert!(excluded(&["- .ssh"], "a/.ssh", true) && !excluded(&["- .ssh"], "a/.sshd", true));
        assert!(excluded(&["- /top", "+ *"], "top", false) && !excluded(&["- /top"], "a/top", false));
        assert!(!excluded(&["+ *.c", "- *"], "x.c", false) && excluded(&["+ *.c", "- *"], "x.o", false));
        assert!(excluded(&["H x"], "x", false), "it hides");
        assert!(!excluded(&["P x"], "x", false), "a rule that protects says nothing of what comes");
        assert!(!excluded(&["- x/"], "x", false) && excluded(&["- x/"], "x", true));
    }

    #[test]
    fn behind_what_the_sender_alone_knows_nothing_is_certain() {
        assert!(!excluded(&[": .rules", "- x"], "x", false));
        assert!(excluded(&["- x", ": .rules"], "x", false));
        assert!(!excluded(&["+/ /home/x", "- x"], "x", false));
        assert!(excluded(&["-/ /home/y", "- x"], "x", false) && !excluded(&["-/ /home/y"], "y", false));
    }
}
