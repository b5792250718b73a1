//! What rsync prints on standard output: lines of changes, sums, progress.

use linerate_transfer::lock::lock;
use linerate_wire::control::{Change, Totals};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::line::Line;
use crate::common::look::{Done, Look, Sums};
use crate::common::spec::Spec;

/// How often the progress is printed.
const PROGRESS: Duration = Duration::from_secs(1);

/// rsync's way to print.
pub struct RsyncLook {
    format: Option<Vec<Piece>>,
    /// Changes of attributes alone have a line too.
    itemizes: bool,
    quiet: bool,
    verbose: bool,
    stats: bool,
    progress: bool,
    dry_run: bool,
    human: u8,
    /// The sources, as they are shown.
    sources: Vec<String>,
    told: Mutex<Told>,
}

/// A piece of `--out-format`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Item,
    Name,
    Link,
    Operation,
}

/// What was told of, by kind.
#[derive(Default)]
struct Told {
    created: Totals,
    deleted: Totals,
    transferred: u64,
    progress: Option<Instant>,
}

impl RsyncLook {
    /// As `line` asks for it.
    ///
    /// # Errors
    /// If its format has something that isn't known.
    pub fn new(line: &Line) -> Result<Self, String> {
        let format = match &line.out_format {
            Some(format) => Some(pieces(format)?),
            None if line.itemize => {
                Some(vec![Piece::Item, Piece::Text(" ".into()), Piece::Name, Piece::Link])
            }
            None if line.verbose > 0 || line.progress => Some(vec![Piece::Name, Piece::Link]),
            None => None,
        };
        let sources = line.paths.split_last().map_or(&[][..], |(_, sources)| sources);
        let itemizes = format.as_ref().is_some_and(|format| format.contains(&Piece::Item));
        Ok(Self {
            format: format.filter(|_| !line.quiet),
            itemizes,
            quiet: line.quiet,
            verbose: line.verbose > 0,
            stats: line.stats,
            progress: line.progress,
            dry_run: line.sync.dry_run,
            human: line.human,
            sources: sources.iter().map(|source| shown(source)).collect(),
            told: Mutex::default(),
        })
    }

    /// The first lines; `made` is a directory that is to be made.
    pub fn begin(&self, pulls: bool, made: Option<&OsStr>) {
        if self.verbose && !self.quiet {
            say!("{} incremental file list", if pulls { "receiving" } else { "sending" });
        }
        if let Some(made) = made.filter(|_| (self.verbose || self.itemizes) && !self.quiet) {
            let shown = linerate_wire::path::printable(made.as_bytes());
            say!("created directory {}", shown.trim_end_matches('/'));
        }
    }

    /// True for a directory of this host, which comes with `-r` alone; that has a line.
    pub fn skips_directory(&self, source: &OsStr) -> bool {
        let is_one = matches!(Spec::parse(source), Spec::Local(path) if is_directory(&path));
        if is_one && !self.quiet {
            let shown = linerate_wire::path::printable(source.as_bytes());
            say!(
                "skipping directory {}",
                shown.strip_suffix('.').filter(|rest| rest.ends_with('/')).unwrap_or(&shown)
            );
        }
        is_one
    }

    /// The path without what is in front of its source's own name.
    fn named<'a>(&self, path: &'a str) -> &'a str {
        let is_in = |source: &&String| {
            path.strip_prefix(source.as_str()).is_some_and(|below| below.is_empty() || below.starts_with('/'))
        };
        let source = self.sources.iter().find(is_in);
        let own = source.and_then(|source| source.rfind('/')).map_or(0, |slash| slash + 1);
        &path[own..]
    }

    fn count(&self, change: &Change) {
        let mut told = lock(&self.told);
        if change.item == Change::DELETED {
            // What was there is known as a directory or not.
            let deleted = &mut told.deleted;
            *(if change.directory { &mut deleted.directories } else { &mut deleted.files }) += 1;
            return;
        }
        let is_new = change.item[2] == b'+';
        told.transferred += u64::from(matches!(change.item[0], b'<' | b'>'));
        if is_new {
            match change.item[1] {
                b'd' => told.created.directories += 1,
                b'L' => told.created.symlinks += 1,
                b'f' => told.created.files += 1,
                _ => told.created.specials += 1,
            }
        }
    }

    fn statistics(&self, sums: &Sums) {
        let told = lock(&self.told);
        say!("");
        say!("Number of files: {}", self.counts(&sums.there));
        say!("Number of created files: {}", self.counts(&told.created));
        say!("Number of deleted files: {}", self.counts(&told.deleted));
        say!("Number of regular files transferred: {}", self.number(told.transferred));
        say!("Total file size: {} bytes", self.number(sums.there.bytes));
        say!("Total transferred file size: {} bytes", self.number(sums.moved.bytes));
        say!("Literal data: {} bytes", self.number(sums.moved.bytes));
        let (sent, received) = ways(sums);
        say!("Total bytes sent: {}", self.number(sent));
        say!("Total bytes received: {}", self.number(received));
    }

    /// `3 (reg: 1, dir: 1, link: 1)`.
    fn counts(&self, totals: &Totals) -> String {
        let kinds = [
            ("reg", totals.files),
            ("dir", totals.directories),
            ("link", totals.symlinks),
            ("special", totals.specials),
        ];
        let there = kinds.iter().filter(|(_, count)| *count > 0);
        let parts: Vec<_> = there.map(|(kind, count)| format!("{kind}: {}", self.number(*count))).collect();
        let sum = self.number(totals.entries());
        if parts.is_empty() { sum } else { format!("{sum} ({})", parts.join(", ")) }
    }

    /// By the number of `-h`: as it is, with commas, in units of 1000, in units of 1024.
    fn number(&self, number: u64) -> String {
        match self.human {
            0 => number.to_string(),
            1 => commas(&number.to_string()),
            2 => unit(number as f64, 1000.0).unwrap_or_else(|| number.to_string()),
            _ => unit(number as f64, 1024.0).unwrap_or_else(|| number.to_string()),
        }
    }

    fn decimal(&self, number: f64) -> String {
        let plain = format!("{number:.2}");
        match self.human {
            0 => plain,
            1 => plain
                .split_once('.')
                .map_or(plain.clone(), |(whole, part)| format!("{}.{part}", commas(whole))),
            2 => unit(number, 1000.0).unwrap_or(plain),
            _ => unit(number, 1024.0).unwrap_or(plain),
        }
    }
}

impl Look for RsyncLook {
    fn change(&self, change: &Change, name: &str, link: &str) {
        self.count(change);
        let Some(format) = &self.format else { return };
        let is_deleted = change.item == Change::DELETED;
        let is_brought = change.item[0] != b'.' || change.directory;
        if !self.itemizes && is_deleted {
            return say!("deleting {name}");
        }
        if !self.itemizes && !is_brought {
            return;
        }
        let item = String::from_utf8_lossy(&change.item).into_owned();
        let operation = if is_deleted {
            "del."
        } else if item.starts_with('>') {
            "recv"
        } else {
            "send"
        };
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Item => item.clone(),
            Piece::Name => name.to_owned(),
            Piece::Link => link.to_owned(),
            Piece::Operation => operation.to_owned(),
        };
        say!("{}", format.iter().map(text).collect::<String>());
    }

    fn skip(&self, path: &str, message: &str) {
        let name = path.split_once("/./").map_or_else(|| self.named(path), |(_, below)| below);
        if self.quiet {
            return;
        }
        if message.starts_with("is a directory") {
            say!("skipping directory {name}");
        } else if message.ends_with("; not copied") {
            say!("skipping non-regular file \"{name}\"");
        } else {
            say!("skipping {name}: {message}");
        }
    }

    fn progress(&self, done: &Done) {
        let Done { bytes: (bytes, total), entries: (landed, found), seconds, is_last } = *done;
        if !self.progress || self.quiet {
            return;
        }
        let mut told = lock(&self.told);
        if !is_last && told.progress.is_some_and(|last| last.elapsed() < PROGRESS) {
            return;
        }
        told.progress = Some(Instant::now());
        let percent = (bytes * 100).checked_div(total).unwrap_or(100).min(100);
        let rate = bytes as f64 / seconds.max(1e-3);
        let left = if is_last { seconds } else { total.saturating_sub(bytes) as f64 / rate.max(1.0) };
        let line = format!(
            "{:>15} {percent:>3}% {:>11} {:>10} (xfr#{}, to-chk={}/{found})",
            self.number(bytes),
            shown_rate(rate),
            clock(left),
            told.transferred,
            found.saturating_sub(landed),
        );
        let end = if is_last { "\n" } else { "" };
        let mut out = std::io::stdout().lock();
        // Lost output is noticed by the next line.
        let _ = write!(out, "\r{line}{end}").and_then(|()| out.flush());
    }

    fn end(&self, sums: &Sums) {
        if self.quiet {
            return;
        }
        if self.stats {
            self.statistics(sums);
        }
        if self.stats || self.verbose {
            let (sent, received) = ways(sums);
            let rate = sums.moved.bytes as f64 / sums.elapsed.as_secs_f64().max(1e-3);
            let speedup = sums.there.bytes as f64 / (sums.moved.bytes.max(1)) as f64;
            say!("");
            say!(
                "sent {} bytes  received {} bytes  {} bytes/sec",
                self.number(sent),
                self.number(received),
                self.decimal(rate)
            );
            let dry = if self.dry_run { " (DRY RUN)" } else { "" };
            say!(
                "total size is {}  speedup is {}{dry}",
                self.number(sums.there.bytes),
                self.decimal(speedup)
            );
        }
    }
}

/// Bytes sent and bytes received.
fn ways(sums: &Sums) -> (u64, u64) {
    if sums.received { (0, sums.moved.bytes) } else { (sums.moved.bytes, 0) }
}

/// A source's path, safe on a terminal.
fn shown(source: &OsStr) -> String {
    match Spec::parse(source) {
        Spec::Local(path) => linerate_wire::path::printable(path.as_bytes()),
        Spec::Remote(_, path) => linerate_wire::path::printable(&path),
    }
}

/// A directory by this name; a link to one only with a slash behind it.
pub fn is_directory(path: &OsStr) -> bool {
    Path::new(path).symlink_metadata().is_ok_and(|found| found.is_dir())
}

fn commas(digits: &str) -> String {
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

fn unit(number: f64, base: f64) -> Option<String> {
    let (mut number, mut units) = (number / base, "KMGTP".chars());
    if number < 1.0 {
        return None;
    }
    let mut unit = units.next()?;
    while number >= base
        && let Some(next) = units.next()
    {
        (number, unit) = (number / base, next);
    }
    Some(format!("{number:.2}{unit}"))
}

/// `146.38kB/s`, by powers of 1024.
fn shown_rate(rate: f64) -> String {
    let kib = rate / 1024.0;
    match kib {
        ..1024.0 => format!("{kib:.2}kB/s"),
        ..1_048_576.0 => format!("{:.2}MB/s", kib / 1024.0),
        _ => format!("{:.2}GB/s", kib / 1_048_576.0),
    }
}

/// `0:01:05`.
fn clock(seconds: f64) -> String {
    let seconds = seconds as u64;
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn pieces(format: &OsStr) -> Result<Vec<Piece>, String> {
    let text = std::str::from_utf8(format.as_bytes()).map_err(|_| "--out-format is not text".to_owned())?;
    let (mut pieces, mut letters) = (Vec::new(), text.chars());
    let mut plain = String::new();
    while let Some(letter) = letters.next() {
        let piece = match letter {
            '%' => match letters.next() {
                Some('i') => Piece::Item,
                Some('n' | 'f') => Piece::Name,
                Some('L') => Piece::Link,
                Some('o') => Piece::Operation,
                Some('%') => {
                    plain.push('%');
                    continue;
                }
                other => {
                    let other = other.map(String::from).unwrap_or_default();
                    return Err(format!(
                        "--out-format: %{other} is not supported by linerate rsync; %i, %n, %f, %L, %o and %% are"
                    ));
                }
            },
            letter => {
                plain.push(letter);
                continue;
            }
        };
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(piece);
    }
    if !plain.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}
