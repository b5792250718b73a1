//! Constructors for the rows of the table of options.

use std::ffi::OsStr;

use super::{Does, RsyncOption};
use crate::rsync::line::Line;

pub(super) const fn flag(
    name: &'static [&'static str],
    short: Option<char>,
    set: fn(&mut Line),
) -> RsyncOption {
    RsyncOption { names: name, short, does: Does::Flag(set), off: None }
}

pub(super) const fn switch(
    names: &'static [&'static str],
    short: Option<char>,
    set: fn(&mut Line),
    off: fn(&mut Line),
) -> RsyncOption {
    RsyncOption { names, short, does: Does::Flag(set), off: Some(off) }
}

pub(super) const fn value(
    names: &'static [&'static str],
    short: Option<char>,
    set: fn(&mut Line, &OsStr) -> Result<(), String>,
) -> RsyncOption {
    RsyncOption { names, short, does: Does::Value(set), off: None }
}

pub(super) const fn always(
    names: &'static [&'static str],
    short: Option<char>,
    why: &'static str,
) -> RsyncOption {
    RsyncOption { names, short, does: Does::Always(why), off: None }
}

pub(super) const fn always_of(
    names: &'static [&'static str],
    short: Option<char>,
    why: &'static str,
) -> RsyncOption {
    RsyncOption { names, short, does: Does::AlwaysOf(why), off: None }
}

pub(super) const fn refused(
    names: &'static [&'static str],
    short: Option<char>,
    why: &'static str,
) -> RsyncOption {
    RsyncOption { names, short, does: Does::Refused(why), off: None }
}

pub(super) const fn refused_of(
    names: &'static [&'static str],
    short: Option<char>,
    why: &'static str,
) -> RsyncOption {
    RsyncOption { names, short, does: Does::RefusedOf(why), off: None }
}

/// The same row, for an option whose name rsync also accepts behind `no-`.
pub(super) const fn with_off(option: RsyncOption) -> RsyncOption {
    RsyncOption { off: Some(|_| ()), ..option }
}
