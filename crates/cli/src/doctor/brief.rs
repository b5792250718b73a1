//! Shows changes of many interrupts or queues in one row, because their commands would fill a screen.

use std::borrow::Cow;
use std::collections::BTreeSet;

use linerate_doctor::Finding;
use linerate_doctor::remedy::{Remedy, Setting, commands, undo_commands};

use crate::facts::ranges;

/// The largest number of commands of one kind that are shown one by one.
pub const FEW: usize = 4;

/// The fix of a finding as text for a terminal.
pub fn fix(finding: &Finding) -> Option<Cow<'_, str>> {
    Some(shortened(finding, finding.fix.as_ref()?, commands, |remedy| &remedy.new))
}

/// The way to undo a finding's fix, as text for a terminal.
pub fn undo(finding: &Finding) -> Option<Cow<'_, str>> {
    Some(shortened(finding, finding.undo.as_ref()?, undo_commands, |remedy| &remedy.now))
}

/// The text. If all remedies of the finding are of one kind and there are many, one row replaces their commands.
fn shortened<'a>(
    finding: &Finding,
    text: &'a str,
    commands: fn(&[Remedy]) -> String,
    value: fn(&Remedy) -> &String,
) -> Cow<'a, str> {
    let bare: Vec<Remedy> = finding.remedies.iter().map(|remedy| remedy.clone().on("")).collect();
    let rest = text.strip_prefix(&commands(&bare));
    match rest.and_then(|rest| Some(row(finding, value)? + rest)) {
        Some(short) => Cow::Owned(short),
        None => Cow::Borrowed(text),
    }
}

/// The row for all remedies of a finding, such as `16 interrupts of eth0 -> processors 0-15, each to one of them`;
/// `None` if they are few, or aren't of one kind.
fn row(finding: &Finding, value: fn(&Remedy) -> &String) -> Option<String> {
    let all = &finding.remedies;
    let what = kind(&all.first().filter(|_| all.len() > FEW)?.setting)?;
    let is_alike = all.iter().all(|remedy| kind(&remedy.setting) == Some(what));
    let sets: Vec<_> =
        all.iter().map(|remedy| remedy.setting.processors(value(remedy))).collect::<Option<_>>()?;
    let processors: Vec<u32> = sets.iter().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let to = match processors.as_slice() {
        [] => "no processors".into(),
        [one] => format!("processor {one}"),
        some => format!("processors {}", ranges(some)),
    };
    let each = if sets.iter().all(|set| set.len() == 1) && processors.len() > 1 {
        ", each to one of them"
    } else {
        ""
    };
    let of = finding.place.as_ref().map_or_else(String::new, |place| format!(" of {place}"));
    is_alike.then(|| format!("{} {what}{of} -> {to}{each} (--json has the commands)", all.len()))
}

/// The name of the parts of a host that each have a setting of this kind: interrupts or queues. `None` for a kind of
/// setting of which a host has only a few.
pub fn kind(setting: &Setting) -> Option<&'static str> {
    match setting {
        Setting::IrqAffinity { .. } => Some("interrupts"),
        Setting::Xps { .. } => Some("transmit queues"),
        Setting::Rps { .. } => Some("receive queues"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use linerate_doctor::Severity;

    use super::*;

    fn finding(settings: impl Iterator<Item = (Setting, String, String)>) -> Finding {
        let remedies = settings.filter_map(|(setting, now, new)| Remedy::of(setting, now, new));
        let mut finding = Finding::new(Severity::Note, "a title").at("eth0").remedied(remedies);
        finding.remedies.iter_mut().for_each(|remedy| remedy.host = "a".into());
        finding
    }

    fn interrupts(count: u32, new: impl Fn(u32) -> String) -> Finding {
        finding((0..count).map(|at| (Setting::IrqAffinity { irq: 60 + at }, "0".into(), new(at + 1))))
    }

    #[test]
    fn many_interrupts_are_one_row() {
        let each = interrupts(16, |at| at.to_string()).fix_words("stop irqbalance");
        assert_eq!(
            fix(&each).unwrap(),
            "16 interrupts of eth0 -> processors 1-16, each to one of them (--json has the commands); stop irqbalance"
        );
        assert_eq!(undo(&each).unwrap(), "16 interrupts of eth0 -> processor 0 (--json has the commands)");
        let same = interrupts(16, |_| "8,9,10,11".into());
        assert_eq!(fix(&same).unwrap(), "16 interrupts of eth0 -> processors 8-11 (--json has the commands)");
    }

    #[test]
    fn queues_are_reported_by_their_masks() {
        let queue = |queue| Setting::Xps { port: "eth0".into(), queue };
        let masks = finding((0..8).map(|at| (queue(at), "0".into(), format!("{:x}", 1 << at))));
        assert!(
            fix(&masks)
                .unwrap()
                .starts_with("8 transmit queues of eth0 -> processors 0-7, each to one of them")
        );
        assert!(undo(&masks).unwrap().starts_with("8 transmit queues of eth0 -> no processors"));
    }

    #[test]
    fn few_changes_and_others_keep_their_commands() {
        let few = interrupts(2, |at| at.to_string());
        assert_eq!(fix(&few).as_deref(), few.fix.as_deref());
        let words = Finding::new(Severity::Note, "a title").fix("do it");
        assert_eq!((fix(&words).as_deref(), undo(&words)), (Some("do it"), None));
    }
}
