//! Reads a study file's tables and multiplies its cases' factors out.

use std::collections::{BTreeMap, BTreeSet};

use super::error::FileError;
use super::expression::Expression;
use super::quantity;
use super::section::Section;
use super::study::{BoundSpec, CaseSpec, DatasetSpec, LinkSpec, QuickSpec, Sizes, Streams, Study};
use super::tool::{Moves, Parallel, Tool, Toolbox};
use crate::record::Relation;

/// Reads the root table of a study file.
pub(crate) fn study(root: &Section, tools: &Toolbox) -> Result<Study, FileError> {
    let name = root.text("name")?.to_owned();
    let links = root.sections("link", read_link)?;
    let datasets = root.sections("dataset", read_dataset)?;
    unique(root, "link", links.iter().map(|l| l.name.as_str()))?;
    unique(root, "dataset", datasets.iter().map(|d| d.name.as_str()))?;
    let known = Known { tools, links: &links, datasets: &datasets };
    let cases = root.sections("case", |section| read_cases(section, &known))?.concat();
    unique(root, "case", cases.iter().map(|c| c.id.as_str()))?;
    if cases.is_empty() {
        return Err(root.missing("case"));
    }
    let ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    Ok(Study {
        title: root.text("title")?.to_owned(),
        about: root.maybe_text("about")?.unwrap_or_default().trim().to_owned(),
        blocks: root.maybe_count("blocks")?.map_or(5, |n| u32::try_from(n).unwrap_or(u32::MAX)),
        timeout: root.maybe_parsed("timeout", quantity::seconds)?.unwrap_or(120.0),
        settle: root.maybe_parsed("settle", quantity::seconds)?.unwrap_or(0.3),
        baseline: choose(root, "baseline", &ids)?,
        bounds: root.sections("bound", |section| read_bound(section, &ids))?,
        name,
        links,
        datasets,
        cases,
        rows: Vec::new(),
        figures: Vec::new(),
        printed: Vec::new(),
        settings: Vec::new(),
        quick: QuickSpec::default(),
        capacity: false,
        text: String::new(),
    })
}

fn read_link(section: &Section) -> Result<LinkSpec, FileError> {
    let name = section.text("name")?.to_owned();
    let mtu = section.maybe_count("mtu")?.unwrap_or(1500);
    let mtu = u32::try_from(mtu).ok().filter(|mtu| (576..=65_535).contains(mtu));
    Ok(LinkSpec {
        rate: section.parsed("rate", quantity::bit_rate)?,
        mtu: mtu.ok_or_else(|| section.error("mtu", "is not from 576 to 65535"))?,
        name,
        count: 1,
        queues: None,
        guests: 0,
    })
}

fn read_dataset(section: &Section) -> Result<DatasetSpec, FileError> {
    let name = section.text("name")?.to_owned();
    if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
        return Err(
            section.error("name", "becomes a directory: it can't be empty, hold a slash or begin with a dot")
        );
    }
    let kinds = [("log-normal", true), ("fixed", false)];
    let log_normal = section.maybe_choice("kind", &kinds)?.ok_or_else(|| section.missing("kind"))?;
    let sizes = if log_normal { read_log_normal(section)? } else { read_fixed(section)? };
    Ok(DatasetSpec { name, sizes, per_directory: section.maybe_count("per_directory")?.unwrap_or(100) })
}

fn read_log_normal(section: &Section) -> Result<Sizes, FileError> {
    let mean = section.parsed("mean", quantity::bytes)?;
    let sigma = section.maybe_number("sigma")?.unwrap_or(DEFAULT_SIGMA);
    if mean == 0 || sigma > 4.0 {
        return Err(section.error("mean", "must not be 0, and `sigma` no more than 4"));
    }
    Ok(Sizes::LogNormal { total: section.parsed("size", quantity::bytes)?, mean, sigma })
}

/// The standard deviation of the logarithm of file sizes below /usr of a Debian 12 server is 1.7, of its /usr/lib and
/// /usr/bin 1.8 and 1.9.
const DEFAULT_SIGMA: f64 = 1.8;

fn read_fixed(section: &Section) -> Result<Sizes, FileError> {
    let files = section.maybe_count("files")?.ok_or_else(|| section.missing("files"))?;
    Ok(Sizes::Fixed { files, size: section.parsed("each", quantity::bytes)? })
}

/// What a case may name.
struct Known<'a> {
    tools: &'a Toolbox,
    links: &'a [LinkSpec],
    datasets: &'a [DatasetSpec],
}

/// One `[[case]]` is as many cases as its factors' levels multiply to.
fn read_cases(section: &Section, known: &Known) -> Result<Vec<CaseSpec>, FileError> {
    let tool = read_tool(section, known.tools)?;
    let variants = read_variants(section, tool)?;
    let streams = read_streams(section, tool)?;
    let links = read_names(section, "link", known.links.iter().map(|l| l.name.as_str()))?;
    let datasets = read_datasets(section, tool, known)?;
    let bytes = section.maybe_parsed("bytes", quantity::bytes)?;
    let id = section.text("id")?;
    let label = section.maybe_text("label")?;
    let group = section.maybe_text("group")?.unwrap_or(&tool.group);
    let mut cases = Vec::new();
    for link in &links {
        for dataset in &datasets {
            for variant in &variants {
                for &streams in &streams {
                    let level =
                        Level { variant: variant.as_deref(), streams, dataset: dataset.as_deref(), link };
                    let own =
                        variant.as_deref().and_then(|name| tool.variant(name)).map(|v| v.label.as_str());
                    cases.push(CaseSpec {
                        id: level.fill(id),
                        label: level.fill(label.or(own).unwrap_or(&tool.label)),
                        group: group.to_owned(),
                        tool: tool.name.clone(),
                        variant: variant.clone(),
                        streams,
                        dataset: dataset.clone(),
                        bytes,
                        link: link.clone(),
                        parameters: BTreeMap::new(),
                        settings: BTreeMap::new(),
                    });
                }
            }
        }
    }
    Ok(cases)
}

/// One combination of a case's factors.
struct Level<'a> {
    variant: Option<&'a str>,
    streams: Streams,
    dataset: Option<&'a str>,
    link: &'a str,
}

impl Level<'_> {
    fn fill(&self, text: &str) -> String {
        text.replace("{streams}", &self.streams.to_string())
            .replace("{variant}", self.variant.unwrap_or("default"))
            .replace("{dataset}", self.dataset.unwrap_or("memory"))
            .replace("{link}", self.link)
    }
}

fn read_tool<'t>(section: &Section, tools: &'t Toolbox) -> Result<&'t Tool, FileError> {
    let name = section.text("tool")?;
    tools.get(name).ok_or_else(|| {
        let problem =
            format!("{name:?} is not a tool; known are {}", tools.names().collect::<Vec<_>>().join(", "));
        section.error("tool", problem).suggest(name, tools.names())
    })
}

/// Levels of the tool's variants; `default` is the tool as it is.
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
        return Err(
            section.error("streams", format!("{} doesn't choose its streams itself: no \"auto\"", tool.name))
        );
    }
    if tool.parallel == Parallel::None && levels != [Streams::Fixed(1)] {
        return Err(section.error("streams", format!("{} does one thing at a time: only 1", tool.name)));
    }
    Ok(levels)
}

fn read_datasets(section: &Section, tool: &Tool, known: &Known) -> Result<Vec<Option<String>>, FileError> {
    if tool.moves == Moves::Files {
        let names = read_names(section, "dataset", known.datasets.iter().map(|d| d.name.as_str()))?;
        return Ok(names.into_iter().map(Some).collect());
    }
    match section.texts("dataset")?.is_empty() {
        true => Ok(vec![None]),
        false => Err(section.error("dataset", format!("{} moves no files", tool.name))),
    }
}

/// Levels that must be names of something; where there is one such thing only, it needn't be named.
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

fn read_bound(section: &Section, cases: &[&str]) -> Result<BoundSpec, FileError> {
    let text = section.text("expression")?;
    let expression = Expression::parse(text, cases).map_err(|error| {
        let mut file_error = section.error("expression", error.problem);
        file_error.meant = error.meant;
        file_error
    })?;
    let (relation, limit) = match (section.maybe_number("at_least")?, section.maybe_number("at_most")?) {
        (Some(limit), None) => (Relation::AtLeast, limit),
        (None, Some(limit)) => (Relation::AtMost, limit),
        (None, None) => return Err(section.missing("at_least")),
        (Some(_), Some(_)) => return Err(section.error("at_most", "stands beside `at_least`: one of them")),
    };
    Ok(BoundSpec {
        name: section.text("name")?.to_owned(),
        text: text.to_owned(),
        expression,
        relation,
        limit,
        unit: section.maybe_text("unit")?.unwrap_or("ratio").to_owned(),
        every_block: section.flag("every_block")?,
    })
}

fn choose(root: &Section, key: &'static str, ids: &[&str]) -> Result<Option<String>, FileError> {
    let Some(name) = root.maybe_text(key)? else { return Ok(None) };
    if ids.contains(&name) {
        return Ok(Some(name.to_owned()));
    }
    Err(root.error(key, format!("{name:?} is not a case")).suggest(name, ids.iter().copied()))
}

fn unique<'n>(
    root: &Section,
    key: &'static str,
    names: impl Iterator<Item = &'n str>,
) -> Result<(), FileError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(root.error(key, format!("{name:?} stands there twice")));
        }
    }
    Ok(())
}
