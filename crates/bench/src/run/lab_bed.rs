//! A lab as a bed: two network namespaces of this host, and an agent in each.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate_host::Facts;
use linerate_lab::wan::FRAMING;
use linerate_lab::{Description, Lab, LabError, LabHost, LabOptions, Loss, Rtt, Wan};
use linerate_quantity::counted;
use linerate_remote::host_agent::HostAgent;
use linerate_remote::place::Place;

use super::bed::{Bed, End, facts};
use super::host_bed::{far_followed, held_at, perform_at};
use super::{programs, samples};
use crate::data::{Answer, Task};
use crate::out::of_machines;
use crate::record::Link;
use crate::spec::study::LinkSpec;

/// The bytes that a virtual link's shaper counts for each packet in addition to its IP length: the Ethernet
/// header.
const SHAPER_OVERHEAD: u32 = 14;

/// The name of the first guest in a record.
const FIRST_GUEST: &str = "g0";

/// The directory for received files in a virtual machine.
const MEMORY: &str = "/dev/shm";

/// A lab that is running, with an agent at each end.
pub struct LabBed {
    lab: Lab,
    agents: [HostAgent; 2],
    spec: LinkSpec,
    linerate: PathBuf,
    lacks: Option<String>,
    /// The agent in the first guest, if guests are virtual machines. Counters in the guest cover only the guest; those
    /// of the hypervisor's host cover all work.
    guest: Option<HostAgent>,
}

/// The reason why a lab can't be used as a bed.
#[derive(Debug, thiserror::Error)]
pub enum LabBedError {
    /// The lab can't be made.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A lab can't provide this link.
    #[error("link {name:?}: {reason}")]
    Link {
        /// The link's name in the study.
        name: String,
        /// The reason why the lab can't provide the link.
        reason: String,
    },
    /// An agent doesn't start.
    #[error("starting the agent in the lab: {0}")]
    Agent(io::Error),
}

impl LabBed {
    /// Makes a lab with this link, and starts an agent (`linerate`, this program) at each end. If virtual
    /// machines don't work here, the lab has no guests, and [`Bed::lacks`] returns the reason.
    ///
    /// # Errors
    /// If the lab can't be made, or an agent doesn't start. In that case, nothing is left behind.
    pub fn up(link: &LinkSpec, linerate: &Path) -> Result<LabBed, LabBedError> {
        let rate = match link.rate {
            None => None,
            Some(bits) => Some(format!("{bits}bit").parse().map_err(|e: linerate_lab::RateError| {
                LabBedError::Link { name: link.name.clone(), reason: e.to_string() }
            })?),
        };
        let options = LabOptions {
            link: rate,
            mtu: Some(link.mtu),
            links: Some(link.count),
            queues: link.queues,
            guests: link.guests,
            machine: link.machine.clone(),
            wan: wan(link),
            linerate: Some(linerate.to_owned()),
            ..LabOptions::default()
        };
        let (lab, lacks) = match Lab::up(&options) {
            Err(error) if error.is_about_guests() => {
                let without = LabOptions { guests: 0, machine: None, ..options };
                (Lab::up(&without)?, Some(error.to_string()))
            }
            made => (made?, None),
        };
        let agents = [
            HostAgent::start(&lab.place(End::A), linerate).map_err(LabBedError::Agent)?,
            HostAgent::start(&lab.place(End::B), linerate).map_err(LabBedError::Agent)?,
        ];
        let first = lab.guest_place(0).filter(|_| lab.description().machine.is_some());
        let guest =
            first.map(|place| HostAgent::start(&place, linerate)).transpose().map_err(LabBedError::Agent)?;
        Ok(LabBed { lab, agents, spec: link.clone(), linerate: linerate.to_owned(), lacks, guest })
    }

    /// A directory for data, on a tmpfs if there is one. The directory is removed with the lab.
    pub fn scratch(&self) -> PathBuf {
        self.lab.scratch().to_owned()
    }

    fn has_machines(&self) -> bool {
        self.lab.description().machine.is_some()
    }

    fn guest_place(&self, guest: usize) -> io::Result<Place> {
        self.lab.guest_place(guest).ok_or_else(|| io::Error::other(format!("there is no guest {guest}")))
    }
}

fn wan(link: &LinkSpec) -> Option<Wan> {
    let asked = link.rtt.is_some() || link.loss.is_some();
    let (rtt, loss) = (link.rtt.unwrap_or_default(), link.loss.unwrap_or_default());
    asked.then_some(Wan { rtt, loss, ..Wan::default() })
}

/// The addresses of guests: first all addresses on the first link, then those on the second, and so on.
/// Copies that use the addresses in turn thus connect to every guest, copy N to guest N.
fn by_port(guests: &[LabHost]) -> Vec<String> {
    let ports: Vec<_> = guests.iter().map(LabHost::ports).collect();
    let links = ports.iter().map(Vec::len).max().unwrap_or(0);
    let of_link = |link| ports.iter().filter_map(move |ports| ports.get(link));
    (0..links).flat_map(of_link).map(|port| port.address.to_string()).collect()
}

/// A description of the link.
fn shaper(lab: &Description) -> String {
    match (lab.link, lab.wan) {
        (Some(_), None) => "veth with tbf".into(),
        (None, None) => "veth, unshaped".into(),
        (rate, Some(Wan { rtt, loss, .. })) => {
            let shaped = if rate.is_some() { "" } else { ", unshaped" };
            format!("emulated{shaped}, round trip {rtt}, loss {loss}")
        }
    }
}

impl Bed for LabBed {
    fn command(&self, end: End, argv: &[OsString]) -> io::Result<Command> {
        let mut command = self.lab.place(end).command(argv)?;
        command.envs(self.lab.environment());
        Ok(command)
    }

    fn ssh_config(&self) -> PathBuf {
        self.lab.ssh_config()
    }

    fn host(&self) -> String {
        "b".into()
    }

    fn address(&self) -> String {
        self.lab.address(End::B).to_string()
    }

    fn addresses(&self) -> Vec<String> {
        match self.lab.guests() {
            [] => self.lab.addresses(End::B).iter().map(ToString::to_string).collect(),
            guests => by_port(guests),
        }
    }

    fn interface(&self, end: End) -> Option<String> {
        let lab = self.lab.description();
        let host = if end == End::A { &lab.a } else { &lab.b };
        Some(host.interface.clone())
    }

    fn guests(&self) -> usize {
        self.lab.guests().len()
    }

    fn guest_command(&self, guest: usize, argv: &[OsString]) -> io::Result<Command> {
        let place = self.guest_place(guest)?;
        if self.has_machines() {
            return held_at(&place, &self.linerate, argv);
        }
        let mut command = place.command(argv)?;
        command.envs(self.lab.environment());
        Ok(command)
    }

    fn lacks(&self) -> Option<String> {
        self.lacks.clone()
    }

    fn receivers(&self) -> Vec<String> {
        let names = (0..self.lab.guests().len()).filter_map(|guest| self.lab.guest_host(guest));
        if self.has_machines() { names.collect() } else { vec![self.host()] }
    }

    fn arrivals(&self) -> Option<PathBuf> {
        self.has_machines().then(|| PathBuf::from(MEMORY))
    }

    fn receiver_files(&self, receiver: usize, task: &Task) -> io::Result<Answer> {
        match self.has_machines() {
            true => perform_at(&self.guest_place(receiver)?, &self.linerate, task),
            false => Ok(task.perform()),
        }
    }

    fn sees_receivers_files(&self) -> bool {
        !self.has_machines()
    }

    fn place(&self, end: End) -> Place {
        self.lab.place(end)
    }

    fn agent(&mut self, end: End) -> Option<&mut HostAgent> {
        let [a, b] = &mut self.agents;
        match end {
            End::A => Some(a),
            End::B => Some(b),
        }
    }

    fn start_watching(&mut self) -> io::Result<()> {
        let followed = far_followed(&self.linerate);
        self.guest.as_mut().map_or(Ok(()), |agent| samples::start(agent, followed))
    }

    fn stop_watching(&mut self) -> io::Result<Vec<(String, Vec<u8>)>> {
        let recordings = self.guest.iter_mut().map(HostAgent::stop_sampling);
        recordings.map(|recording| Ok((FIRST_GUEST.to_owned(), recording?))).collect()
    }

    fn watched_facts(&mut self) -> io::Result<Vec<(String, Facts)>> {
        self.guest.iter_mut().map(|agent| Ok((FIRST_GUEST.to_owned(), facts(agent)?))).collect()
    }

    fn link(&self) -> Link {
        let description = self.lab.description();
        let links = description.b.ports().len();
        let congestion = description.congestion.as_deref().map_or(String::new(), |name| format!(", {name}"));
        let shaper = shaper(description);
        let several = if links > 1 { format!("{links} x ") } else { String::new() };
        let shared = match (description.guests.len(), &description.machine) {
            (0, _) => String::new(),
            (guests, None) => format!(", shared by {guests} hosts"),
            (guests, Some(machine)) => {
                format!(", to {} ({machine}; {})", of_machines(guests as u32), machine.runs_by())
            }
        };
        let queues = description
            .queues
            .map_or(String::new(), |n| format!(", {}", counted(n.into(), "queue", "queues")));
        // In a record, parallel links are one link, whose rate is the sum of the rates.
        Link {
            bits_per_second: description.link.map(|rate| rate.bits_per_second() * links as u64),
            mtu: description.mtu,
            kind: format!("{several}{shaper}{congestion}{queues}{shared}"),
            frame_overhead_bytes: description.wan.map_or(SHAPER_OVERHEAD, |_| FRAMING as u32),
            burst_bytes: description.link.map_or(0, |rate| rate.burst() * links as u64),
        }
    }

    fn unshaped(&self) -> io::Result<Option<Box<dyn Bed>>> {
        if self.spec.rate.is_none() {
            return Ok(None);
        }
        // With delay or loss, the short streams of this measurement would show the behavior of TCP (slow start,
        // recovery from loss) and not the limit of the bed.
        let (rtt, loss) = (self.spec.rtt.map(|_| Rtt::default()), self.spec.loss.map(|_| Loss::default()));
        let open = LinkSpec { rate: None, rtt, loss, ..self.spec.clone() };
        let bed = LabBed::up(&open, &self.linerate).map_err(io::Error::other)?;
        Ok(Some(Box::new(bed)))
    }

    fn shares_processors(&self) -> bool {
        true
    }

    fn has(&self, _end: End, program: &str) -> bool {
        // Both ends have the files of this host.
        programs::find(program).is_some()
    }
}
