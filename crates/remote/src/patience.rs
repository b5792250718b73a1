//! How long a far end that says nothing is waited for, and a way to write to one that may have stopped reading.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::process::ChildStdin;
use std::time::{Duration, Instant};

/// How long one that isn't there any more may take nothing.
const BLOCKED: Duration = Duration::from_millis(300);
/// How often what waits looks around.
const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How long a login may take, from the remote shell's start to the agent's line. The time that it takes to bring the binary doesn't
/// count: only that it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Between two lines; `None` for ever.
    silence: Option<Duration>,
    /// Altogether; `None` for ever.
    in_all: Option<Duration>,
    /// The command's option that sets it.
    option: bool,
}

impl Patience {
    /// Where the user has said nothing: somebody may have to type a password, or to look at a host key. An ssh server gives up
    /// after 120 s (`LoginGraceTime`), so that a longer wait is none for a login.
    pub const LOGIN: Self = Self { silence: None, in_all: Some(LOGIN_TIME), option: false };

    /// For a command with `--timeout`, and what the user gave there: seconds, 0 for ever, or nothing.
    pub fn by_option(given: Option<u32>) -> Self {
        match given.map(|seconds| Duration::from_secs(seconds.into())) {
            None => Self { option: true, ..Self::LOGIN },
            Some(Duration::ZERO) => Self { silence: None, in_all: None, option: true },
            // Who says a line now and then isn't silent, and isn't logged in either.
            Some(silence) => {
                Self { silence: Some(silence), in_all: Some(silence.max(LOGIN_TIME)), option: true }
            }
        }
    }

    /// The option that sets it, behind a number of seconds in a message.
    pub fn option(&self) -> &'static str {
        if self.option { " (--timeout)" } else { "" }
    }

    /// How long the far end may take none of what is written to it.
    pub fn of_writing(&self) -> Option<Duration> {
        self.silence.or(self.in_all)
    }
}

const LOGIN_TIME: Duration = Duration::from_secs(150);

/// A login under way.
#[derive(Debug)]
pub struct Login {
    patience: Patience,
    begun: Instant,
    heard: Instant,
}

impl Login {
    /// It begins now.
    pub fn begin(patience: Patience) -> Self {
        let begun = Instant::now();
        Self { patience, begun, heard: begun }
    }

    /// A whole line came. Bytes without an end aren't heard.
    pub fn heard(&mut self) {
        self.heard = Instant::now();
    }

    /// Why it has lasted too long; `None` while it hasn't.
    pub fn too_long(&self) -> Option<String> {
        let over = |longest: Option<Duration>, since: Instant| longest.filter(|most| since.elapsed() > *most);
        let (most, what) = match over(self.patience.silence, self.heard) {
            Some(silence) => (silence, "nothing was heard of the far end"),
            None => (over(self.patience.in_all, self.begun)?, "no agent has answered at the far end"),
        };
        let option = self.patience.option();
        let longer = match self.patience.option {
            true => "; one that waits for a password or a confirmation needs a longer --timeout, 0 for ever",
            false => "",
        };
        Some(format!(
            "{what} for {} s{option}, where the login's agent was to say that it is ready: a login that allows only sftp \
             (ForceCommand internal-sftp) can't run one, nor can one whose start files wait for input: try \
             'ssh HOST true'{longer}",
            most.as_secs()
        ))
    }
}

/// The way to a far end's input. Where that takes nothing, writing ends with an error instead of never.
pub struct Patient {
    to: ChildStdin,
    longest: Option<Duration>,
    is_there: Option<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Patient {
    /// What is written to `to` may wait for `longest` until some of it is taken; `None` for ever.
    ///
    /// # Errors
    /// Where the pipe's flags can't be set.
    pub fn new(to: ChildStdin, longest: Option<Duration>) -> io::Result<Self> {
        rustix::fs::fcntl_setfl(&to, rustix::fs::fcntl_getfl(&to)? | OFlags::NONBLOCK)?;
        Ok(Self { to, longest, is_there: None })
    }

    /// From now on it may wait while the far end `is_there`, which has to say something once in `longest`.
    pub fn wait(&mut self, longest: Option<Duration>, is_there: impl Fn() -> bool + Send + Sync + 'static) {
        self.longest = longest;
        self.is_there = Some(Box::new(is_there));
    }
}

impl Patient {
    /// Why nothing is written any more that has waited since `begun`.
    fn given_up(&self, begun: Instant) -> Option<String> {
        let seconds = self.longest?.as_secs();
        match &self.is_there {
            Some(is_there) if begun.elapsed() > BLOCKED && !is_there() => Some(format!(
                "nothing was heard of the far end for {seconds} s, and it takes nothing of what it is sent"
            )),
            None if Some(begun.elapsed()) > self.longest => {
                Some(format!("it has taken nothing of what it was sent for {seconds} s"))
            }
            _ => None,
        }
    }
}

impl Write for Patient {
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
            let _ = poll(&mut [PollFd::new(&self.to, PollFlags::OUT)], Some(&MOMENT));
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Waits a moment for something to read, or an end.
pub fn is_readable(from: impl AsFd) -> bool {
    poll(&mut [PollFd::new(&from, PollFlags::IN)], Some(&MOMENT)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_login_has_the_time_that_was_said_or_that_of_a_person() {
        let said = Patience::by_option(Some(5));
        assert_eq!((said.silence, said.in_all), (Some(Duration::from_secs(5)), Some(LOGIN_TIME)));
        let long = Patience::by_option(Some(600));
        assert_eq!(
            (long.silence, long.in_all),
            (Some(Duration::from_secs(600)), Some(Duration::from_secs(600)))
        );
        let ever = Patience::by_option(Some(0));
        assert_eq!((ever.silence, ever.in_all, ever.of_writing()), (None, None, None));
        assert_eq!(Patience::by_option(None).in_all, Some(LOGIN_TIME));
    }

    #[test]
    fn only_whole_lines_are_heard_and_all_lines_together_have_an_end() {
        let (now, long) = (Instant::now(), Duration::from_secs(200));
        let login = |begun, heard| Login { patience: Patience::by_option(Some(5)), begun, heard };
        let before = now - long;
        assert_eq!(login(now, now).too_long(), None);
        assert!(
            login(now, before)
                .too_long()
                .unwrap()
                .contains("nothing was heard of the far end for 5 s (--timeout)")
        );
        assert!(login(before, now).too_long().unwrap().contains("no agent has answered"));
    }

    #[test]
    fn what_takes_nothing_is_not_written_to_for_ever() {
        let mut deaf = Command::new("sleep").arg("60").stdin(Stdio::piped()).spawn().unwrap();
        let mut to = Patient::new(deaf.stdin.take().unwrap(), Some(Duration::from_millis(200))).unwrap();
        let error = to.write_all(&vec![0; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        deaf.kill().unwrap();
        deaf.wait().unwrap();
    }
}
