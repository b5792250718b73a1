//! Prepares this host for a study: installs packages, and handles signals.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::{anyhow, bail};
use linerate_bench::run::{HostBed, PathCheck, Stop, install, install_at, missing_packages};
use linerate_bench::spec::study::Study;
use linerate_bench::spec::tool::Toolbox;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::StudyArgs;
use crate::common::signals::{SAME_REQUEST, ending_signals};

/// Installs missing packages if the user requests that; otherwise prints their names. It is an error if packages that a
/// lab needs stay missing.
pub(super) fn provide_packages(args: &StudyArgs, study: &Study, tools: &Toolbox) -> anyhow::Result<()> {
    let (needed, wanted) = missing_packages(study, tools);
    let all = [needed.as_slice(), wanted.as_slice()].concat();
    if all.is_empty() {
        return Ok(());
    }
    if args.install {
        message!("linerate: installing from the distribution: {}", all.join(" "));
        if all.iter().any(|package| package == "openssh-server") {
            message!(
                "linerate: the package openssh-server may start an ssh server on this host; the lab needs none, because it starts its own"
            );
        }
        return Ok(install(&all)?);
    }
    let advice = format!("as root: apt-get install {} (or run again with --install)", all.join(" "));
    if !needed.is_empty() {
        bail!("a lab needs packages that are missing: {}; {advice}", needed.join(" "));
    }
    message!(
        "linerate: some rows will be empty, because packages are missing: {}; {advice}",
        wanted.join(" ")
    );
    Ok(())
}

/// If the user requests that, installs the packages that the two hosts lack. Then tests the path between the hosts.
pub(super) fn provide_path(
    args: &StudyArgs,
    study: &Study,
    tools: &Toolbox,
    bed: &HostBed,
    work: &Path,
    stop: &Stop,
) -> anyhow::Result<()> {
    let failed = |reason: String| anyhow!(reason);
    if args.install {
        install_at(bed, study, tools, &|text| message!("linerate: {text}")).map_err(failed)?;
    }
    PathCheck { bed, study, tools, work, stop }.run().map_err(failed)
}

/// Handles signals. The first signal ends the study after its current run. A signal that comes more than
/// [`SAME_REQUEST`] after the first one ends the process.
pub(super) fn stop_on_signals() -> anyhow::Result<Stop> {
    let stop = Stop::default();
    let mut signals = Signals::new(ending_signals())?;
    let seen = Arc::clone(&stop);
    let watch = move || {
        let mut first = None;
        for signal in signals.forever() {
            seen.store(true, Ordering::Relaxed);
            if first.get_or_insert_with(Instant::now).elapsed() > SAME_REQUEST {
                // This call fails only for signals without a default action, and these signals have a default action.
                let _ = emulate_default_handler(signal);
            }
        }
    };
    std::thread::Builder::new().name("signals".into()).spawn(watch)?;
    Ok(stop)
}
