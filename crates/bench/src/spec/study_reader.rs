//! Reads a study file's tables.

use std::collections::BTreeSet;

use linerate_lab::{GuestSpec, LossError, RttError};

use super::case_reader::{Known, read_cases};
use super::error::FileError;
use super::expression::Expression;
use super::figure_reader::{read_figure, read_printed};
use super::quick::read_quick;
use super::ready::ready;
use super::section::Section;
use super::study::{BoundSpec, CaseSpec, DatasetSpec, LinkSpec, SettingSpec, Sizes, Study};
use super::template::{Names, Word};
use super::tool::Toolbox;
use super::tool_reader::FACTORS;
use crate::record::{Limit, Relation};

/// Reads the root table of a study file.
pub(crate) fn study(root: &Section, tools: &Toolbox) -> Result<Study, FileError> {
    let name = path_part(root, "name", root.text("name")?)?;
    let mut named = Unique::by("name");
    let links = root.sections("link", |section| named.once(section, read_link(section)?, |l| &l.name))?;
    let mut named = Unique::by("name");
    let datasets =
        root.sections("dataset", |section| named.once(section, read_dataset(section)?, |d| &d.name))?;
    let mut named = Unique::by("name");
    let mut settings =
        root.sections("setting", |section| named.once(section, read_setting(section)?, |s| &s.name))?;
    let known = Known { tools, links: &links, datasets: &datasets, settings: &settings };
    let cases = read_all_cases(root, &known)?;
    settings.extend(ready_settings(&cases, &settings));
    let ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    let baseline = choose(root, "baseline", &ids)?;
    Ok(Study {
        title: root.text("title")?.to_owned(),
        about: root.maybe_text("about")?.unwrap_or_default().trim().to_owned(),
        blocks: number_up_to(root, "blocks", 1..=MOST_BLOCKS)?.unwrap_or(5),
        timeout: root.maybe_parsed("timeout", some_time)?.unwrap_or(120.0),
        settle: root.maybe_parsed("settle", time)?.unwrap_or(0.3),
        repeats: number_up_to(root, "repeats", 0..=10)?.unwrap_or(2),
        bounds: root.sections("bound", |section| read_bound(section, &ids))?,
        rows: read_rows(root)?,
        figures: root.sections("figure", |section| read_figure(section, &cases, baseline.is_some()))?,
        printed: root.sections("printed", |section| read_printed(section, &ids))?,
        quick: root.section("quick", |section| read_quick(section, &cases, tools))?.unwrap_or_default(),
        capacity: root.flag("capacity")?,
        name,
        baseline,
        links,
        datasets,
        cases,
        settings,
        text: String::new(),
    })
}

/// Reads the cases of all tables. No two cases may have the same id.
fn read_all_cases(root: &Section, known: &Known) -> Result<Vec<CaseSpec>, FileError> {
    let mut named = Unique::by("id");
    let one = |section: &Section, named: &mut Unique, case: CaseSpec| {
        path_part(section, "id", &case.id)?;
        named.once(section, case, |case| &case.id)
    };
    let cases = root.sections("case", |section| {
        let cases = read_cases(section, known)?.into_iter();
        cases.map(|case| one(section, &mut named, case)).collect::<Result<Vec<_>, _>>()
    })?;
    let cases = cases.concat();
    if cases.is_empty() { Err(root.missing("case")) } else { Ok(cases) }
}

/// The ready-made settings that cases use without the study defining them.
fn ready_settings(cases: &[CaseSpec], settings: &[SettingSpec]) -> Vec<SettingSpec> {
    let used: BTreeSet<&String> = cases.iter().flat_map(|case| case.settings.keys()).collect();
    let lacking = used.into_iter().filter(|name| !settings.iter().any(|setting| setting.name == **name));
    lacking.filter_map(|name| ready(name, &["a", "b"].map(str::to_owned))).collect()
}

/// The greatest number of blocks of a study.
pub const MOST_BLOCKS: u32 = 10_000;

/// The longest time that a study may set, in seconds: a day.
const LONGEST: f64 = 86_400.0;

fn time(text: &str) -> Result<f64, String> {
    match linerate_quantity::seconds(text)? {
        seconds if seconds <= LONGEST => Ok(seconds),
        _ => Err(format!("{text:?} is longer than a day")),
    }
}

fn some_time(text: &str) -> Result<f64, String> {
    match time(text)? {
        seconds if seconds > 0.0 => Ok(seconds),
        _ => Err(format!("{text:?} leaves no time for a run")),
    }
}

/// Names that must differ.
struct Unique {
    key: &'static str,
    seen: BTreeSet<String>,
}

impl Unique {
    fn by(key: &'static str) -> Self {
        Self { key, seen: BTreeSet::new() }
    }

    /// Returns the item, or an error if its name was used before.
    fn once<T>(&mut self, section: &Section, thing: T, name: fn(&T) -> &str) -> Result<T, FileError> {
        match self.seen.insert(name(&thing).to_owned()) {
            true => Ok(thing),
            false => Err(section.error(self.key, format!("{:?} is used twice", name(&thing)))),
        }
    }
}

/// The largest number of bytes of a name. The name becomes part of a file name, which also has other parts.
const LONGEST_NAME: usize = 120;

/// Checks that a name may be part of a path.
fn path_part(section: &Section, key: &'static str, name: &str) -> Result<String, FileError> {
    let odd = |c: char| c == '/' || c.is_control();
    if name.is_empty() || name.len() > LONGEST_NAME || name.starts_with('.') || name.contains(odd) {
        let problem = format!(
            "{name:?} can't be part of a path: a name can't be empty, contain a slash or a control character, begin with a dot, or be longer than {LONGEST_NAME} bytes"
        );
        return Err(section.error(key, problem));
    }
    Ok(name.to_owned())
}

/// The number of experiments in the five papers, which are the rows of `docs/papers.md`.
const MOST_ROWS: u32 = 30;

fn read_rows(root: &Section) -> Result<Vec<u32>, FileError> {
    let rows = root.levels("rows", |text| match text.parse() {
        Ok(row) if (1..=MOST_ROWS).contains(&row) => Ok(row),
        _ => Err(format!("{text} is not a row of docs/papers.md: 1 to {MOST_ROWS}")),
    })?;
    let distinct: BTreeSet<u32> = rows.iter().copied().collect();
    if distinct.len() < rows.len() {
        return Err(root.error("rows", "contains a row twice"));
    }
    Ok(rows)
}

fn read_link(section: &Section) -> Result<LinkSpec, FileError> {
    let name = section.text("name")?.to_owned();
    let mtu = section.maybe_count("mtu")?.unwrap_or(1500);
    let mtu = u32::try_from(mtu).ok().filter(|mtu| (576..=65_535).contains(mtu));
    let link = LinkSpec {
        rate: section.parsed("rate", link_rate)?,
        mtu: mtu.ok_or_else(|| section.error("mtu", "is not from 576 to 65535"))?,
        count: number_up_to(section, "count", 1..=8)?.unwrap_or(1),
        queues: number_up_to(section, "queues", 1..=64)?,
        guests: number_up_to(section, "guests", 0..=16)?.unwrap_or(0),
        machine: read_machine(section)?,
        rtt: section.maybe_parsed("rtt", |text| text.parse().map_err(|e: RttError| e.to_string()))?,
        loss: section.maybe_parsed("loss", |text| text.parse().map_err(|e: LossError| e.to_string()))?,
        name,
    };
    check_emulated(section, &link)?;
    check_guests(section, &link)?;
    Ok(link)
}

/// Reads the properties of virtual machines.
fn read_machine(section: &Section) -> Result<Option<GuestSpec>, FileError> {
    let properties = section.free_levels("guest")?;
    let mut spec = GuestSpec::default();
    for property in &properties {
        let [value] = property.levels.as_slice() else {
            return Err(section.error_of(property, "has one value, not a list"));
        };
        let set = spec.set(&property.name, value);
        set.map_err(|reason| section.error_of(property, reason).suggest(&property.name, GuestSpec::NAMES))?;
    }
    match (properties.is_empty(), spec.fault()) {
        (true, _) => Ok(None),
        (false, Some(reason)) => Err(section.error("guest", reason)),
        (false, None) => Ok(Some(spec)),
    }
}

/// Checks a link with emulated delay or loss: it must have one queue at each end, and can't be part of a
/// bridge.
fn check_emulated(section: &Section, link: &LinkSpec) -> Result<(), FileError> {
    let emulated = link.rtt.map(|_| "rtt").or(link.loss.map(|_| "loss"));
    let other = link.queues.map(|_| "queues").or((link.guests > 0).then_some("guests"));
    match (emulated, other) {
        (Some(key), Some(other)) => Err(section.error(key, format!("can't be combined with `{other}`"))),
        _ => Ok(()),
    }
}

fn check_guests(section: &Section, link: &LinkSpec) -> Result<(), FileError> {
    match () {
        () if link.machine.is_none() => Ok(()),
        () if link.guests == 0 => Err(section.error("guest", "describes guests, but `guests` is 0")),
        () if link.queues.is_some() => {
            Err(section.error("queues", "can't be combined with `guest`: set the queues of the guest's card"))
        }
        () => Ok(()),
    }
}

fn number_up_to(
    section: &Section,
    key: &'static str,
    range: std::ops::RangeInclusive<u32>,
) -> Result<Option<u32>, FileError> {
    let Some(number) = section.maybe_number(key)? else { return Ok(None) };
    let whole = (number.fract() == 0.0).then_some(number as u32).filter(|n| range.contains(n));
    let (first, last) = (range.start(), range.end());
    whole
        .map(Some)
        .ok_or_else(|| section.error(key, format!("{number} is not a whole number from {first} to {last}")))
}

fn read_setting(section: &Section) -> Result<SettingSpec, FileError> {
    let name = section.text("name")?.to_owned();
    if name.is_empty() || name.contains(['{', '}']) {
        return Err(
            section.error("name", format!("{name:?} is not a name: it is empty, or contains {{ or }}"))
        );
    }
    if FACTORS.contains(&name.as_str()) {
        return Err(section.error("name", format!("{name:?} has a meaning already; take another name")));
    }
    let hosts: Vec<String> = section.texts("hosts")?.into_iter().map(str::to_owned).collect();
    if let Some(wrong) = hosts.iter().find(|host| !["a", "b"].contains(&host.as_str())) {
        return Err(section.error("hosts", format!("{wrong:?} is not a host: \"a\" sends, \"b\" receives")));
    }
    let words = |key| section.levels(key, |text| Word::parse_with(text, &Names::of_setting()));
    let (read, write): (Vec<Word>, Vec<Word>) = (words("read")?, words("write")?);
    if let Some(ready) =
        ready(&name, &hosts).filter(|_| read.is_empty() && write.is_empty() && !hosts.is_empty())
    {
        return Ok(ready);
    }
    if !write.iter().any(|word| word.mentions("value")) {
        return Err(section.error("write", "doesn't contain `{value}`"));
    }
    match (hosts.is_empty(), read.is_empty()) {
        (true, _) => Err(section.missing("hosts")),
        (_, true) => Err(section.missing("read")),
        _ => Ok(SettingSpec { name, hosts, read, write, optional: section.flag("optional")? }),
    }
}

fn read_dataset(section: &Section) -> Result<DatasetSpec, FileError> {
    let name = path_part(section, "name", section.text("name")?)?;
    let kinds = [("log-normal", true), ("fixed", false)];
    let log_normal = section.maybe_choice("kind", &kinds)?.ok_or_else(|| section.missing("kind"))?;
    let sizes = if log_normal { read_log_normal(section)? } else { read_fixed(section)? };
    Ok(DatasetSpec { name, sizes, per_directory: section.maybe_count("per_directory")?.unwrap_or(100) })
}

fn read_log_normal(section: &Section) -> Result<Sizes, FileError> {
    let mean = section.parsed("mean", linerate_quantity::bytes)?;
    let sigma = section.maybe_number("sigma")?.unwrap_or(DEFAULT_SIGMA);
    if mean == 0 {
        return Err(section.error("mean", "must not be 0"));
    }
    if sigma > 4.0 {
        return Err(section.error("sigma", format!("{sigma} is more than 4")));
    }
    Ok(Sizes::LogNormal { total: section.parsed("size", some_bytes)?, mean, sigma })
}

/// The default standard deviation of the logarithm of file sizes. On a Debian 12 server, it is 1.7 below
/// /usr, 1.8 below /usr/lib and 1.9 below /usr/bin.
const DEFAULT_SIGMA: f64 = 1.8;

fn read_fixed(section: &Section) -> Result<Sizes, FileError> {
    let files = section.maybe_count("files")?.ok_or_else(|| section.missing("files"))?;
    Ok(Sizes::Fixed { files, size: section.parsed("each", some_bytes)? })
}

/// Parses a number of bytes to move, which must not be 0.
pub(crate) fn some_bytes(text: &str) -> Result<u64, String> {
    match linerate_quantity::bytes(text)? {
        0 => Err(format!("{text:?} is no data to move")),
        bytes => Ok(bytes),
    }
}

fn read_bound(section: &Section, cases: &[&str]) -> Result<BoundSpec, FileError> {
    let text = section.text("expression")?;
    let expression = Expression::parse(text, cases).map_err(|error| {
        let mut file_error = section.error("expression", error.problem);
        file_error.meant = error.meant;
        file_error
    })?;
    let limit = |relation, value| Some(Limit { relation, value });
    let limit = match (section.maybe_number("at_least")?, section.maybe_number("at_most")?) {
        (Some(value), None) => limit(Relation::AtLeast, value),
        (None, Some(value)) => limit(Relation::AtMost, value),
        (None, None) => None,
        (Some(_), Some(_)) => {
            return Err(section.error("at_most", "can't be combined with `at_least`; use one of them"));
        }
    };
    let every_block = section.flag("every_block")?;
    if every_block && limit.is_none() {
        return Err(
            section.error("every_block", "needs `at_least` or `at_most`: without one there is no limit")
        );
    }
    Ok(BoundSpec {
        name: section.text("name")?.to_owned(),
        text: text.to_owned(),
        expression,
        limit,
        unit: section.maybe_text("unit")?.unwrap_or("ratio").to_owned(),
        every_block,
    })
}

fn choose(root: &Section, key: &'static str, ids: &[&str]) -> Result<Option<String>, FileError> {
    let Some(name) = root.maybe_text(key)? else { return Ok(None) };
    if ids.contains(&name) {
        return Ok(Some(name.to_owned()));
    }
    Err(root.error(key, format!("{name:?} is not a case")).suggest(name, ids.iter().copied()))
}
/// Parses the rate of a link, and returns it in bit/s; `None` for `open`, a link without a rate limit.
pub(crate) fn link_rate(text: &str) -> Result<Option<u64>, String> {
    if text == "open" {
        return Ok(None);
    }
    let rate =
        linerate_quantity::bit_rate(text).ok().filter(|rate| (1..9_000_000_000_000_000).contains(rate));
    let wrong =
        || format!("{text:?} is not a rate; write it as \"10gbit\", or \"open\" for a link without a shaper");
    rate.map(Some).ok_or_else(wrong)
}
