//! `linerate fleet manifest`: prints the hashes of all files that a plan's tasks have copied, in one list.

use clap::Args;
use linerate_fleet::manifest::{hashes, line};
use linerate_fleet::plan::PlanDirectory;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use crate::common::failure::Failure;
use crate::exit::Code;
use crate::print::note_loss;
use crate::units::show_counted;

/// Arguments of `linerate fleet manifest`.
#[derive(Debug, Args)]
pub struct ManifestArgs {
    /// The directory of a plan that was made with --manifest
    plan: PathBuf,
}

/// Prints the manifest.
pub fn run(args: &ManifestArgs) -> Result<Code, Failure> {
    let directory = PlanDirectory::open(&args.plan)?;
    let (hashes, missing) = hashes(&directory)?;
    if hashes.is_empty() && !directory.plan.manifest {
        return Err(Failure::usage(
            "the plan was made without --manifest, so its tasks write no hashes".into(),
        ));
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut lines = hashes.iter().map(|(path, hash)| line(path, hash));
    // Names are printed as raw bytes, because b3sum reads them.
    let written = lines.try_for_each(|line| out.write_all(&line).and_then(|()| out.write_all(b"\n")));
    note_loss(written.and_then(|()| out.flush()));
    if missing == 0 {
        return Ok(Code::Done);
    }
    message!(
        "linerate: {}: not copied yet, or copied by a plan without --manifest; 'b3sum {}/FILE' computes a hash at the destination",
        show_counted(missing, "file has no hash", "files have no hash"),
        directory.plan.destination
    );
    Ok(Code::Partial)
}
