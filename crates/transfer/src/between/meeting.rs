//! How two agents get their data connections. First the sender dials; if that fails, the receiver dials; if that fails
//! too, the client forwards the bytes.

use linerate_wire::control::{AskedSources, Listening, Options};
use linerate_wire::path::printable;

use super::addresses::handed_on;
use super::{FarError, FarRole};
use crate::base::problem::{Observer, TransferError};
use crate::net::session::{Session, new_cookie};
use crate::tree::filter::FilesFrom;

/// How the data gets from the sending to the receiving agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataWay {
    /// The sender has connected to the receiver.
    SenderDials,
    /// The receiver has connected to the sender.
    ReceiverDials,
    /// Through the two logins and the client, which can't decrypt the data.
    Through,
}

/// Introduces the two agents to each other, with the keys that each has made for this transfer, and sends both the list
/// of paths in `listed`.
///
/// # Errors
/// If either agent is gone.
pub fn introduce(
    sender: &mut Session,
    receiver: &mut Session,
    asked: AskedSources,
    listed: Option<&FilesFrom>,
) -> Result<(), FarError> {
    let cookie = new_cookie().map_err(of(FarRole::Sender))?;
    sender.name_partner(receiver, cookie, None).map_err(of(FarRole::Sender))?;
    receiver.name_partner(sender, cookie, Some(asked)).map_err(of(FarRole::Receiver))?;
    if let Some(listed) = listed {
        sender.send_selection(listed.listed()).map_err(of(FarRole::Sender))?;
        receiver.send_selection(listed.listed()).map_err(of(FarRole::Receiver))?;
    }
    Ok(())
}

/// Makes the two agents connect. Each step that fails is reported through `observer`, with the names in `hosts`.
///
/// # Errors
/// If either agent gives up or is lost.
pub fn meet(
    (sender, receiver): (&mut Session, &mut Session),
    options: &Options,
    (from, to): (&str, &str),
    observer: &dyn Observer,
) -> Result<DataWay, FarError> {
    let of_sender = sender.hear_listening().map_err(of(FarRole::Sender))?;
    let of_receiver = receiver.hear_listening().map_err(of(FarRole::Receiver))?;
    let dials = |session: &mut Session, there: &Listening, here: &Listening| {
        dial(session, there, here, options.ports)
    };
    let Some(why) = dials(sender, &of_receiver, &of_sender).map_err(of(FarRole::Sender))? else {
        return Ok(DataWay::SenderDials);
    };
    observer.note(&format!("{from} can't connect to {to}: {why}; now {to} tries to connect to {from}"));
    let Some(back) = dials(receiver, &of_sender, &of_receiver).map_err(of(FarRole::Receiver))? else {
        return Ok(DataWay::ReceiverDials);
    };
    observer.note(&format!(
        "warning: {to} can't connect to {from}: {back}; the data goes through this host on one stream, encrypted from end to end, which will be slow: open {} from one of the two hosts to the other",
        ports(options.ports)
    ));
    // The receiver must know about the tunnel before the sender, because the sender is the first to send in it.
    receiver.have_tunnel().map_err(of(FarRole::Receiver))?;
    sender.have_tunnel().map_err(of(FarRole::Sender))?;
    Ok(DataWay::Through)
}

/// Makes the two agents connect as [`meet`] does, for messages that don't pass through the client. The receiver tries
/// first; if it doesn't reach the sender, the sender tries.
///
/// # Errors
/// If neither agent reaches the other, or either gives up or is lost.
pub fn meet_alone(
    (sender, receiver): (&mut Session, &mut Session),
    options: &Options,
    (from, to): (&str, &str),
) -> Result<(), FarError> {
    let of_sender = sender.hear_listening().map_err(of(FarRole::Sender))?;
    let of_receiver = receiver.hear_listening().map_err(of(FarRole::Receiver))?;
    let there = dial(receiver, &of_sender, &of_receiver, options.ports).map_err(of(FarRole::Receiver))?;
    let Some(there) = there else { return Ok(()) };
    let back = dial(sender, &of_receiver, &of_sender, options.ports).map_err(of(FarRole::Sender))?;
    let Some(back) = back else { return Ok(()) };
    Err(FarError {
        role: FarRole::Receiver,
        error: TransferError::FarEnd(format!(
            "{to} can't connect to {from}: {there}; and {from} can't connect to {to}: {back}; --detach needs a connection between the two hosts: open {} from one of them to the other, or leave out --detach",
            ports(options.ports)
        )),
    })
}

/// Makes an agent dial the other; returns `None` on success, else the reason for the failure.
fn dial(
    session: &mut Session,
    there: &Listening,
    here: &Listening,
    ports: Option<(u16, u16)>,
) -> Result<Option<String>, TransferError> {
    if let Some(error) = &there.error {
        return Ok(Some(format!(
            "the host to connect to can't listen for data: {}",
            printable(error.as_bytes())
        )));
    }
    let candidates = handed_on(there, here, ports);
    if candidates.is_empty() {
        return Ok(Some("the host to connect to has no address that other hosts can reach".into()));
    }
    Ok(session.have_dial(candidates)?.map(|error| printable(error.as_bytes())))
}

fn ports(ports: Option<(u16, u16)>) -> String {
    match ports {
        Some((first, last)) => format!("a TCP port of {first}-{last}"),
        None => "a TCP port (choose it with --port-range)".into(),
    }
}

fn of(role: FarRole) -> impl Fn(TransferError) -> FarError {
    move |error| FarError { role, error }
}
