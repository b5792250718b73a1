//! Runs the test suites of other programs with linerate in the place of these programs. Each case's result is compared
//! with a list in `crates/cli/tests/suites`. The suites are downloaded as Debian source packages when they are run;
//! this repository contains no part of them.

mod debian;
mod judge;
mod listing;
mod rsync;
mod scp;

use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::{built_release, repository};
use debian::Source;
use judge::{CaseEnd, disagreeing, judge};
use listing::Listing;

/// The arguments of a suite's run.
#[derive(Debug, PartialEq, Default)]
struct SuiteOptions {
    program: Option<PathBuf>,
    only: Vec<String>,
    /// Whether the command only reports that the suite's source isn't available, and succeeds.
    may_lack: bool,
}

impl SuiteOptions {
    fn parse(arguments: &[String]) -> anyhow::Result<Self> {
        let mut options = Self::default();
        let mut words = arguments.iter();
        while let Some(name) = words.next() {
            let mut value = || words.next().with_context(|| format!("{name} needs a value"));
            match name.as_str() {
                "--program" => options.program = Some(value()?.into()),
                "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
                "--may-lack" => options.may_lack = true,
                _ => bail!("{name} is no option: --program FILE, --only NAME,NAME, --may-lack"),
            }
        }
        Ok(options)
    }

    /// The program under test.
    fn program(&self) -> anyhow::Result<PathBuf> {
        let Some(program) = &self.program else { return built_release() };
        program.canonicalize().with_context(|| format!("--program {}", program.display()))
    }
}

/// A suite that was built.
trait Suite {
    /// The suite's cases that the list doesn't have.
    ///
    /// # Errors
    /// If the suite can't be found.
    fn unlisted(&self, listing: &Listing) -> anyhow::Result<Vec<String>>;

    /// Runs the cases, and prints the last output of failed cases.
    ///
    /// # Errors
    /// If the suite can't be started.
    fn run(&self, cases: &[String]) -> anyhow::Result<BTreeMap<String, CaseEnd>>;
}

/// Runs rsync's own suite.
///
/// # Errors
/// If the suite can't be downloaded or run, or a case's result differs from the list.
pub fn rsync(arguments: &[String]) -> anyhow::Result<()> {
    check(arguments, "rsync.toml", rsync::RsyncSuite::build)
}

/// Runs OpenSSH's own tests of scp.
///
/// # Errors
/// The errors of [`rsync()`].
pub fn scp(arguments: &[String]) -> anyhow::Result<()> {
    check(arguments, "scp.toml", scp::ScpSuite::build)
}

fn check<S: Suite>(
    arguments: &[String],
    list: &str,
    build: impl FnOnce(&Source, &Path) -> anyhow::Result<S>,
) -> anyhow::Result<()> {
    let options = SuiteOptions::parse(arguments)?;
    let listing = Listing::read(&lists().join(list))?;
    let wanted = listing.wanted(&options.only)?;
    let source = match debian::source(&cache(), &listing) {
        Ok(source) => source,
        Err(error) if options.may_lack => {
            println!("NOT CHECKED: {error:#}");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let suite = build(&source, &options.program()?)?;
    let mut ends = suite.run(&wanted)?;
    // Some cases depend on timing, so they are run again.
    let again = disagreeing(&listing, &wanted, &ends);
    if !again.is_empty() {
        println!("once more: {}", again.join(", "));
        ends.extend(suite.run(&again)?);
    }
    judge(&listing, &suite.unlisted(&listing)?, &wanted, &ends)
}

fn lists() -> PathBuf {
    repository().join("crates/cli/tests/suites")
}

/// The directory in which sources and built suites are kept between runs.
fn cache() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    target.map_or_else(|| repository().join("target"), |path| Path::new(&path).to_owned()).join("suites")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> anyhow::Result<SuiteOptions> {
        SuiteOptions::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_and_others_refused() {
        let options = parse("--only itemize,backup --only links --may-lack").unwrap();
        assert_eq!((options.only.len(), options.may_lack, options.program), (3, true, None));
        assert!(parse("--only").is_err() && parse("--jobs 3").is_err());
    }

    #[test]
    fn every_list_reads() {
        for (list, least) in [("rsync.toml", 100), ("scp.toml", 40)] {
            let listing = Listing::read(&lists().join(list)).unwrap();
            assert!(listing.wanted(&[]).unwrap().len() > least, "{list}");
        }
    }
}
