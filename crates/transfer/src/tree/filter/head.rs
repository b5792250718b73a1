//! Parses the head of a rule: its name and modifiers.

use linerate_wire::filter::{MergeStyle, Sides};

use super::parse::BadRule;

/// The head of a rule: everything before its pattern.
pub(super) struct Head {
    pub what: HeadKind,
    pub modifiers: Modifiers,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HeadKind {
    Pattern { include: bool },
    Merge,
    DirMerge,
    Clear,
}

/// The modifiers of a rule: letters after its name.
pub(super) struct Modifiers {
    pub sides: Option<Sides>,
    pub negated: bool,
    pub perishable: bool,
    pub absolute: bool,
    pub attributes: bool,
    pub inherited: bool,
    pub excludes_itself: bool,
    /// How the rules of a merge file are read. The file's sides and similar settings are in the fields above.
    pub style: MergeStyle,
}

impl Modifiers {
    /// The modifiers that a rule inherits from the merge file that contains it.
    pub fn of_file(style: MergeStyle) -> Self {
        Self {
            sides: style.sides,
            negated: false,
            perishable: style.perishable,
            absolute: style.absolute,
            attributes: false,
            inherited: true,
            excludes_itself: false,
            style: MergeStyle::default(),
        }
    }

    pub fn merge_style(&self) -> MergeStyle {
        let (sides, perishable, absolute) = (self.sides, self.perishable, self.absolute);
        MergeStyle { sides, perishable, absolute, ..self.style }
    }

    /// Adds the modifier that one letter after the name of a rule means.
    fn add(&mut self, letter: u8, what: HeadKind, side_is_reported: bool) -> Result<(), BadRule> {
        let merges = matches!(what, HeadKind::Merge | HeadKind::DirMerge);
        match letter {
            b'/' => self.absolute = true,
            b'p' => self.perishable = true,
            b'!' if !merges => self.negated = true,
            b's' if !side_is_reported => self.sides = Some(both(self.sides, Sides::Sender)),
            b'r' if !side_is_reported => self.sides = Some(both(self.sides, Sides::Receiver)),
            b'C' if merges => self.read_as_cvs()?,
            b'C' if !side_is_reported => self.style.cvs = true,
            b'-' | b'+' if merges && self.style.patterns.is_none() => {
                self.style.patterns = Some(letter == b'+')
            }
            b'e' if merges => self.excludes_itself = true,
            b'n' if merges => self.inherited = false,
            b'w' if merges => self.style.words = true,
            b'x' if !merges => self.attributes = true,
            other => return Err(BadRule::Modifier(other)),
        }
        Ok(())
    }

    fn read_as_cvs(&mut self) -> Result<(), BadRule> {
        if self.style.patterns.is_some() {
            return Err(BadRule::Modifier(b'C'));
        }
        self.style = MergeStyle { patterns: Some(false), words: true, cvs: true, ..self.style };
        self.inherited = false;
        Ok(())
    }
}

fn both(so_far: Option<Sides>, side: Sides) -> Sides {
    so_far.filter(|sides| *sides != side).map_or(side, |_| Sides::Both)
}

const NAMES: [(&[u8], u8); 9] = [
    (b"clear", b'!'),
    (b"dir-merge", b':'),
    (b"exclude", b'-'),
    (b"hide", b'H'),
    (b"include", b'+'),
    (b"merge", b'.'),
    (b"protect", b'P'),
    (b"risk", b'R'),
    (b"show", b'S'),
];

/// Parses a rule's name and modifiers; also returns the text after the space or underscore that ends them.
pub(super) fn head_with_modifiers(text: &[u8], file: MergeStyle) -> Result<(Head, &[u8]), BadRule> {
    let (letter, rest) = name(text).ok_or(BadRule::Unknown)?;
    let (what, side) = match letter {
        b'!' => return Ok((Head { what: HeadKind::Clear, modifiers: Modifiers::of_file(file) }, rest)),
        b':' => (HeadKind::DirMerge, None),
        b'.' => (HeadKind::Merge, None),
        b'-' | b'+' => (HeadKind::Pattern { include: letter == b'+' }, None),
        b'H' | b'S' => (HeadKind::Pattern { include: letter == b'S' }, Some(Sides::Sender)),
        b'P' | b'R' => (HeadKind::Pattern { include: letter == b'R' }, Some(Sides::Receiver)),
        _ => return Err(BadRule::Unknown),
    };
    let mut modifiers = Modifiers { sides: side, ..Modifiers::of_file(file) };
    let end = rest.iter().position(|b| matches!(b, b' ' | b'_')).unwrap_or(rest.len());
    rest[..end].iter().try_for_each(|&letter| modifiers.add(letter, what, side.is_some()))?;
    if file.sides.is_some() {
        if modifiers.sides.is_some() {
            return Err(BadRule::SideTwice);
        }
        modifiers.sides = file.sides;
    }
    Ok((Head { what, modifiers }, rest.get(end + 1..).unwrap_or(b"")))
}

/// The letter of the rule's name, and the text after the name, which begins with the modifiers.
fn name(text: &[u8]) -> Option<(u8, &[u8])> {
    for (long, letter) in NAMES {
        match text.strip_prefix(long) {
            Some([b',', rest @ ..]) => return Some((letter, rest)),
            Some(rest) if matches!(rest.first(), None | Some(b' ' | b'_')) => return Some((letter, rest)),
            _ => {}
        }
    }
    match text {
        [letter, b',', rest @ ..] => Some((*letter, rest)),
        [letter, rest @ ..] => Some((*letter, rest)),
        [] => None,
    }
}
