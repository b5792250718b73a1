//! The options of a command's data that the configuration adds to its words. Those of logins are looked up by
//! [`crate::common::reach`], for each host of a command.

use clap::ArgMatches;
use clap::parser::ValueSource;
use std::ffi::{OsStr, OsString};

use super::Configuration;
use super::keys::{KEYS, KeyKind, KeyUse};
use crate::common::spec::Spec;

/// Words for the options that the user hasn't given. A command within this host gets none.
pub fn added(configuration: &Configuration, given: &ArgMatches) -> Vec<OsString> {
    let Some(host) = far_host(given) else { return Vec::new() };
    let is_free = |id: &str| {
        let is_there = given.try_contains_id(id).is_ok();
        is_there && given.value_source(id).is_none_or(|source| source == ValueSource::DefaultValue)
    };
    let keys = KEYS.iter().filter(|key| key.use_ == KeyUse::Data && is_free(key.id));
    keys.filter_map(|key| {
        let found = configuration.values(key, Some(&host)).into_iter().next()?;
        match (key.kind, found.value) {
            (KeyKind::Flag, "true") => Some(format!("--{}", key.name).into()),
            (KeyKind::Flag, _) => None,
            (_, value) => Some(format!("--{}={value}", key.name).into()),
        }
    })
    .collect()
}

/// The host of the destination, else that of the sources.
fn far_host(given: &ArgMatches) -> Option<OsString> {
    let words = |id: &str| given.try_get_raw(id).ok().flatten().into_iter().flatten();
    let several: Vec<_> = words("places").collect();
    let named = ["to", "destination", "source"].into_iter().flat_map(words).chain(several.into_iter().rev());
    named.filter_map(of_spec).chain(words("host").map(OsStr::to_owned)).next()
}

fn of_spec(word: &OsStr) -> Option<OsString> {
    match Spec::parse(word) {
        Spec::Remote(host, _) => Some(host),
        Spec::Local(_) => None,
    }
}
