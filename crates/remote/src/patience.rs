//! Time limits for a far end that is silent, and a way to write to a far end that may have stopped reading.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ChildStdin;
use std::time::{Duration, Instant};

/// For this long, a blocked write waits in any case. After that, it is given up as soon as the far end counts as gone.
const BLOCKED: Duration = Duration::from_millis(300);
/// The name of the option that sets the limits. In messages about a far end that was silent for too long, it stands
/// after the number of seconds.
pub const OPTION: &str = " (--timeout)";
/// The interval between two checks during a wait.
pub const MOMENT_OF_WAITING: Duration = Duration::from_millis(100);

/// The time limits of a login, which lasts from the start of the remote shell until the agent is ready. Time in which a
/// binary is being copied isn't counted as long as bytes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The longest time between two lines of the far end; `None` means no limit.
    silence: Option<Duration>,
    /// The longest time of the whole login; `None` means no limit.
    in_all: Option<Duration>,
    /// True if the command has an option that sets the limits.
    option: bool,
}

impl Patience {
    /// The default limits. They leave time to type a password or to check a host key. A longer limit wouldn't help,
    /// because an ssh server gives up after 120 s (`LoginGraceTime`).
    pub const LOGIN: Self = Self { silence: None, in_all: Some(LOGIN_TIMEOUT), option: false };

    /// The limits of a command with `--timeout`. `given` is the user's value in seconds, 0 for no limit, or `None` for
    /// the default.
    pub fn by_option(given: Option<u32>) -> Self {
        match given.map(|seconds| Duration::from_secs(seconds.into())) {
            None => Self { option: true, ..Self::LOGIN },
            Some(Duration::ZERO) => Self { silence: None, in_all: None, option: true },
            // The total time is limited too, because a far end may print lines from time to time and never complete the
            // login.
            Some(silence) => {
                Self { silence: Some(silence), in_all: Some(silence.max(LOGIN_TIMEOUT)), option: true }
            }
        }
    }

    /// The name of the option, in the form that a message has after a number of seconds; empty if the command has no
    /// such option.
    pub fn option(&self) -> &'static str {
        if self.option { OPTION } else { "" }
    }

    /// The longest time for which a write to the far end may block during the login; `None` means no limit.
    pub fn of_writing(&self) -> Option<Duration> {
        self.silence.or(self.in_all)
    }
}

const LOGIN_TIMEOUT: Duration = Duration::from_secs(150);

/// A login in progress, with its time limits.
#[derive(Debug)]
pub struct Login {
    patience: Patience,
    begun: Instant,
    heard: Instant,
}

impl Login {
    /// A login that begins now.
    pub fn begin(patience: Patience) -> Self {
        let begun = Instant::now();
        Self { patience, begun, heard: begun }
    }

    /// Records that a whole line has arrived. An incomplete line doesn't count.
    pub fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// The reason to give up the login; `None` if it is within its limits.
    pub fn too_long(&self) -> Option<String> {
        let over = |longest: Option<Duration>, since: Instant| longest.filter(|most| since.elapsed() > *most);
        let (most, what) = match over(self.patience.silence, self.heard) {
            Some(silence) => (silence, "the far end sent nothing"),
            None => (over(self.patience.in_all, self.begun)?, "no agent has answered at the far end"),
        };
        let option = self.patience.option();
        let longer = match self.patience.option {
            true => {
                "; a login that waits for a password or a confirmation needs a longer --timeout (0: no limit)"
            }
            false => "",
        };
        Some(format!(
            "{what} for {} s{option}, while this end waited for the agent's first message: a login that allows only sftp (ForceCommand internal-sftp) can't run an agent, nor can a login whose start files wait for input: try 'ssh HOST true'{longer}",
            most.as_secs()
        ))
    }
}

/// The standard input of the remote shell or agent. If the far end doesn't read, a write fails after some time instead
/// of blocking without end.
pub struct PatientInput {
    to: ChildStdin,
    longest: Option<Duration>,
    is_there: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl PatientInput {
    /// An input that writes to `to`. A write may block for at most `longest` until the far end reads some of the bytes;
    /// `None` means no limit.
    ///
    /// # Errors
    /// If the pipe's flags can't be set.
    pub fn new(to: ChildStdin, longest: Option<Duration>) -> io::Result<Self> {
        rustix::fs::fcntl_setfl(&to, rustix::fs::fcntl_getfl(&to)? | OFlags::NONBLOCK)?;
        Ok(Self { to, longest, is_there: None })
    }

    /// From now on, a write may block as long as `is_there` returns true. That is so if the far end has sent something
    /// in the last period of length `longest`; with `None`, a write may block without limit.
    pub fn wait(&mut self, longest: Option<Duration>, is_there: impl Fn() -> bool + Send + Sync + 'static) {
        self.longest = longest;
        self.is_there = Some(Box::new(is_there));
    }
}

impl PatientInput {
    /// The reason to give up a write that has been blocked since `begun`; `None` if the write may still
    /// block.
    fn given_up(&self, begun: Instant) -> Option<String> {
        let seconds = self.longest?.as_secs();
        match &self.is_there {
            Some(is_there) if begun.elapsed() > BLOCKED && !is_there() => {
                Some(format!("the far end has sent nothing for {seconds} s, and accepts no data"))
            }
            None if Some(begun.elapsed()) > self.longest => {
                Some(format!("the far end has accepted no data for {seconds} s"))
            }
            _ => None,
        }
    }
}

impl Write for PatientInput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let begun = Instant::now();
        loop {
            match self.to.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            if let Some(why) = self.given_up(begun) {
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            let _ = poll(&mut [PollFd::new(&self.to, PollFlags::OUT)], Some(&moment()));
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn moment() -> Timespec {
    Timespec { tv_sec: 0, tv_nsec: i64::from(MOMENT_OF_WAITING.subsec_nanos()) }
}

/// Waits for [`MOMENT_OF_WAITING`] at most until data can be read or the input has ended.
pub fn is_readable(from: impl AsFd) -> bool {
    poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&moment())).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_login_has_the_time_that_was_said_or_that_of_a_person() {
        let said = Patience::by_option(Some(5));
        assert_eq!((said.silence, said.in_all), (Some(Duration::from_secs(5)), Some(LOGIN_TIMEOUT)));
        let long = Patience::by_option(Some(600));
        assert_eq!(
            (long.silence, long.in_all),
            (Some(Duration::from_secs(600)), Some(Duration::from_secs(600)))
        );
        let ever = Patience::by_option(Some(0));
        assert_eq!((ever.silence, ever.in_all, ever.of_writing()), (None, None, None));
        assert_eq!(Patience::by_option(None).in_all, Some(LOGIN_TIMEOUT));
    }

    #[test]
    fn only_whole_lines_are_heard_and_all_lines_together_have_an_end() {
        let (now, long) = (Instant::now(), Duration::from_secs(200));
        let login = |begun, heard| Login { patience: Patience::by_option(Some(5)), begun, heard };
        let before = now - long;
        assert_eq!(login(now, now).too_long(), None);
        assert!(
            login(now, before).too_long().unwrap().contains("the far end sent nothing for 5 s (--timeout)")
        );
        assert!(login(before, now).too_long().unwrap().contains("no agent has answered"));
    }

    #[test]
    fn what_takes_nothing_is_not_written_to_for_ever() {
        let mut deaf = Command::new("sleep").arg("60").stdin(Stdio::piped()).spawn().unwrap();
        let mut to = PatientInput::new(deaf.stdin.take().unwrap(), Some(Duration::from_millis(200))).unwrap();
        let error = to.write_all(&vec![0; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        deaf.kill().unwrap();
        deaf.wait().unwrap();
    }
}
