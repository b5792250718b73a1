//! Reads a tool file's tables.

use std::collections::BTreeMap;

use regex_lite::Regex;

use super::error::FileError;
use super::search::read_search;
use super::section::{FreeLevels, Section};
use super::study_reader::link_rate;
use super::template::{Names, Word};
use super::tool::{Form, Moves, Needs, Parallel, Reading, Server, Tool, Variant};

/// Reads the root table of a tool file.
pub(crate) fn tool(root: &Section) -> Result<Tool, FileError> {
    let name = root.text("name")?.to_owned();
    if name.is_empty() {
        return Err(root.error("name", "is empty"));
    }
    let label = root.maybe_text("label")?.unwrap_or(&name).to_owned();
    let cipher = root.maybe_parsed("cipher", cipher)?.flatten();
    let parameters = root.free_values("parameters")?;
    let names = Names::of_tool(parameters.iter().map(|entry| entry.name.as_str()));
    let variant = |section: &Section| read_variant(section, &label, cipher.as_ref(), &names);
    let tool = Tool {
        group: root.maybe_text("group")?.unwrap_or(&name).to_owned(),
        moves: root.maybe_choice("moves", &MOVES)?.ok_or_else(|| root.missing("moves"))?,
        parallel: root.maybe_choice("parallel", &PARALLEL)?.unwrap_or(Parallel::None),
        auto: root.flag("auto")?,
        needs: root.section("needs", read_needs)?.unwrap_or_default(),
        version: words(root, "version", &names)?,
        command: words(root, "command", &names)?,
        server: root.section("server", |section| read_server(section, &names))?,
        result: root.section("result", read_result)?,
        environment: environment(root, &names)?,
        variants: root.sections("variant", variant)?,
        search: root.section("search", |section| read_search(section, &parameters, &names))?,
        parameters: read_parameters(root, &parameters)?,
        pace: root.maybe_parsed("pace", link_rate)?.flatten(),
        name,
        label,
        cipher,
    };
    check_parameters(&tool, root, &parameters)?;
    checked(tool, root)
}

/// Reads the parameters and their defaults. A parameter can't have a name that has another meaning in a study
/// or a command.
fn read_parameters(root: &Section, found: &[FreeLevels]) -> Result<BTreeMap<String, String>, FileError> {
    for entry in found {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        if !entry.name.starts_with(|c: char| c.is_ascii_lowercase()) || !entry.name.chars().all(plain) {
            return Err(root.error_of(entry, "is not a name: small letters, digits, `_` and `-`"));
        }
        if Names::is_taken(&entry.name) || FACTORS.contains(&entry.name.as_str()) {
            return Err(root.error_of(entry, "has a meaning already; take another name"));
        }
    }
    Ok(found.iter().map(|entry| (entry.name.clone(), entry.levels.concat())).collect())
}

/// The factors that every case has.
pub(crate) const FACTORS: [&str; 17] = [
    "tool", "streams", "variant", "dataset", "link", "links", "queues", "guests", "nic", "vcpus", "rss",
    "offload", "vhost", "pinned", "rtt", "loss", "beside",
];

fn check_parameters(tool: &Tool, root: &Section, found: &[FreeLevels]) -> Result<(), FileError> {
    let server = tool.server.iter().flat_map(|server| &server.command);
    let options = tool.variants.iter().flat_map(|variant| &variant.options);
    let environment = tool.environment.iter().map(|(_, word)| word);
    let search = tool.search.iter().flat_map(|search| &search.command);
    let words: Vec<&Word> =
        tool.command.iter().chain(server).chain(options).chain(environment).chain(search).collect();
    let unused = found.iter().find(|entry| !words.iter().any(|word| word.mentions(&entry.name)));
    match unused {
        Some(entry) => Err(root.error_of(entry, format!("isn't used in any command: `{{{}}}`", entry.name))),
        None => Ok(()),
    }
}

fn checked(tool: Tool, root: &Section) -> Result<Tool, FileError> {
    let mentions = |name| tool.command.iter().any(|word| word.mentions(name));
    let serves = |name| tool.server.iter().flat_map(|server| &server.command).any(|word| word.mentions(name));
    if tool.command.is_empty() {
        return Err(root.missing("command"));
    }
    if tool.parallel == Parallel::Streams && !mentions("streams") {
        return Err(root.error("command", "doesn't contain `{streams}`, although `parallel` is \"streams\""));
    }
    if !tool.variants.is_empty() && !mentions("options") {
        return Err(root.error("command", "doesn't contain `{options}`, which the variants need"));
    }
    if tool.moves == Moves::Files && !mentions("destination") && !serves("destination") {
        return Err(root.error("command", "doesn't contain `{destination}`, although `moves` is \"files\""));
    }
    if let Some(search) = &tool.search {
        if tool.parallel == Parallel::Copies {
            return Err(
                root.error("search", "can't be combined with several copies: `parallel` is \"copies\"")
            );
        }
        if serves(&search.parameter) {
            let problem = format!(
                "is for `{{{}}}`, but the server is started with this parameter before the search",
                search.parameter
            );
            return Err(root.error("search", problem));
        }
    }
    if tool.moves == Moves::Memory && tool.result.as_ref().is_none_or(|r| !r.numbers.contains_key("bytes")) {
        return Err(root
            .error("result", "needs `bytes`: no other value gives the amount moved from memory to memory"));
    }
    if tool.moves == Moves::Requests
        && tool.result.as_ref().is_none_or(|r| !r.numbers.contains_key("transactions"))
    {
        return Err(root.error("result", "needs `transactions`: no other value gives their number"));
    }
    Ok(tool)
}

const MOVES: [(&str, Moves); 4] = [
    ("files", Moves::Files),
    ("memory", Moves::Memory),
    ("requests", Moves::Requests),
    ("nothing", Moves::Nothing),
];

const PARALLEL: [(&str, Parallel); 3] =
    [("streams", Parallel::Streams), ("copies", Parallel::Copies), ("none", Parallel::None)];

pub(crate) const FORMS: [(&str, Form); 3] =
    [("json", Form::Document), ("last-line", Form::LastLine), ("pattern", Form::Pattern)];

/// Parses a cipher's name; "none" means clear text.
fn cipher(text: &str) -> Result<Option<String>, String> {
    match text {
        "" => Err("is empty; write \"none\" for clear text".into()),
        "none" => Ok(None),
        name => Ok(Some(name.to_owned())),
    }
}

fn read_needs(section: &Section) -> Result<Needs, FileError> {
    let list = |key| Ok(section.texts(key)?.into_iter().map(str::to_owned).collect());
    Ok(Needs {
        a: list("a")?,
        b: list("b")?,
        packages: list("packages")?,
        advice: section.maybe_text("advice")?.map(str::to_owned),
    })
}

fn read_server(section: &Section, names: &Names) -> Result<Server, FileError> {
    let command = words(section, "command", names)?;
    if command.is_empty() {
        return Err(section.missing("command"));
    }
    Ok(Server { command, ready: section.text("ready")?.to_owned() })
}

fn read_result(section: &Section) -> Result<Reading, FileError> {
    let form = section.maybe_choice("read", &FORMS)?.ok_or_else(|| section.missing("read"))?;
    let place = |key| section.maybe_parsed(key, |text| place(form, text));
    let peak_rss = section.texts("peak_rss")?.into_iter().map(|text| self::place(form, text));
    let peak_rss = peak_rss.collect::<Result<_, _>>();
    let numbers = NUMBERS.into_iter().filter_map(|key| Some((key, place(key).transpose()?)));
    let reading = Reading {
        form,
        numbers: numbers.map(|(key, place)| Ok((key, place?))).collect::<Result<_, FileError>>()?,
        peak_rss: peak_rss.map_err(|problem| section.error("peak_rss", problem))?,
        limiter: place("limiter")?,
        streams: place("streams")?,
        encrypted: place("encrypted")?,
        latency: place("latency")?,
        connections: place("connections")?,
        window: place("window")?,
        scale: read_scale(section)?,
        notes: read_notes(section, form)?,
    };
    let has = |key| reading.numbers.contains_key(key);
    if has("rate") && (!has("bytes") || has("seconds")) {
        return Err(section.error("rate", "needs `bytes`, and can't be combined with `seconds`"));
    }
    match structured(&reading).filter(|_| form == Form::Pattern) {
        Some(key) => Err(section.error(key, "can't be read by a pattern, only from JSON")),
        None => Ok(reading),
    }
}

/// The first key in use that needs JSON output, and so can't be read with a pattern.
fn structured(reading: &Reading) -> Option<&'static str> {
    let keys = [
        ("latency", &reading.latency),
        ("connections", &reading.connections),
        ("window", &reading.window),
        ("encrypted", &reading.encrypted),
    ];
    keys.into_iter().find(|(_, place)| place.is_some()).map(|(key, _)| key)
}

/// Reads the factors that convert the tool's units to ours.
fn read_scale(section: &Section) -> Result<BTreeMap<String, f64>, FileError> {
    let one = |entry: FreeLevels| {
        let scaled = || NUMBERS.into_iter().chain(["peak_rss"]);
        if !scaled().any(|key| key == entry.name) {
            let problem = format!("{:?} is not a number that can be scaled", entry.name);
            return Err(section.error_of(&entry, problem).suggest(&entry.name, scaled()));
        }
        let factor: Option<f64> = entry.levels.concat().replace('_', "").parse().ok();
        match factor.filter(|factor| factor.is_finite() && *factor > 0.0) {
            Some(factor) => Ok((entry.name, factor)),
            None => Err(section.error_of(&entry, "is not a number above 0")),
        }
    };
    section.free_values("scale")?.into_iter().map(one).collect()
}

/// The keys of the numbers that a tool may report. `bytes` is the payload, and `bytes_back` the part of it that moved
/// in the reverse direction. `seconds` is the time for the payload; if a tool rounds its time, `rate`, in bit/s, is
/// used to compute the time. `transactions` is the number of transactions, and `score` the tool's own score.
const NUMBERS: [&str; 6] = ["bytes", "bytes_back", "seconds", "rate", "transactions", "score"];

fn read_notes(section: &Section, form: Form) -> Result<Vec<(String, String)>, FileError> {
    let checked = |(name, text): (String, &str)| match place(form, text) {
        Ok(place) => Ok((name, place)),
        Err(problem) => Err(section.error("notes", format!("{name}: {problem}"))),
    };
    section.map("notes")?.into_iter().map(checked).collect()
}

/// Checks the place of a value: a JSON pointer, or a pattern with one group.
pub(crate) fn place(form: Form, text: &str) -> Result<String, String> {
    match form {
        Form::Pattern => {
            let pattern =
                Regex::new(text).map_err(|e| format!("{text:?} is not a regular expression: {e}"))?;
            match pattern.captures_len() {
                2 => Ok(text.to_owned()),
                n => Err(format!("{text:?} has {} groups, and needs one: `bytes=([0-9]+)`", n - 1)),
            }
        }
        Form::Document | Form::LastLine if text.starts_with('/') => Ok(text.to_owned()),
        Form::Document | Form::LastLine => Err(format!("{text:?} is not a JSON pointer: \"/a/b\"")),
    }
}

fn read_variant(
    section: &Section,
    label: &str,
    inherited: Option<&String>,
    names: &Names,
) -> Result<Variant, FileError> {
    let name = section.text("name")?.to_owned();
    let own = section.maybe_parsed("cipher", cipher)?;
    Ok(Variant {
        label: section.maybe_text("label")?.map_or_else(|| format!("{label}, {name}"), str::to_owned),
        cipher: own.unwrap_or_else(|| inherited.cloned()),
        options: words(section, "options", names)?,
        name,
    })
}

pub(crate) fn words(section: &Section, key: &'static str, names: &Names) -> Result<Vec<Word>, FileError> {
    section.levels(key, |text| Word::parse_with(text, names))
}

fn environment(root: &Section, names: &Names) -> Result<Vec<(String, Word)>, FileError> {
    let pairs = root.map("environment")?;
    let read = |(name, text): (String, &str)| match Word::parse_with(text, names) {
        Ok(word) => Ok((name, word)),
        Err(problem) => Err(root.error("environment", format!("{name}: {problem}"))),
    };
    pairs.into_iter().map(read).collect()
}
