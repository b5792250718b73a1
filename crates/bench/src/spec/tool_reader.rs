//! Reads a tool file's tables.

use std::collections::BTreeMap;

use super::error::FileError;
use super::section::Section;
use super::template::Word;
use super::tool::{Form, Moves, Needs, Parallel, Reading, Server, Tool, Variant};

/// Reads the root table of a tool file.
pub(crate) fn tool(root: &Section) -> Result<Tool, FileError> {
    let name = root.text("name")?.to_owned();
    let label = root.maybe_text("label")?.unwrap_or(&name).to_owned();
    let cipher = root.maybe_parsed("cipher", cipher)?.flatten();
    let tool = Tool {
        group: root.maybe_text("group")?.unwrap_or(&name).to_owned(),
        moves: root.maybe_choice("moves", &MOVES)?.ok_or_else(|| root.missing("moves"))?,
        parallel: root.maybe_choice("parallel", &PARALLEL)?.unwrap_or(Parallel::None),
        auto: root.flag("auto")?,
        needs: root.section("needs", read_needs)?.unwrap_or_default(),
        version: words(root, "version")?,
        command: words(root, "command")?,
        server: root.section("server", read_server)?,
        result: root.section("result", read_result)?,
        environment: environment(root)?,
        variants: root.sections("variant", |section| read_variant(section, &label, cipher.as_ref()))?,
        parameters: BTreeMap::new(),
        name,
        label,
        cipher,
    };
    checked(tool, root)
}

fn checked(tool: Tool, root: &Section) -> Result<Tool, FileError> {
    let mentions = |name| tool.command.iter().any(|word| word.mentions(name));
    if tool.command.is_empty() {
        return Err(root.missing("command"));
    }
    if tool.parallel == Parallel::Streams && !mentions("streams") {
        return Err(
            root.error("command", "doesn't say where `{streams}` goes, though `parallel` is \"streams\"")
        );
    }
    if !tool.variants.is_empty() && !mentions("options") {
        return Err(root.error("command", "doesn't say where the variants' `{options}` go"));
    }
    if tool.moves == Moves::Files && !mentions("destination") {
        return Err(
            root.error("command", "doesn't say where `{destination}` goes, though `moves` is \"files\"")
        );
    }
    if tool.moves == Moves::Memory && tool.result.as_ref().is_none_or(|r| r.bytes.is_none()) {
        return Err(
            root.error("result", "needs `bytes`: nothing else tells how much went from memory to memory")
        );
    }
    if tool.moves == Moves::Requests && tool.result.as_ref().is_none_or(|r| r.transactions.is_none()) {
        return Err(root.error("result", "needs `transactions`: nothing else tells how many there were"));
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

const FORMS: [(&str, Form); 2] = [("json", Form::Document), ("last-line", Form::LastLine)];

/// A cipher's name; "none" says clear text in so many words.
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

fn read_server(section: &Section) -> Result<Server, FileError> {
    let command = words(section, "command")?;
    if command.is_empty() {
        return Err(section.missing("command"));
    }
    Ok(Server { command, ready: section.text("ready")?.to_owned() })
}

fn read_result(section: &Section) -> Result<Reading, FileError> {
    let pointer = |key| section.maybe_parsed(key, pointer);
    let peak_rss = section.texts("peak_rss")?.into_iter().map(self::pointer).collect::<Result<_, _>>();
    Ok(Reading {
        form: section.maybe_choice("read", &FORMS)?.ok_or_else(|| section.missing("read"))?,
        bytes: pointer("bytes")?,
        seconds: pointer("seconds")?,
        peak_rss: peak_rss.map_err(|problem| section.error("peak_rss", problem))?,
        limiter: pointer("limiter")?,
        streams: pointer("streams")?,
        encrypted: pointer("encrypted")?,
        transactions: pointer("transactions")?,
        latency: pointer("latency")?,
        connections: pointer("connections")?,
        score: pointer("score")?,
        notes: read_notes(section)?,
    })
}

fn read_notes(section: &Section) -> Result<Vec<(String, String)>, FileError> {
    let checked = |(name, text): (String, &str)| match pointer(text) {
        Ok(pointer) => Ok((name, pointer)),
        Err(problem) => Err(section.error("notes", format!("{name}: {problem}"))),
    };
    section.map("notes")?.into_iter().map(checked).collect()
}

fn pointer(text: &str) -> Result<String, String> {
    if text.starts_with('/') {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not a JSON pointer: \"/a/b\""))
    }
}

fn read_variant(section: &Section, label: &str, inherited: Option<&String>) -> Result<Variant, FileError> {
    let name = section.text("name")?.to_owned();
    let own = section.maybe_parsed("cipher", cipher)?;
    Ok(Variant {
        label: section.maybe_text("label")?.map_or_else(|| format!("{label}, {name}"), str::to_owned),
        cipher: own.unwrap_or_else(|| inherited.cloned()),
        options: words(section, "options")?,
        name,
    })
}

fn words(section: &Section, key: &'static str) -> Result<Vec<Word>, FileError> {
    section.levels(key, Word::parse)
}

fn environment(root: &Section) -> Result<Vec<(String, Word)>, FileError> {
    let pairs = root.map("environment")?;
    let read = |(name, text): (String, &str)| match Word::parse(text) {
        Ok(word) => Ok((name, word)),
        Err(problem) => Err(root.error("environment", format!("{name}: {problem}"))),
    };
    pairs.into_iter().map(read).collect()
}
