//! Users in a closed loop: each user fetches its object again only after the last reply has ended.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{LoadError, joined};
use crate::window::{Phases, StopFlag, Window};

use super::probe::probe;
use super::tally::UserTally;
use super::url::Url;
use super::worker::UserWorker;

/// The greatest number of users of one client.
pub const MOST_USERS: u32 = 100_000;
/// The greatest number of threads of one client.
pub const MOST_THREADS: u32 = 64;

/// A load of HTTP users, with its parameters.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// The URLs that users fetch; users are distributed over them.
    pub urls: Vec<Url>,
    /// The number of users.
    pub users: u32,
    /// The timing of the load. The users' starts are distributed evenly over the ramp.
    pub window: Window,
    /// Whether each request has its own new connection, which the server closes after the reply.
    pub new_connections: bool,
    /// The number of threads that share the users.
    pub threads: u32,
    /// The time after which a request without a complete reply has failed.
    pub timeout: Duration,
    /// The shortest time from the start of a user's request to the start of the user's next request; `None`
    /// for no limit.
    pub pace: Option<Duration>,
    /// The pause of each user between a reply and the next request.
    pub think: Duration,
}

impl Crowd {
    /// Fetches each object once, and returns the size in bytes of the largest.
    ///
    /// # Errors
    /// If an object can't be fetched.
    pub fn probe(&self, stop: &StopFlag) -> Result<u64, LoadError> {
        let mut largest = 0;
        for url in &self.urls {
            largest = largest.max(probe(url, self.timeout, stop)?);
        }
        Ok(largest)
    }

    /// Runs the users until the end of the window.
    ///
    /// # Errors
    /// If nothing was fetched; the error contains the first failure's reason.
    pub fn run(&self, stop: &StopFlag) -> Result<UserTally, LoadError> {
        self.check()?;
        let phases = self.window.after(Instant::now());
        let tallies: Vec<io::Result<UserTally>> = thread::scope(|scope| {
            let start = |place| scope.spawn(move || self.work(place, phases, stop));
            let threads: Vec<_> = (0..self.threads.min(self.users)).map(start).collect();
            threads.into_iter().map(|thread| joined(thread.join())).collect()
        });
        let mut sum = UserTally { phases: Some(phases), ..UserTally::default() };
        for tally in tallies {
            sum.add(tally.map_err(|error| LoadError::System("watching the users' connections", error))?);
        }
        if stop.is_set() { Err(LoadError::Interrupted) } else { self.something(sum) }
    }

    fn check(&self) -> Result<(), LoadError> {
        let within = |name: &str, value: u32, most: u32| match value {
            1.. if value <= most => Ok(()),
            _ => Err(LoadError::Arguments(format!("--{name} {value}: it must be 1 to {most}"))),
        };
        within("users", self.users, MOST_USERS)?;
        within("threads", self.threads, MOST_THREADS)?;
        match self.urls.is_empty() {
            true => Err(LoadError::Arguments("nothing to fetch; give a --url".into())),
            false => Ok(()),
        }
    }

    fn work(&self, place: u32, phases: Phases, stop: &StopFlag) -> io::Result<UserTally> {
        let threads = self.threads.min(self.users);
        UserWorker::new(self, place, threads, phases, stop)?.run()
    }

    fn something(&self, tally: UserTally) -> Result<UserTally, LoadError> {
        if tally.latency.count() > 0 {
            return Ok(tally);
        }
        let reason = tally.reason.clone().or_else(|| {
            let (status, count) = tally.errors.statuses.iter().next()?;
            Some(format!("{count} answers with status {status}"))
        });
        let reason = reason.unwrap_or_else(|| "the window is shorter than a request".into());
        Err(LoadError::Peer(
            self.urls[0].to_string(),
            format!("no request was answered in the window: {reason}"),
        ))
    }
}
