//! The program `linerate-agent`: the agent, which is the part of linerate that is copied to far hosts. It is started as
//! `linerate-agent agent`.

use linerate_agent::{LocalHost, VERSION, serve_client};
use linerate_transfer::permit::Permit;
use linerate_wire::identity::STAMP;
use std::ffi::OsString;
use std::process::ExitCode;

const USAGE: &str = "linerate-agent: this is only the far end of linerate's commands, which start it as `linerate-agent agent`";

fn main() -> ExitCode {
    let is = |word: &str| std::env::args_os().skip(1).eq([OsString::from(word)]);
    if is("--version") {
        println!("linerate-agent {VERSION}");
        return ExitCode::SUCCESS;
    }
    if !is("agent") {
        eprintln!("{USAGE} {STAMP}");
        return ExitCode::from(2);
    }
    match serve_client(&LocalHost, Ok(Permit::all())) {
        Ok(()) => ExitCode::SUCCESS,
        // The reason isn't printed here, because this end's standard error is the client's terminal, where the client
        // prints the reason.
        Err(_) => ExitCode::FAILURE,
    }
}
