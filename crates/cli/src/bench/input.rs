//! Reads the arguments of `linerate bench`: tools, the study, hosts, and an interrupted study.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use linerate_bench::data::read_own_tree;
use linerate_bench::run::Hosts;
use linerate_bench::spec::nearest;
use linerate_bench::spec::study::Study;
use linerate_bench::spec::tool::Toolbox;
use linerate_bench::store::{self, Invocation};
use linerate_quantity::bytes;

use super::StudyArgs;
use crate::common::login::shell_words;

/// The arguments with which an interrupted study was started.
pub(super) fn resumed(args: &StudyArgs, dir: &Path) -> anyhow::Result<StudyArgs> {
    let (called, _) = store::invocation(dir)?;
    let record = store::load(dir)?.record;
    let study = dir.join("study.toml");
    Ok(StudyArgs {
        study: study.to_str().context("the directory's name isn't valid UTF-8")?.to_owned(),
        blocks: Some(record.blocks),
        seed: record.seed,
        size: called.size,
        tree: called.tree,
        quick: called.quick,
        tools: called.tools,
        hosts: called.hosts,
        rsh: called.rsh,
        address_b: called.address_b,
        resume: Some(dir.to_owned()),
        ..args.clone()
    })
}

/// Reads the tools, the study and the hosts that the arguments name. Nothing has been created yet, so every error of
/// this function counts as an error in the arguments.
pub(super) fn read_input(args: &StudyArgs) -> anyhow::Result<(Toolbox, Study)> {
    let tools = load_tools(&args.tools)?;
    let study = load_study(args, &tools)?;
    // With --hosts, the tree is on another host, and is checked there later.
    let tree = args.tree.as_deref().filter(|_| args.hosts.is_none());
    tree.map_or(Ok(()), |tree| read_own_tree(tree).map(drop))?;
    hosts(args)?;
    Ok((tools, study))
}

/// Parses a number of bytes to generate, which must not be 0.
pub(super) fn size(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        0 => Err("the size must be more than 0; write one such as \"1 GB\"".to_owned()),
        bytes => Ok(bytes),
    }
}

pub(super) fn load_tools(dirs: &[PathBuf]) -> anyhow::Result<Toolbox> {
    let mut tools = Toolbox::built_in()?;
    for dir in dirs {
        tools.add_directory(dir)?;
    }
    Ok(tools)
}

fn load_study(args: &StudyArgs, tools: &Toolbox) -> anyhow::Result<Study> {
    let name = &args.study;
    let mut study = match Study::built_in(name) {
        Some((file, text)) => Study::parse(file, text, tools)?,
        None => {
            let text = read_study(name).map_err(|error| unknown_study(name, &error))?;
            Study::parse(name, &text, tools)?
        }
    };
    if args.quick {
        study.apply_quick();
    }
    if let Some(size) = args.size {
        study.set_size(size);
    }
    Ok(study)
}

/// The largest size of a study file in bytes.
const LARGEST_STUDY: u64 = 1 << 20;

fn read_study(name: &str) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(name)?.take(LARGEST_STUDY + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST_STUDY {
        return Err(std::io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

fn unknown_study(name: &str, error: &std::io::Error) -> anyhow::Error {
    let names: Vec<&str> = Study::built_in_names().collect();
    let meant =
        nearest(name, names.iter().copied()).map_or(String::new(), |name| format!("; did you mean {name}?"));
    let names = names.join(", ");
    anyhow!("{name} is neither a built-in study ({names}) nor a study file that can be read ({error}){meant}")
}

/// The hosts that the arguments name; `None` for a lab.
pub(super) fn hosts(args: &StudyArgs) -> anyhow::Result<Option<Hosts>> {
    let Some(text) = &args.hosts else { return Ok(None) };
    let rsh = args.rsh.as_deref().unwrap_or("ssh");
    let words = shell_words(rsh).map_err(|why| anyhow!("--rsh {why}"))?;
    let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
    Hosts::parse(text, &words, args.address_b.as_deref()).map(Some).map_err(|reason| anyhow!(reason))
}

/// The arguments that are stored with the results. Their paths are absolute, so that the study can be continued from
/// any directory.
pub(super) fn invocation(args: &StudyArgs) -> anyhow::Result<Invocation> {
    let absolute =
        |path: &PathBuf| std::path::absolute(path).with_context(|| format!("finding {}", path.display()));
    Ok(Invocation {
        file: args.study.clone(),
        size: args.size,
        tree: args.tree.as_ref().map(absolute).transpose()?,
        quick: args.quick,
        tools: args.tools.iter().map(absolute).collect::<Result<_, _>>()?,
        hosts: args.hosts.clone(),
        rsh: args.rsh.clone(),
        address_b: args.address_b.clone(),
    })
}
