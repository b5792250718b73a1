//! Treatments of another host. linerate on that host makes the changes, and waits there for their confirmation.

use linerate_remote::binary::Binaries;
use linerate_remote::install::again_by;
use linerate_remote::place::Place;
use linerate_wire::path::printable;
use serde::de::DeserializeOwned;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Output, Stdio};

use super::{AppliedReport, PersistReport, PlanReport, TreatmentReport, UndoReport};
use crate::common::failure::Failure;
use crate::common::login::LoginOptions;
use crate::doctor::DoctorArgs;
use crate::doctor::far::bring;
use crate::exit::Code;
use crate::facts::HERE;

/// The changes that linerate would make on another host.
pub fn plan(args: &DoctorArgs, host: &OsStr) -> Result<PlanReport, Failure> {
    let wanted = &args.treatment;
    bring(host, &args.login)?;
    if let Some(file) = &wanted.from_plan {
        return super::here::read(file, host).map(|plan| PlanReport { host: name(host), ..plan });
    }
    let mut words = vec!["--apply".to_owned(), "--plan".into()];
    words.extend(args.target.map(|bits| format!("--target={bits}bit")));
    words.extend((!wanted.only.is_empty()).then(|| format!("--only={}", wanted.only.join(","))));
    words.extend(wanted.mtu.then(|| "--mtu".into()));
    for place in &args.at {
        let text = place.to_str().ok_or_else(|| {
            Failure::usage(format!("--at {}: the directory's name isn't UTF-8", place.display()))
        })?;
        words.push(format!("--at={text}"));
    }
    asked_plan(args, host, &words, None)
}

/// The part of a plan that linerate on another host would carry out there.
pub fn look(args: &DoctorArgs, host: &OsStr, mut plan: PlanReport) -> Result<PlanReport, Failure> {
    bring(host, &args.login)?;
    // The former values come from facts, which may format them differently from the settings. So the host must not
    // compare them.
    plan.steps.iter_mut().for_each(|step| step.before.clear());
    let plan = serde_json::to_vec(&plan).map_err(|error| Failure::failed(error.to_string()))?;
    let words = ["--apply".to_owned(), "--plan".into(), "--from-plan=-".into()];
    asked_plan(args, host, &words, Some(&plan))
}

/// Asks another host for a plan. Checks the plan, because its commands are shown to the user, who may run them.
fn asked_plan(
    args: &DoctorArgs,
    host: &OsStr,
    words: &[String],
    input: Option<&[u8]>,
) -> Result<PlanReport, Failure> {
    let plan: PlanReport = ask(args, host, &args.login, words, input)?;
    if plan.steps.iter().any(|step| !step.setting.is_sound()) {
        return Err(Failure("its plan names settings that no host has".into(), Code::FarEnd).at(host));
    }
    Ok(PlanReport { host: name(host), ..plan })
}

/// Applies exactly this plan on another host.
pub fn apply(
    args: &DoctorArgs,
    host: &OsStr,
    plan: &PlanReport,
    within: u64,
) -> Result<TreatmentReport, Failure> {
    let plan = PlanReport { host: HERE.into(), ..plan.clone() };
    let plan = serde_json::to_vec(&plan).map_err(|error| Failure::failed(error.to_string()))?;
    let within = format!("--confirm-within={within}");
    let words = ["--apply".to_owned(), "--yes".into(), "--from-plan=-".into(), within];
    let report: TreatmentReport = ask(args, host, &args.login, &words, Some(&plan))?;
    Ok(TreatmentReport { host: name(host), ..report })
}

/// Confirms a treatment of another host over a new connection. An existing connection that ssh shares wouldn't prove
/// that a new login is possible.
pub fn confirm(args: &DoctorArgs, host: &OsStr, id: &str) -> Result<Code, Failure> {
    let mut login = args.login.clone();
    if login.rsh.is_none() {
        login.option.insert(0, "ControlPath=none".into());
    }
    let mut words = vec![format!("--confirm={id}")];
    words.extend(args.treatment.force.then(|| "--force".into()));
    let output = run(args, host, &login, &words, None)?;
    let text = String::from_utf8_lossy(&output.stdout);
    // The text contains a command for that host itself. To run the command from this host, the user needs the options
    // that lead to that host.
    let (there, here) =
        (args.treatment.command("--undo", id), super::command(args, "--undo", id, &name(host)));
    output!("{}: {}", name(host), text.trim_end().replace(&there, &here));
    Ok(Code::Done)
}

/// Keeps a treatment of another host beyond restarts.
pub fn persist(args: &DoctorArgs, host: &OsStr, id: &str) -> Result<PersistReport, Failure> {
    bring(host, &args.login)?;
    let report: PersistReport = ask(args, host, &args.login, &[format!("--persist={id}")], None)?;
    Ok(PersistReport { host: name(host), ..report })
}

/// Undoes a treatment of another host.
pub fn undo(args: &DoctorArgs, host: &OsStr, id: &str) -> Result<UndoReport, Failure> {
    bring(host, &args.login)?;
    let mut words = vec![format!("--undo={id}")];
    words.extend(args.treatment.force.then(|| "--force".into()));
    let report: UndoReport = ask(args, host, &args.login, &words, None)?;
    Ok(UndoReport { host: name(host), ..report })
}

/// The treatments of another host.
pub fn applied(args: &DoctorArgs, host: &OsStr) -> Result<AppliedReport, Failure> {
    bring(host, &args.login)?;
    let report: AppliedReport = ask(args, host, &args.login, &["--applied".to_owned()], None)?;
    Ok(AppliedReport { host: name(host), ..report })
}

fn ask<T: DeserializeOwned>(
    args: &DoctorArgs,
    host: &OsStr,
    login: &LoginOptions,
    words: &[String],
    input: Option<&[u8]>,
) -> Result<T, Failure> {
    let words = [words, &["--json".to_owned()]].concat();
    let output = run(args, host, login, &words, input)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().next_back().unwrap_or_default();
    serde_json::from_str(last)
        .map_err(|_| Failure("its answer can't be understood".into(), Code::FarEnd).at(host))
}

/// Runs linerate on another host. That linerate prints its own errors, so the failure here only names the host.
fn run(
    args: &DoctorArgs,
    host: &OsStr,
    login: &LoginOptions,
    words: &[String],
    input: Option<&[u8]>,
) -> Result<Output, Failure> {
    let failed = |why: String| Failure(why, Code::FarEnd).at(host);
    let binaries = Binaries::installed()
        .map_err(|error| failed(format!("reading this program's own binary: {error}")))?;
    let far_end = login.far_end(host, true)?;
    let command = login.agent_command.clone().unwrap_or_default();
    let mut all: Vec<OsString> = vec!["doctor".into(), "--state".into(), args.treatment.state.clone().into()];
    let system = &args.treatment.system;
    if system != Path::new("/") {
        all.extend(["--system".into(), system.into()]);
    }
    all.extend(words.iter().map(OsString::from));
    let place = Place::Ssh { rsh: far_end.rsh, host: far_end.host };
    let mut command =
        place.command(&again_by(&binaries, &all, &command)).map_err(|error| failed(error.to_string()))?;
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
    let mut child = child.map_err(|error| failed(format!("running the remote shell: {error}")))?;
    if let (Some(input), Some(mut pipe)) = (input, child.stdin.take()) {
        // If linerate on that host doesn't read its input, its exit code shows the reason.
        let _ = pipe.write_all(input);
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    match output.status.code() {
        Some(0 | 3) => Ok(output),
        Some(1) => Err(Failure::failed("linerate on that host failed".into()).at(host)),
        Some(2) => Err(Failure::usage("linerate on that host doesn't accept this request".into()).at(host)),
        _ => Err(failed(format!("the remote shell ended with {}", output.status))),
    }
}

/// A host's name for people.
pub fn name(host: &OsStr) -> String {
    printable(host.as_bytes()).to_string()
}
