//! Converts reported names for this end's user: to this end's character set, and without the prefix that a
//! far receiver adds to link targets.

use linerate_transfer::charsets::NameConversion;
use linerate_wire::control::{Change, Link, MUNGED};
use std::borrow::Cow;

use super::line::Line;

/// The conversions of names in reports.
pub struct Wording {
    /// Whether the far receiver adds [`MUNGED`] to the targets of links.
    unmunges: bool,
    /// The conversion of names from the far end's character set to this end's.
    conversion: Option<NameConversion>,
    pulls: bool,
}

impl Wording {
    /// The wording for the command line `line`.
    pub fn of(line: &Line) -> Self {
        Self {
            unmunges: line.details.munges_at_the_far_end(line.way()),
            conversion: line.details.conversion(),
            pulls: line.pulls(),
        }
    }

    /// Returns the change with names in this end's form.
    pub fn word<'c>(&self, change: &'c Change) -> Cow<'c, Change> {
        let mut change = Cow::Borrowed(change);
        if let (true, Some(Link::Target(target))) = (self.unmunges, &change.link)
            && let Some(own) = target.strip_prefix(MUNGED)
        {
            let link = Some(Link::Target(own.to_vec()));
            change = Cow::Owned(Change { link, ..change.into_owned() });
        }
        // Reported names come from the sender, except names of deleted entries, which come from the receiver.
        if let Some(conversion) = self.conversion
            && self.pulls != (change.item == Change::DELETED)
            && let Some(path) = conversion.path(&change.path)
        {
            let link = change.link.clone().map(|link| converted(link, conversion));
            change = Cow::Owned(Change { path, link, ..change.into_owned() });
        }
        change
    }
}

fn converted(link: Link, conversion: NameConversion) -> Link {
    match link {
        Link::Target(target) => Link::Target(conversion.forth(&target).unwrap_or(target)),
        Link::SameAs(path) => Link::SameAs(conversion.path(&path).unwrap_or(path)),
    }
}
