//! A finding of a check.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use crate::formula::gbit;
use crate::remedy::{Remedy, commands, undo_commands};

/// The least lost shares of the needed rate of critical, major and minor findings. A finding with a smaller lost share
/// is a note.
const CRITICAL: f64 = 0.5;
const MAJOR: f64 = 0.15;
const MINOR: f64 = 0.01;

/// The severity of a finding, by the lost share of the needed rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A cost below 1 % of the needed rate, or a fact that is only good to know.
    Note,
    /// A cost of 1 % of the needed rate or more, a risk, or a cost that can't be computed or that only some tools or
    /// paths have.
    Minor,
    /// A cost of 15 % of the needed rate or more.
    Major,
    /// A cost of 50 % of the needed rate or more.
    Critical,
}

/// The direction in which a limit slows a host's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Only packets that the host sends.
    Sends,
    /// Only packets that the host receives.
    Receives,
}

impl Way {
    /// The direction as a verb: `sends` or `receives`.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Sends => "sends",
            Self::Receives => "receives",
        }
    }
}

/// A document behind a check's advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Citation {
    /// Title and section of the document.
    pub name: &'static str,
    /// The document's address: a URL, or a file of this repository.
    pub url: &'static str,
}

/// One cause that keeps transfers below the needed rate, or may do so.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the check.
    pub check: &'static str,
    /// The user's name for the host; both names for a path.
    pub host: String,
    /// The part of the host that the finding is about: a port (perhaps with a feature or counter), a file system, a
    /// disk, a route or a tool; `None` if it is the whole host or path.
    pub place: Option<String>,
    /// The severity of the finding.
    pub severity: Severity,
    /// The finding in one short sentence.
    pub title: String,
    /// The only direction that the limit slows; `None` if the limit slows both, or if the direction isn't known.
    #[serde(skip)]
    pub way: Option<Way>,
    /// The facts that show the finding, one a line.
    pub evidence: Vec<String>,
    /// The highest rate that is possible as long as the finding isn't fixed, in bits a second; `None` if it can't be
    /// computed.
    pub ceiling: Option<f64>,
    /// The lost share of the needed rate, 0 to 1; `None` without a ceiling, or if the ceiling holds only for some tools
    /// or paths.
    pub loss: Option<f64>,
    /// The fix: a command, or advice in words.
    pub fix: Option<String>,
    /// The command that undoes the fix.
    pub undo: Option<String>,
    /// The changes that a program can make, from which the commands of fix and undo are made.
    pub remedies: Vec<Remedy>,
    /// Contradictions between guides, or drawbacks of the fix.
    pub conflict: Option<String>,
    /// Documents behind the advice.
    pub sources: &'static [Citation],
}

impl Severity {
    /// All severities, the worst first.
    pub const ALL: [Severity; 4] = [Self::Critical, Self::Major, Self::Minor, Self::Note];

    /// The severity of a lost share of the needed rate, 0 to 1.
    pub fn of_loss(loss: f64) -> Self {
        match loss {
            loss if loss >= CRITICAL => Self::Critical,
            loss if loss >= MAJOR => Self::Major,
            loss if loss >= MINOR => Self::Minor,
            _ => Self::Note,
        }
    }

    /// The severity's stable name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Major => "major",
            Self::Minor => "minor",
            Self::Note => "note",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Severity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|severity| severity.name() == text);
        found.ok_or_else(|| format!("'{text}' is not a severity; write critical, major, minor or note"))
    }
}

impl Finding {
    /// A finding that leaves `ceiling` of `need`, both in bits a second; the severity follows from the two.
    pub fn leaves(ceiling: f64, need: f64, title: impl Into<String>) -> Self {
        let loss = if need > 0.0 { (1.0 - ceiling / need).clamp(0.0, 1.0) } else { 0.0 };
        Self { ceiling: Some(ceiling), loss: Some(loss), ..Self::new(Severity::of_loss(loss), title) }
    }

    /// A finding whose cost can't be computed. The evidence gives the reason.
    pub fn new(severity: Severity, title: impl Into<String>) -> Self {
        Self {
            check: "",
            host: String::new(),
            place: None,
            severity,
            title: title.into(),
            way: None,
            evidence: Vec::new(),
            ceiling: None,
            loss: None,
            fix: None,
            undo: None,
            remedies: Vec::new(),
            conflict: None,
            sources: &[],
        }
    }

    /// Caps the severity, for findings that concern only some tools or paths. If the cap applies, the ceiling is that
    /// of these tools or paths, and the lost share is unknown.
    pub fn at_most(mut self, severity: Severity) -> Self {
        if self.severity > severity {
            (self.severity, self.loss) = (severity, None);
        }
        self
    }

    /// Sets the part of the host that the finding is about.
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }

    /// Sets the only direction that the limit slows.
    pub(crate) fn only(self, way: Way) -> Self {
        Self { way: Some(way), ..self }
    }

    /// Adds a line of evidence.
    pub fn evidence(mut self, line: impl Into<String>) -> Self {
        self.evidence.push(line.into());
        self
    }

    /// Sets the fix: a command, or words if there is no command.
    pub fn fix(mut self, command: impl Into<String>) -> Self {
        self.fix = Some(command.into());
        self
    }

    /// Sets fix and undo from changes that a program can make; without such changes, it sets nothing.
    pub fn remedied(mut self, remedies: impl IntoIterator<Item = Remedy>) -> Self {
        self.remedies = remedies.into_iter().collect();
        if !self.remedies.is_empty() {
            (self.fix, self.undo) = (Some(commands(&self.remedies)), Some(undo_commands(&self.remedies)));
        }
        self
    }

    /// Like [`Finding::remedied`], but if there are no such changes, it sets these words as the fix.
    pub fn remedied_or(self, remedies: impl IntoIterator<Item = Remedy>, words: &str) -> Self {
        let finding = self.remedied(remedies);
        if finding.remedies.is_empty() { finding.fix(words) } else { finding }
    }

    /// Adds words to the fix, after its command.
    pub fn fix_words(mut self, words: &str) -> Self {
        self.fix = Some(self.fix.map_or_else(|| words.to_owned(), |command| format!("{command}; {words}")));
        self
    }

    /// Sets the command that undoes the fix.
    pub fn undo(mut self, command: impl Into<String>) -> Self {
        self.undo = Some(command.into());
        self
    }

    /// Sets the contradictions between guides, or the drawbacks of the fix.
    pub fn conflict(mut self, note: impl Into<String>) -> Self {
        self.conflict = Some(note.into());
        self
    }

    /// True unless the fix proposes the present state: then the two values of a remedy are the same, or the fix
    /// contains all commands of the undo.
    pub(crate) fn changes_something(&self) -> bool {
        let is_same = |remedy: &Remedy| remedy.setting.is_same(&remedy.now, &remedy.new);
        let commands = |text: &Option<String>| {
            let parts = text.iter().flat_map(|text| text.split("; ").map(|part| part.trim().to_owned()));
            parts.filter(|part| !part.is_empty()).collect::<Vec<_>>()
        };
        let (fix, undo) = (commands(&self.fix), commands(&self.undo));
        !self.remedies.iter().any(is_same) && (undo.is_empty() || !undo.iter().all(|part| fix.contains(part)))
    }

    /// Check, place, severity and ceiling in one line, as in tests/expected: `pcie-width eth2 major 6.6 Gbit/s`.
    pub fn line(&self) -> String {
        let place = self.place.as_deref().unwrap_or("-");
        let ceiling = self.ceiling.map_or("-".into(), gbit);
        format!("{} {place} {} {ceiling}", self.check, self.severity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severity_is_the_share_that_is_lost() {
        let of = |ceiling| Finding::leaves(ceiling, 10e9, "x").severity;
        assert_eq!((of(5e9), of(5.1e9)), (Severity::Critical, Severity::Major));
        assert_eq!((of(8.6e9), of(9.95e9), of(11e9)), (Severity::Minor, Severity::Note, Severity::Note));
        assert_eq!(Finding::leaves(20e9, 10e9, "x").loss, Some(0.0));
        assert_eq!(Finding::leaves(1.0, 0.0, "x").severity, Severity::Note);
        let capped = Finding::leaves(1e9, 10e9, "x").at_most(Severity::Minor);
        assert_eq!((capped.severity, capped.loss, capped.ceiling), (Severity::Minor, None, Some(1e9)));
    }

    #[test]
    fn a_present_value_is_no_change() {
        let of = |fix: &str, undo: &str| Finding::new(Severity::Note, "x").fix(fix).undo(undo);
        assert!(!of("ethtool -L eth0 combined 8; see x", "ethtool -L eth0 combined 8").changes_something());
        assert!(of("ethtool -L eth0 combined 8; see x", "ethtool -L eth0 combined 4").changes_something());
        assert!(Finding::new(Severity::Note, "x").fix("use another slot").changes_something());
    }

    #[test]
    fn severities_are_read_as_they_are_written() {
        for severity in Severity::ALL {
            assert_eq!(severity.to_string().parse(), Ok(severity));
        }
        assert!("bad".parse::<Severity>().is_err());
        assert!(Severity::Critical > Severity::Note);
    }
}
