//! Gets lists from the far end before the transfer: the contents of lists of files, and the paths that match patterns.

use linerate_remote::patience::Patience;
use linerate_transfer::filter::{Reading, Rules};
use linerate_transfer::lock::lock;
use linerate_transfer::pattern;
use linerate_transfer::routes::Interfaces;
use linerate_transfer::sender::{NONE_IS_THERE, Selection};
use linerate_wire::control::{Change, Options};
use linerate_wire::entry::Entry;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::{Arc, Mutex};

use super::line::Line;
use crate::common::failure::Failure;
use crate::common::output::{Output, Style};
use crate::common::printer::{Done, Printer, Sums};
use crate::common::spec::Spec;
use crate::copying::perform;
use crate::copying::task::Task;
use crate::exit::Code;
use crate::sync::selecting::{RuleOption, build, read_list};

impl Line {
    /// The text of the list of files. A name such as `HOST:FILE` or `:FILE` means a file on the far host of
    /// this command line.
    pub fn list_of_files(&self, file: &OsString) -> Result<Vec<u8>, String> {
        let far = self.paths.iter().find_map(|path| match Spec::parse(path) {
            Spec::Remote(host, _) => Some(host),
            Spec::Local(_) => None,
        });
        let (host, path) = match (Spec::parse(file), file.as_bytes()) {
            (Spec::Remote(host, path), _) => (Some(host), path),
            (_, [b':', path @ ..]) => (None, path.to_vec()),
            _ => return read_list(file),
        };
        let Some(far) = far.filter(|far| host.is_none_or(|host| host == *far)) else {
            return Err(
                "--files-from: the list must be on the host of the sources or of the destination".into()
            );
        };
        let source = OsString::from_vec([far.as_bytes(), b":", &path].concat());
        self.bring_list(source)
    }

    /// Copies a list of files from the far end, in a transfer of its own.
    fn bring_list(&self, source: OsString) -> Result<Vec<u8>, String> {
        let shown = linerate_wire::path::printable(source.as_bytes());
        let failed = |why: String| format!("copying the list of files {shown} failed: {why}");
        let here = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
        let brought = here.path().join("list").into_os_string();
        let task = self.beforehand(vec![source], brought.clone(), Options::default())?;
        match perform(Output::new(Style::Quiet), Ok(task)) {
            Ok(Code::Done) => read_list(&brought),
            Ok(_) => Err(failed("see above".into())),
            Err(Failure(message, _)) => Err(failed(message)),
        }
    }

    /// The task for a transfer before the actual one.
    fn beforehand(
        &self,
        sources: Vec<OsString>,
        destination: OsString,
        options: Options,
    ) -> Result<Task, String> {
        let timeout = Some(self.timeout).filter(|seconds| *seconds > 0);
        let options = Options { timeout, ..options };
        Ok(Task {
            selection: Selection::new(&options, None),
            sources,
            destination,
            options,
            manifest: None,
            list: false,
            patience: Patience::by_option(timeout),
            quiet: true,
            retries: 0,
            interfaces: Interfaces::One,
            stop: None,
            detach: false,
            login: self.login()?,
            destination_login: None,
        })
    }

    /// The sources, in which each pattern is replaced by the paths that match it at the far end. These paths must be
    /// known before the transfer, because `-R` keeps whole paths. A pattern that matches nothing stays as it is.
    ///
    /// # Errors
    /// If the far end can't list the paths.
    pub fn matched_sources(&self, sources: &[OsString]) -> Result<Vec<OsString>, Failure> {
        let is_pattern = |source: &&OsString| far_pattern(source).is_some();
        let patterns: Vec<_> = sources.iter().filter(is_pattern).cloned().collect();
        let found = if patterns.is_empty() { Vec::new() } else { self.list_matches(patterns)? };
        let matched = sources.iter().flat_map(|source| match far_pattern(source) {
            Some((host, pattern)) => {
                named_by(&host, &pattern, &found).unwrap_or_else(|| vec![source.clone()])
            }
            None => vec![source.clone()],
        });
        Ok(matched.collect())
    }

    /// The paths that match the patterns at the far end, as the far end writes them.
    fn list_matches(&self, patterns: Vec<OsString>) -> Result<Vec<Vec<u8>>, Failure> {
        let failed = |message| Failure(message, super::USAGE);
        let nothing_below = [(RuleOption::Exclude, OsString::from("*"))];
        let filter: Rules =
            build(&nothing_below, Reading::default(), false).map_err(|error| failed(error.to_string()))?;
        let options = Options { recursive: true, ignore_missing: true, filter, ..Options::default() };
        let task = self.beforehand(patterns, OsString::from("."), options).map_err(failed)?;
        let matches = Arc::new(Matches::default());
        let output = Output::new(Style::Quiet).with_printer(matches.clone());
        match perform(output, Ok(Task { list: true, ..task })) {
            Err(Failure(message, _)) if message == NONE_IS_THERE => {}
            done => drop(done?),
        }
        let found = std::mem::take(&mut *lock(&matches.0));
        Ok(found)
    }
}

/// The host and the path of a source that is a pattern of the far end.
fn far_pattern(source: &OsString) -> Option<(OsString, Vec<u8>)> {
    let Spec::Remote(host, path) = Spec::parse(source) else { return None };
    path.iter().any(|byte| b"*?[".contains(byte)).then_some((host, path))
}

/// The sources that `pattern` names, among the paths `found` at the far end; `None` if it names none. Wildcards in
/// these paths only stand for themselves. The far end may send any text, so paths that don't match are left out.
fn named_by(host: &OsString, pattern: &[u8], found: &[Vec<u8>]) -> Option<Vec<OsString>> {
    let (top, below) = match pattern.strip_prefix(b"~").and_then(|rest| rest.iter().position(|b| *b == b'/'))
    {
        Some(slash) => pattern.split_at(slash + 2),
        None => (&b""[..], pattern),
    };
    let wanted = components(below);
    let source = |path: &Vec<u8>| {
        let all = components(path);
        let own = all.len().checked_sub(wanted.len()).map(|above| &all[above..])?;
        let is_same_root =
            !top.is_empty() || own.len() == all.len() && path.starts_with(b"/") == below.starts_with(b"/");
        let fits = |(wanted, own): (&&[u8], &&[u8])| wanted == own || pattern::matches(wanted, own);
        if !is_same_root || !wanted.iter().zip(own).all(fits) {
            return None;
        }
        let root: &[u8] = if top.is_empty() && below.starts_with(b"/") { b"/" } else { b"" };
        let slash: &[u8] = if below.ends_with(b"/") { b"/" } else { b"" };
        Some(OsString::from_vec([host.as_bytes(), b":", top, root, &own.join(&b'/'), slash].concat()))
    };
    let sources: Vec<_> = found.iter().filter_map(source).collect();
    (!sources.is_empty()).then_some(sources)
}

fn components(path: &[u8]) -> Vec<&[u8]> {
    path.split(|byte| *byte == b'/').filter(|component| !component.is_empty()).collect()
}

/// Collects the paths of a list.
#[derive(Default)]
struct Matches(Mutex<Vec<Vec<u8>>>);

impl Printer for Matches {
    fn change(&self, _: &Change) {}

    fn listed(&self, path: &[u8], _: &Entry, _: u64) {
        lock(&self.0).push(path.to_vec());
    }

    fn skip(&self, _: &str, _: &str) {}

    fn progress(&self, _: &Done) {}

    fn end(&self, _: &Sums) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_that_match_are_named() {
        let found =
            ["src/two", "src/tree/", "/srv/a/./x", "/home/u/two", "src/../etc", "/src/two", "src/t/x"];
        let found = found.map(|path| path.as_bytes().to_vec());
        for (pattern, wanted) in [
            ("src/t*", &["h:src/two", "h:src/tree"][..]),
            ("src/t*/", &["h:src/two/", "h:src/tree/"]),
            ("/srv/?/./x", &["h:/srv/a/./x"]),
            ("~/t?o", &["h:~/two", "h:~/two", "h:~/two"]),
            ("*/x", &[]),
        ] {
            let named = named_by(&"h".into(), pattern.as_bytes(), &found).unwrap_or_default();
            assert_eq!(named, wanted, "{pattern}");
        }
    }
}
