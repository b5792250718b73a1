//! A path between two other hosts. linerate on the first host measures the path.

use linerate_doctor::PathMeasurements;
use linerate_doctor::limiter::Limiter;
use linerate_host::Fact;
use linerate_host::facts::TakenRoute;
use linerate_remote::binary::Binaries;
use linerate_remote::install::again;
use linerate_remote::place::Place;
use linerate_wire::path::printable;
use serde::Deserialize;
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use crate::common::failure::Failure;
use crate::common::login::{LoginOptions, not_started};
use crate::common::signals::interrupted;

/// Runs the doctor on the host `from`. Returns its measurements of the path to `to`, and the routes of both hosts. The
/// doctor on `from` logs in to `to` by this name, as a user on `from` would.
///
/// # Errors
/// If the doctor can't run on `from` or can't measure: the reason, as the end of a sentence.
pub fn measure(
    from: &OsStr,
    to: &OsStr,
    login: &LoginOptions,
) -> Result<(PathMeasurements, [Fact<TakenRoute>; 2]), String> {
    bring(from, login).map_err(|Failure(message, _)| message)?;
    let binaries =
        Binaries::installed().map_err(|error| format!("reading this program's own binary: {error}"))?;
    let far_end = login.far_end(from, true).map_err(|Failure(message, _)| message)?;
    let place = Place::Ssh { rsh: far_end.rsh, host: far_end.host };
    let mut command =
        place.command(&again(&binaries, &words(to, login))).map_err(|error| error.to_string())?;
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("running the remote shell: {error}"))?;
    if !output.status.success() {
        return Err(format!("the doctor there ended with {}", output.status));
    }
    let reported = String::from_utf8_lossy(&output.stdout);
    let measured = of(&reported).ok_or("its answer can't be understood")?;
    Ok((measured, [0, 1].map(|end| route(&reported, end))))
}

/// Copies this whole program, not only the agent, to a host that lacks it.
///
/// # Errors
/// If linerate can't be started on that host.
pub fn bring(host: &OsStr, login: &LoginOptions) -> Result<(), Failure> {
    let interrupted = interrupted()?;
    let far_end = login.far_end(host, false)?.with_program();
    let started = far_end.start(&|note| message!("linerate: {note}"), &interrupted);
    started.map(drop).map_err(|error| not_started(&error, &interrupted).at(host))
}

/// The command that a user can run on the host `from`, if linerate on this host can't run the command there.
pub fn advice(from: &OsStr, to: &OsStr) -> String {
    let name = |host: &OsStr| printable(host.as_bytes());
    format!("run this on {}: linerate doctor --path local {}", name(from), name(to))
}

/// The arguments of the doctor on the first host. ssh's options apply only to logins from this host, so the arguments
/// don't contain them; a remote shell from `--rsh` is also used on the first host. With `--no-config`, no configuration
/// file of the first host changes the request.
fn words(to: &OsStr, login: &LoginOptions) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["doctor", "--json", "--no-config"].map(OsString::from).into();
    words.extend(login.rsh.iter().flat_map(|rsh| ["--rsh".into(), OsString::from(rsh)]));
    words.extend(login.no_install.then(|| "--no-install".into()));
    words.extend(["--path".into(), super::HERE.into(), to.to_owned()]);
    words
}

/// The route of one end of the path, from the last line of the output of the doctor on the first host. `end` 0 is the
/// first host itself.
fn route(text: &str, end: usize) -> Fact<TakenRoute> {
    let reported: Option<Value> = text.lines().next_back().and_then(|line| serde_json::from_str(line).ok());
    let route = reported.as_ref().and_then(|reported| reported.get("hosts")?.get(end)?.get("route"));
    let route = route.and_then(|route| TakenRoute::deserialize(route).ok()).map(TakenRoute::plain);
    route.map_or(Fact::NotApplicable, Fact::Known)
}

/// The measurements, from the last line of the output of the doctor on the first host.
fn of(text: &str) -> Option<PathMeasurements> {
    let reported: Value = serde_json::from_str(text.lines().next_back()?).ok()?;
    let measured = reported.get("measured")?;
    let number = |name: &str| measured.get(name)?.as_f64().filter(|value| value.is_finite() && *value >= 0.0);
    let count = |name: &str| measured.get(name)?.as_u64();
    let limiter = measured.get("limiter").and_then(Value::as_str);
    Some(PathMeasurements {
        rtt: number("rtt"),
        mtu: count("mtu").and_then(|bytes| bytes.try_into().ok()),
        black_hole: count("black_hole").and_then(|bytes| bytes.try_into().ok()),
        rate: number("rate"),
        streams: count("streams").and_then(|count| count.try_into().ok()),
        retransmitted: count("retransmitted"),
        sent: count("sent"),
        limiter: limiter
            .and_then(|name| Limiter::ALL.iter().map(|of| of.name()).find(|known| *known == name)),
        window: count("window"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_as_far_as_it_makes_sense() {
        let line = r#"{"type":"doctor","measured":{"rtt":0.01,"rate":1e9,"streams":4,"sent":10,"retransmitted":null,"limiter":"window","window":690560}}"#;
        let measured = of(&format!("welcome\n{line}\n")).unwrap();
        assert_eq!((measured.rtt, measured.rate, measured.streams), (Some(0.01), Some(1e9), Some(4)));
        assert_eq!(
            (measured.sent, measured.retransmitted, measured.limiter),
            (Some(10), None, Some("window"))
        );
        assert_eq!(measured.window, Some(690_560));
        let odd = of(
            r#"{"measured":{"rtt":-1,"window":-1,"rate":"x","streams":4294967296,"limiter":"\u001b[2J"}}"#,
        )
        .unwrap();
        assert_eq!(odd, PathMeasurements::default());
        let with = |route: &str| format!("x\n{{\"hosts\":[{{}},{{\"route\":{route}}}]}}\n");
        let reported = route(&with(r#"{"ports":["eth1","$(id)"],"table":100,"later":1}"#), 1);
        let Fact::Known(reported) = reported else { panic!("{reported:?}") };
        assert_eq!((reported.ports, reported.table), (vec!["eth1".to_owned()], Some(100)));
        assert_eq!(route(&with(r#"{"ports":7}"#), 1), Fact::NotApplicable);
        assert_eq!(route(&with("{}"), 0), Fact::NotApplicable, "an older program");
        assert!(of("").is_none() && of("hello").is_none() && of("{}").is_none());
    }
}
