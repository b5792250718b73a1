//! `cargo xtask site` makes a site of the documentation and the manual pages with mdBook, and checks every
//! link.

mod check;
mod links;
mod manual;
mod stage;

use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the site.
///
/// # Errors
/// If mdBook or the program fails, a file can't be read or written, or a link has no target.
pub fn run(repository: &Path, arguments: &[String]) -> anyhow::Result<()> {
    let options = Options::parse(repository, arguments)?;
    let book = tempfile::tempdir().context("making a directory for the pages")?;
    let pages = book.path().join("src");
    let mut summary = stage::pages(repository, &pages)?;
    summary += &manual::pages(options.program.as_deref(), &pages)?;
    fs::write(pages.join("SUMMARY.md"), summary).context("writing the contents")?;
    for name in ["book.toml", "site.css"] {
        let from = repository.join("docs").join(name);
        fs::copy(&from, book.path().join(name)).with_context(|| format!("copying {}", from.display()))?;
    }
    let mut mdbook = Command::new("mdbook");
    mdbook.arg("build").arg(book.path()).arg("--dest-dir").arg(&options.out);
    crate::call(mdbook.env("MDBOOK_LOG", "warn")).context("mdBook (cargo install mdbook) makes the site")?;
    let found = check::site(&options.out)?;
    println!("site: {}: {found}", options.out.join("index.html").display());
    Ok(())
}

struct Options {
    out: PathBuf,
    /// The program that prints the manual pages; if `None`, it is built.
    program: Option<PathBuf>,
}

impl Options {
    fn parse(repository: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let mut options = Self { out: repository.join("target/site"), program: None };
        for pair in arguments.chunks(2) {
            match pair {
                [option, value] if option == "--out" => options.out = std::path::absolute(value)?,
                [option, value] if option == "--program" => {
                    options.program = Some(std::path::absolute(value)?);
                }
                _ => bail!("site takes --out DIR and --program FILE, not '{}'", pair.join(" ")),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_unknown_is_taken() {
        let parse = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            Options::parse(Path::new("/r"), &words)
        };
        assert_eq!(parse("").unwrap().out, Path::new("/r/target/site"));
        assert_eq!(parse("--out /x --program /y").unwrap().program.unwrap(), Path::new("/y"));
        assert!(parse("--out").is_err() && parse("--fast 1").is_err());
    }
}
