//! Determines where the sources land, and creates the directories for them.

use linerate_sys::process::umask;
use linerate_wire::control::{Change, Options, Problem, ProblemKind, Source, Sync};
use linerate_wire::path::{RelPath, printable};
use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;

use crate::base::problem::{TransferError, problem};
use crate::receive::reception::Settings;
use crate::receive::resume;
use crate::tree::bounds::Named;
use crate::tree::charsets::NameConversion;
use crate::tree::landing::Landing;

/// Determines where the sources land. Also returns the number of directories that were created for the destination, or
/// that would be created in a dry run; it is 0 unless missing parents of the destination may be created.
///
/// # Errors
/// If the destination can't take the sources.
pub fn land(
    destination: &Named,
    sources: &[Source],
    options: &Options,
) -> Result<(Landing, u64), TransferError> {
    let makes_path = options.sync.as_ref().is_some_and(|sync| sync.make_path);
    let is_dry = options.sync.as_ref().is_some_and(|sync| sync.dry_run);
    let conversion = conversion(options)?;
    let sources = &converted(sources, conversion)?[..];
    let mut made = 0;
    if makes_path && !is_dry {
        made = destination.make_above(Settings::new(options, umask()).created())?;
    }
    let landing = match (resume::landing(destination, sources, options), &options.sync) {
        (Some(again), _) => again,
        (None, Some(sync)) if sync.into && is_dry && makes_path => {
            let (landing, above) = Landing::into_unmade(destination, sources)?;
            made = above;
            landing
        }
        (None, Some(sync)) if sync.into => Landing::into(destination, sources, sync.dry_run)?,
        (None, Some(_)) => Landing::mirror(destination, sources)?,
        (None, None) => Landing::find(destination, sources)?,
    };
    let made = if makes_path { made + u64::from(landing.is_made) } else { 0 };
    let has_slash = destination.shown().as_os_str().as_bytes().ends_with(b"/");
    Ok((landing.converting(conversion).written_with_slash(has_slash), made))
}

/// The conversion of the sender's names to names at this end; `None` if names aren't converted.
fn conversion(options: &Options) -> Result<Option<NameConversion>, TransferError> {
    let charsets = options.details.charsets.as_ref();
    charsets.map_or(Ok(None), NameConversion::between).map_err(TransferError::Arguments)
}

fn converted(
    sources: &[Source],
    conversion: Option<NameConversion>,
) -> Result<Cow<'_, [Source]>, TransferError> {
    let Some(conversion) = conversion else { return Ok(Cow::Borrowed(sources)) };
    let convert = |source: &Source| {
        let name = conversion.path(&source.name).ok_or_else(|| {
            let shown = printable(source.name.as_bytes());
            TransferError::Arguments(format!(
                "the name of the source '{shown}' can't be written in the destination's character set"
            ))
        })?;
        Ok(Source { name, ..source.clone() })
    };
    sources.iter().map(convert).collect()
}

/// True if the creation of the destination is reported as a change, and not together with its parents.
pub fn reports_made(landing: &Landing, sync: &Sync) -> bool {
    landing.is_made && sync.into && sync.itemize && (!sync.make_path || sync.dry_run)
}

/// The report that the destination is created.
pub fn made_top() -> Change {
    Change { item: Change::MADE, path: RelPath::root(), directory: true, link: None, facts: None }
}

/// The remark about directories that were created for the destination, in rsync's words.
pub fn made_path(destination: &Named, landing: &Landing, made: u64) -> Problem {
    let shown = destination.shown();
    let is_directory = landing.is_made || shown.as_os_str().as_bytes().ends_with(b"/");
    let directory = if is_directory { Some(&*shown) } else { shown.parent() };
    let directory = printable(directory.unwrap_or(&shown).as_os_str().as_bytes());
    let directories = if made == 1 { "directory" } else { "directories" };
    let message = format!("created {made} {directories} for {}", directory.trim_end_matches('/'));
    problem(shown, ProblemKind::Remark, message)
}
