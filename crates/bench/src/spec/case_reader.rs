//! Reads a study's `[[case]]` tables, and makes a case for each combination of their factors' levels.

use std::collections::BTreeMap;

use linerate_lab::GuestSpec;

use super::error::FileError;
use super::ready;
use super::search::check_levels;
use super::section::{FreeLevels, Section};
use super::study::{CaseSpec, DatasetSpec, LinkSpec, SettingSpec, Streams};
use super::study_reader::some_bytes;
use super::tool::{Parallel, Tool, Toolbox};

/// The names of tools, links and other items that a case may use.
pub(crate) struct Known<'a> {
    pub tools: &'a Toolbox,
    pub links: &'a [LinkSpec],
    pub datasets: &'a [DatasetSpec],
    pub settings: &'a [SettingSpec],
}

/// Reads one `[[case]]` table, and returns a case for each combination of the levels of its factors.
pub(crate) fn read_cases(section: &Section, known: &Known) -> Result<Vec<CaseSpec>, FileError> {
    section.refuse_empty(&["variant", "streams", "dataset", "link"])?;
    let tool = read_tool(section, known.tools)?;
    let variants = read_variants(section, tool)?;
    let streams = read_streams(section, tool)?;
    let links = read_names(section, "link", known.links.iter().map(|l| l.name.as_str()))?;
    let datasets = read_datasets(section, tool, known)?;
    let with = read_with(section, tool, known)?;
    let levels = [links.len(), datasets.len(), variants.len(), streams.len()];
    check_number(section, levels.into_iter().chain(with.iter().map(|factor| factor.levels.len())))?;
    let with = combinations(&with);
    let (bytes, beside) = (read_bytes(section, tool)?, read_beside(section, tool)?);
    let names = Texts {
        id: section.text("id")?,
        label: section.maybe_text("label")?,
        group: section.maybe_text("group")?.unwrap_or(&tool.group),
    };
    let links: Vec<&LinkSpec> =
        links.iter().filter_map(|name| known.links.iter().find(|link| link.name == *name)).collect();
    let combined = crossed(&crossed(&crossed(&crossed(&links, &datasets), &variants), &streams), &with);
    let cases = combined.into_iter().map(|((((link, dataset), variant), streams), levels)| {
        let (parameters, settings) =
            levels.into_iter().partition(|(name, _)| tool.parameters.contains_key(name));
        let case = CaseSpec {
            id: String::new(),
            label: String::new(),
            group: names.group.to_owned(),
            tool: tool.name.clone(),
            variant,
            streams,
            dataset,
            bytes,
            link: link.name.clone(),
            beside,
            bed: bed_factors(link, beside),
            parameters,
            settings,
        };
        named(section, case, &names, tool)
    });
    cases.collect()
}

/// Reads the number of bytes that a tool moves from memory to memory. A number is an error if the tool takes no number
/// of bytes, for example because it runs for a fixed time.
fn read_bytes(section: &Section, tool: &Tool) -> Result<Option<u64>, FileError> {
    let bytes = section.maybe_parsed("bytes", some_bytes)?;
    if bytes.is_none() || tool.command.iter().any(|word| word.mentions("bytes")) {
        return Ok(bytes);
    }
    let timed = tool.parameters.contains_key("seconds");
    let instead = if timed { "; write its duration instead: `[case.with] seconds = 10`" } else { "" };
    Err(section.error("bytes", format!("{} takes no number of bytes{instead}", tool.name)))
}

/// All pairs of an element of `left` and an element of `right`. The element of `left` changes slowest.
fn crossed<A: Clone, B: Clone>(left: &[A], right: &[B]) -> Vec<(A, B)> {
    left.iter().flat_map(|a| right.iter().map(move |b| (a.clone(), b.clone()))).collect()
}

/// The greatest number of cases that one table may give.
const MOST_CASES: usize = 10_000;

fn check_number(section: &Section, levels: impl Iterator<Item = usize>) -> Result<(), FileError> {
    let cases = levels.fold(1, usize::saturating_mul);
    if cases <= MOST_CASES {
        return Ok(());
    }
    Err(section.error("id", format!("expands to {cases} cases; one table may have at most {MOST_CASES}")))
}

/// The templates of a case's names.
struct Texts<'a> {
    id: &'a str,
    label: Option<&'a str>,
    group: &'a str,
}

/// Adds the id and the label, which are made from the levels of the case's factors.
fn named(section: &Section, case: CaseSpec, names: &Texts, tool: &Tool) -> Result<CaseSpec, FileError> {
    let own = case.variant.as_deref().and_then(|name| tool.variant(name)).map(|v| v.label.as_str());
    let levels = case.factors();
    Ok(CaseSpec {
        id: fill(section, "id", names.id, &levels)?,
        label: fill(section, "label", names.label.or(own).unwrap_or(&tool.label), &levels)?,
        ..case
    })
}

fn fill(
    section: &Section,
    key: &str,
    text: &str,
    levels: &BTreeMap<String, String>,
) -> Result<String, FileError> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, inner)) = rest.split_once('{') {
        let (name, after) =
            inner.split_once('}').ok_or_else(|| section.error(key, "a `{` has no `}` after it"))?;
        let Some(level) = levels.get(name) else {
            let problem = format!("`{{{name}}}` is not a factor of this case");
            return Err(section.error(key, problem).suggest(name, levels.keys().map(String::as_str)));
        };
        filled.extend([before, level]);
        rest = after;
    }
    Ok(filled + rest)
}

/// Reads the key that requests timed small requests while the tool runs. The key is an error for a tool that itself
/// reports response times.
fn read_beside(section: &Section, tool: &Tool) -> Result<bool, FileError> {
    let beside = section.maybe_choice("beside", &[("rr", true)])?.unwrap_or(false);
    if beside && tool.result.as_ref().is_some_and(|reading| reading.latency.is_some()) {
        return Err(section.error(
            "beside",
            format!(
                "no requests can be timed beside {}, which itself reports response times; leave this key out",
                tool.name
            ),
        ));
    }
    Ok(beside)
}

/// The properties, as factors, in which the test bed differs from the simplest one: two hosts, a plain link,
/// and a single tool.
fn bed_factors(link: &LinkSpec, beside: bool) -> BTreeMap<String, String> {
    let guests = Some(link.guests).filter(|guests| *guests > 0);
    let on = |flag: bool| if flag { "on" } else { "off" }.to_owned();
    let machine = |property: fn(&GuestSpec) -> String| link.machine.as_ref().map(property);
    let flag = |property: fn(&GuestSpec) -> bool| link.machine.as_ref().map(property).map(on);
    let all = [
        ("links", Some(link.count.to_string())),
        ("queues", link.queues.map(|queues| queues.to_string()).or(machine(|spec| spec.queues.to_string()))),
        ("kind", machine(|spec| spec.kind.to_string())),
        ("nic", machine(|spec| spec.nic.to_string())),
        ("vcpus", machine(|spec| spec.vcpus.to_string())),
        ("rss", flag(|spec| spec.rss)),
        ("offload", flag(|spec| spec.offload)),
        ("vhost", flag(|spec| spec.vhost)),
        ("pinned", flag(|spec| spec.pinned)),
        ("guests", guests.map(|guests| guests.to_string())),
        ("rtt", link.rtt.map(|rtt| rtt.to_string())),
        ("loss", link.loss.map(|loss| loss.to_string())),
        ("beside", beside.then(|| "rr".to_owned())),
    ];
    all.into_iter().filter_map(|(name, level)| Some((name.to_owned(), level?))).collect()
}

/// Reads the levels in `[case.with]` of the tool's parameters and of the study's settings.
fn read_with(section: &Section, tool: &Tool, known: &Known) -> Result<Vec<FreeLevels>, FileError> {
    let found = section.free_levels("with")?;
    for entry in &found {
        let parameter = tool.parameters.contains_key(&entry.name);
        let own = known.settings.iter().any(|setting| setting.name == entry.name);
        let setting = own || !parameter && ready::names().any(|name| name == entry.name);
        if parameter && setting {
            let problem = format!("is a parameter of {} and a setting of this study", tool.name);
            return Err(section.error_of(entry, problem));
        }
        if !parameter && !setting {
            let problem = format!("is neither a parameter of {} nor a setting of this study", tool.name);
            let names = tool.parameters.keys().chain(known.settings.iter().map(|setting| &setting.name));
            let names = names.map(String::as_str).chain(ready::names());
            return Err(section.error_of(entry, problem).suggest(&entry.name, names));
        }
        if entry.levels.is_empty() {
            return Err(section.error_of(entry, "has no level"));
        }
        if parameter {
            check_levels(section, entry, tool)?;
        }
    }
    Ok(found)
}

/// All combinations of the levels. The last factor changes fastest.
fn combinations(factors: &[FreeLevels]) -> Vec<BTreeMap<String, String>> {
    let mut all = vec![BTreeMap::new()];
    for factor in factors {
        let with = |levels: &BTreeMap<String, String>, level: &String| {
            let mut levels = levels.clone();
            levels.insert(factor.name.clone(), level.clone());
            levels
        };
        all = all.iter().flat_map(|levels| factor.levels.iter().map(|level| with(levels, level))).collect();
    }
    all
}

fn read_tool<'t>(section: &Section, tools: &'t Toolbox) -> Result<&'t Tool, FileError> {
    let name = section.text("tool")?;
    tools.get(name).ok_or_else(|| {
        let problem =
            format!("{name:?} is not a tool; the tools are {}", tools.names().collect::<Vec<_>>().join(", "));
        section.error("tool", problem).suggest(name, tools.names())
    })
}

/// Reads the tool's variants. `default` is the tool without a variant.
fn read_variants(section: &Section, tool: &Tool) -> Result<Vec<Option<String>>, FileError> {
    let names = section.texts("variant")?;
    let known = || tool.variants.iter().map(|v| v.name.as_str()).chain(["default"]);
    let one = |name: &&str| match *name {
        "default" => Ok(None),
        name if tool.variant(name).is_some() => Ok(Some(name.to_owned())),
        name => {
            let problem = format!("{name:?} is not a variant of {}", tool.name);
            Err(section.error("variant", problem).suggest(name, known()))
        }
    };
    if names.is_empty() { Ok(vec![None]) } else { names.iter().map(one).collect() }
}

fn read_streams(section: &Section, tool: &Tool) -> Result<Vec<Streams>, FileError> {
    let mut levels = section.levels("streams", Streams::parse)?;
    if levels.is_empty() {
        levels.push(if tool.auto { Streams::Auto } else { Streams::Fixed(1) });
    }
    if levels.contains(&Streams::Auto) && !tool.auto {
        return Err(section
            .error("streams", format!("{} can't choose its streams, so \"auto\" isn't allowed", tool.name)));
    }
    if tool.parallel == Parallel::None && levels != [Streams::Fixed(1)] {
        return Err(section.error("streams", format!("{} has only one stream: write 1", tool.name)));
    }
    Ok(levels)
}

fn read_datasets(section: &Section, tool: &Tool, known: &Known) -> Result<Vec<Option<String>>, FileError> {
    if tool.takes_files() {
        let names = read_names(section, "dataset", known.datasets.iter().map(|d| d.name.as_str()))?;
        return Ok(names.into_iter().map(Some).collect());
    }
    match section.texts("dataset")?.is_empty() {
        true => Ok(vec![None]),
        false => Err(section.error("dataset", format!("{} moves no files", tool.name))),
    }
}

/// Reads a list of names of defined items, such as links. If only one item is defined, the list may be
/// missing.
fn read_names<'n>(
    section: &Section,
    key: &'static str,
    known: impl Iterator<Item = &'n str> + Clone,
) -> Result<Vec<String>, FileError> {
    let names = section.texts(key)?;
    if names.is_empty() {
        let mut all = known.clone();
        return match (all.next(), all.next()) {
            (Some(only), None) => Ok(vec![only.to_owned()]),
            _ => Err(section.missing(key)),
        };
    }
    let wrong = names.iter().find(|name| !known.clone().any(|k| k == **name));
    match wrong {
        Some(name) => {
            Err(section.error(key, format!("{name:?} is not a {key} of this study")).suggest(name, known))
        }
        None => Ok(names.into_iter().map(str::to_owned).collect()),
    }
}
