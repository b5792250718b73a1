//! Fuzzing with libFuzzer and the stable compiler. The flags are those of cargo-fuzz, except the sanitizer,
//! which needs a nightly compiler.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use crate::{call, cargo};

/// Compiler flags for coverage of edges and comparisons, in the decoders and in all code that they call.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Cllvm-args=-simplifycfg-branch-fold-threshold=0 \
    --cfg fuzzing -Ccodegen-units=1";

/// Runs a fuzz target. The arguments are those of `cargo xtask fuzz TARGET [--seconds N]`.
pub fn run(repository: &Path, arguments: &[String]) -> anyhow::Result<()> {
    let (target, seconds) = match arguments {
        [target] => (target, 600),
        [target, option, seconds] if option == "--seconds" => {
            (target, seconds.parse().context("the number of seconds")?)
        }
        _ => bail!("usage: cargo xtask fuzz TARGET [--seconds N]"),
    };
    let fuzz = repository.join("fuzz");
    if !fuzz.join("fuzz_targets").join(target).with_extension("rs").is_file() {
        bail!("there is no target '{target}': {}", targets(&fuzz)?.join(", "));
    }
    run_target(repository, &fuzz, target, seconds)
}

fn run_target(repository: &Path, fuzz: &Path, target: &str, seconds: u64) -> anyhow::Result<()> {
    // If the target is named explicitly, cargo doesn't use the flags for proc macros and build scripts.
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let built = repository.join("target/fuzz");
    let mut build = cargo();
    build.current_dir(fuzz).env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", &built);
    call(build.args(["build", "--release", "--locked", "--target", &triple, "--bin", target]))?;
    let (corpus, artifacts) = (fuzz.join("corpus").join(target), fuzz.join("artifacts").join(target));
    for directory in [&corpus, &artifacts] {
        fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    }
    let mut prefix = OsString::from("-artifact_prefix=");
    prefix.push(artifacts.join(""));
    let mut run = std::process::Command::new(built.join(triple).join("release").join(target));
    run.arg(corpus).arg(fuzz.join("seeds").join(target)).arg(prefix);
    // For a few kilobytes of input, no decoder may need much memory or time.
    run.args(["-rss_limit_mb=800", "-malloc_limit_mb=128", "-timeout=10", "-use_value_profile=1"]);
    call(run.arg("-max_len=16384").arg(format!("-max_total_time={seconds}")))
}

fn targets(fuzz: &Path) -> anyhow::Result<Vec<String>> {
    let files = fs::read_dir(fuzz.join("fuzz_targets")).context("looking for fuzz targets")?;
    let mut names: Vec<_> =
        files.flatten().filter_map(|file| Some(file.path().file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}
