//! A simulated far end whose messages a test chooses, and the client that is connected to it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_wire::PROTOCOL;
use linerate_wire::control::{self, AGENT_LINE, ControlError, Hello, Listening, Message, Source, Totals};
use linerate_wire::entry::{Chunk, Entry, Kind, Origin, Timestamp};
use linerate_wire::frame::{FrameKind, Header};
use linerate_wire::path::RelPath;
use linerate_wire::stages::{Stages, Usage};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{Run, Running, directory};

/// The longest time for a transfer of a few kilobytes, on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// The longest time until an interrupted client ends.
pub const AT_ONCE: Duration = Duration::from_secs(4);

/// The result of a far end's behaviour. Most end with an error because the client has gone, which is fine.
pub type Said = Result<(), ControlError>;

/// The pipes to a client or to an agent.
pub struct Far {
    from: Box<dyn Read + Send>,
    to: Box<dyn Write + Send>,
}

impl Far {
    /// The other end of these pipes.
    pub fn new(from: impl Read + Send + 'static, to: impl Write + Send + 'static) -> Self {
        Self { from: Box::new(from), to: Box::new(to) }
    }

    /// The two pipes, for a relay.
    pub fn into_parts(self) -> (Box<dyn Read + Send>, Box<dyn Write + Send>) {
        (self.from, self.to)
    }

    /// Writes bytes unchanged.
    pub fn raw(&mut self, bytes: &[u8]) -> Said {
        self.to.write_all(bytes)?;
        Ok(self.to.flush()?)
    }

    /// Sends a message.
    pub fn say(&mut self, message: &Message) -> Said {
        control::write(&mut self.to, message)
    }

    /// Receives a message.
    pub fn hear(&mut self) -> Result<Message, ControlError> {
        control::read(&mut self.from)
    }

    /// Receives messages until one of this kind arrives, or the client ends.
    pub fn hear_until(&mut self, is_it: impl Fn(&Message) -> bool) -> Result<Message, ControlError> {
        loop {
            let message = self.hear()?;
            match message {
                message if is_it(&message) => return Ok(message),
                Message::Abort { .. } => return Err(ControlError::Closed),
                _ => {}
            }
        }
    }

    /// Receives messages until the client ends.
    pub fn hear_all(&mut self) -> Said {
        self.hear_until(|_| false).map(drop)
    }

    /// Sends the line of an agent that is ready.
    pub fn ready(&mut self) -> Said {
        self.raw(format!("\n{AGENT_LINE}\n").as_bytes())
    }

    /// Performs the protocol up to the client's job.
    pub fn greet(&mut self) -> Said {
        self.ready()?;
        self.say(&hello(PROTOCOL))?;
        self.hear_until(|message| matches!(message, Message::Job(_))).map(drop)
    }

    /// Performs the protocol up to a data stream over the control channel.
    pub fn connect(&mut self) -> Said {
        self.greet()?;
        self.say(&nowhere())?;
        self.hear_until(|message| matches!(message, Message::ConnectBack { .. }))?;
        self.say(&Message::ConnectedBack { error: Some("no way back".into()) })?;
        self.hear_until(|message| matches!(message, Message::UseTunnel)).map(drop)
    }

    /// Acts as a sender, up to the client's message that it has a destination for `sources`.
    pub fn announce(&mut self, sources: &[Source]) -> Said {
        self.connect()?;
        self.say(&Message::Sources(sources.to_vec()))?;
        self.hear_until(|message| matches!(message, Message::Ready { .. })).map(drop)
    }

    /// Sends a frame, as a sender does.
    pub fn frame(&mut self, kind: FrameKind, payload: &[u8]) -> Said {
        self.say(&frame(kind, payload))
    }

    /// Sends the end of the data and the final messages, as a sender does.
    pub fn finish(&mut self, totals: Totals) -> Said {
        self.frame(FrameKind::End, &[])?;
        self.say(&Message::Sent { totals, streams: 1, complete: true })?;
        self.hear_until(|message| matches!(message, Message::Committed(_)))?;
        self.report()
    }

    /// Sends the agent's last message.
    pub fn report(&mut self) -> Said {
        self.say(&report())
    }
}

/// A hello message with this protocol number.
pub fn hello(protocol: u32) -> Message {
    Message::Hello(Hello { protocol, version: "6.6.6".into(), public_key: vec![0; 44], cookie: [6; 16] })
}

/// A message of an agent that has no reachable address.
pub fn nowhere() -> Message {
    Message::Listening(Listening { candidates: Vec::new(), further: Vec::new(), client: None, error: None })
}

/// A report in which nothing was done.
pub fn report() -> Message {
    Message::Report { stages: Stages::default(), usage: Usage::default() }
}

/// A frame of the data stream that is sent over the control channel.
pub fn frame(kind: FrameKind, payload: &[u8]) -> Message {
    let mut bytes = Header::of(kind, payload, true).encode().to_vec();
    bytes.extend_from_slice(payload);
    Message::Tunnel(bytes)
}

/// A source in the form in which a sender announces it.
pub fn source(name: &str, directory: bool) -> Source {
    Source { argument: 0, name: path(name), directory }
}

/// A valid path.
pub fn path(path: &str) -> RelPath {
    RelPath::new(path.as_bytes()).expect("an honest path")
}

/// An entry of the first source.
pub fn entry(at: &str, kind: Kind) -> Entry {
    let time = Timestamp { seconds: 1_600_000_000, nanoseconds: 0 };
    Entry { source: 0, path: path(at), kind, mode: 0o644, mtime: time, atime: time, extra: None }
}

/// An entry for a file.
pub fn file(at: &str, size: u64) -> Entry {
    entry(at, Kind::File { size })
}

/// An entry for a directory.
pub fn folder(at: &str) -> Entry {
    Entry { mode: 0o755, ..entry(at, Kind::Directory) }
}

/// An entry for a symbolic link.
pub fn link(at: &str, target: &str) -> Entry {
    entry(at, Kind::Symlink { target: target.into() })
}

/// A record of a batch.
pub fn record(entry: &Entry, contents: &[u8]) -> Vec<u8> {
    let entry = encode(entry);
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("short").to_le_bytes();
    [&length(&entry)[..], &length(contents), &entry, contents].concat()
}

/// The payload of a frame with a chunk.
pub fn chunk(entry: Entry, offset: u64, length: u64, parts: u32) -> Vec<u8> {
    encode(&Chunk { entry, file: 1, offset, length, parts, origin: Origin::default() })
}

/// Encodes a value with postcard.
pub fn encode(value: &impl serde::Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("it can be encoded")
}

/// The bytes with a name replaced by one that no honest end can send; both names must have the same length.
pub fn forge(mut bytes: Vec<u8>, honest: &[u8], forged: &[u8]) -> Vec<u8> {
    assert_eq!(honest.len(), forged.len());
    let at = bytes.windows(honest.len()).position(|part| part == honest).expect("it is in there");
    bytes[at..at + honest.len()].copy_from_slice(forged);
    bytes
}

/// The bytes of a message on the control channel.
pub fn on_the_wire(message: &[u8]) -> Vec<u8> {
    [&u32::try_from(message.len()).expect("short").to_le_bytes()[..], message].concat()
}

/// Whether a message announces sources; an argument for [`Far::hear_until`].
pub fn is_sources(message: &Message) -> bool {
    matches!(message, Message::Sources(_))
}

/// Totals of a transfer.
pub fn totals(files: u64, bytes: u64) -> Totals {
    Totals { files, bytes, ..Totals::default() }
}

/// A directory in which a client is run: `in` is its working directory, and nothing beside it may be changed.
pub struct Ground {
    top: TempDir,
    before: BTreeMap<PathBuf, Vec<u8>>,
}

/// A running client, and the far end that is connected to it.
pub struct Talk {
    running: Option<Running>,
    far: Option<JoinHandle<Said>>,
    pipes: [PathBuf; 2],
}

impl Ground {
    /// Makes the directory, with a file outside of `in` that must stay unchanged.
    pub fn new() -> Self {
        let top = directory("linerate-hostile-");
        for name in ["in", "home", "outside", "pipes"] {
            fs::create_dir(top.path().join(name)).expect("writable");
        }
        fs::write(top.path().join("outside/file"), "kept").expect("writable");
        let mut ground = Self { top, before: BTreeMap::new() };
        ground.before = ground.outside();
        ground
    }

    /// Makes the directory with a file `x` to send: 30 MiB, more than a tunnel can buffer.
    pub fn with_a_large_file() -> Self {
        let ground = Self::new();
        fs::write(ground.inside().join("x"), vec![1; 30 << 20]).expect("writable");
        ground
    }

    /// The client's working directory.
    pub fn inside(&self) -> PathBuf {
        self.top.path().join("in")
    }

    /// A directory in which nothing may be written.
    pub fn out_of_bounds(&self) -> PathBuf {
        self.top.path().join("outside")
    }

    /// The paths below the client's directory, including temporary names.
    pub fn landed(&self) -> Vec<PathBuf> {
        below(&self.inside()).into_keys().collect()
    }

    /// Panics if anything outside the client's directory was changed.
    #[track_caller]
    pub fn assert_untouched(&self) {
        assert_eq!(self.outside(), self.before, "something was done outside the destination");
    }

    /// Starts `linerate cp` with these arguments and with a far end that behaves like this; its host name is
    /// `far`.
    pub fn start(&self, args: &[&str], behave: impl FnOnce(&mut Far) -> Said + Send + 'static) -> Talk {
        self.start_as("cp", args, behave)
    }

    /// Starts another linerate command, as [`Ground::start`] does.
    pub fn start_as(
        &self,
        command: &str,
        args: &[&str],
        behave: impl FnOnce(&mut Far) -> Said + Send + 'static,
    ) -> Talk {
        let pipes = ["to", "from"].map(|name| self.top.path().join("pipes").join(name));
        for pipe in &pipes {
            // Those of an earlier client's are of no use to this one.
            let _ = fs::remove_file(pipe);
            rustix::fs::mknodat(CWD, pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("writable");
        }
        let [to, from] = pipes.each_ref().map(|pipe| pipe.display().to_string());
        // As ssh does, it ends when the far end does, and the far end's input when the client's output does.
        let shell = self.top.path().join("pipes/shell");
        fs::write(&shell, format!("exec 3<&0\ncat <&3 >'{from}' &\nexec 3<&-\nexec cat '{to}'\n"))
            .expect("writable");
        let far = std::thread::spawn({
            let pipes = pipes.clone();
            move || {
                let to = OpenOptions::new().write(true).open(&pipes[0])?;
                let mut far = Far::new(File::open(&pipes[1])?, to);
                behave(&mut far)
            }
        });
        let rsh = format!("sh {}", shell.display());
        let mut command = self.linerate(&[&[command, "--rsh", &rsh], args].concat());
        command.env_remove("SSH_CONNECTION");
        Talk { running: Some(Running::start(command)), far: Some(far), pipes }
    }

    /// Runs `linerate cp` to its end, and checks that nothing outside was changed.
    #[track_caller]
    pub fn run(&self, args: &[&str], behave: impl FnOnce(&mut Far) -> Said + Send + 'static) -> Run {
        let run = self.start(args, behave).end_within(DEADLINE);
        self.assert_untouched();
        run
    }

    /// A command that runs the program in the client's directory, with an empty home directory.
    pub fn linerate(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
        command.args(args.iter().map(OsString::from)).current_dir(self.inside());
        command.env("HOME", self.top.path().join("home"));
        command
    }

    /// The text that is in the environment of all processes that [`Ground::linerate`] starts.
    pub fn mark(&self) -> String {
        format!("HOME={}", self.top.path().join("home").display())
    }

    fn outside(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = below(self.top.path());
        all.retain(|path, _| {
            !path.starts_with("in") && !path.starts_with("pipes") && !is_of_journal_key(path)
        });
        all
    }
}

/// Whether a path is the account's journal key or a directory for it; a receiving client keeps the key in its
/// home directory.
fn is_of_journal_key(path: &Path) -> bool {
    let key = Path::new("home/.local/state/linerate/journal.key");
    key.starts_with(path) && path.starts_with("home/.local")
}

impl Talk {
    /// The client.
    pub fn client(&mut self) -> &mut Running {
        self.running.as_mut().expect("it is there until its end")
    }

    /// Interrupts the client when it is `under_way`, and expects the exit code 130 without delay.
    #[track_caller]
    pub fn interrupt(mut self) -> Run {
        self.client().signal(Signal::INT);
        self.end_within(AT_ONCE).exits(130)
    }

    /// Waits for the client's end. Its output must be safe for a terminal, and it must not have panicked.
    #[track_caller]
    pub fn end_within(mut self, patience: Duration) -> Run {
        let run = self.running.take().expect("it ends once").end_within(patience);
        assert!(!run.err.contains("panicked"), "{run}");
        let unfit = |c: char| c.is_control() && c != '\n';
        let shown = [&run.out, &run.err]
            .map(|text| text.find(unfit).map(|at| text[at..].escape_debug().take(80).collect::<String>()));
        assert_eq!(shown, [None, None], "control characters of the far end were printed");
        run
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        drop(self.running.take());
        // A far end that nobody has called yet waits in open(2): these are the callers. None of it blocks.
        let open = |path: &PathBuf| rustix::fs::open(path, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty());
        let callers = self.pipes.each_ref().map(open);
        std::thread::sleep(Duration::from_millis(5));
        drop(callers);
        if let Some(far) = self.far.take()
            && far.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the far end of this test failed");
        }
    }
}

fn below(top: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(path) = waiting.pop() {
        for entry in fs::read_dir(top.join(&path)).expect("readable").flatten() {
            let path = path.join(entry.file_name());
            let kind = entry.file_type().expect("it is there");
            if kind.is_dir() {
                waiting.push(path.clone());
            }
            let contents = if kind.is_file() { contents(&entry.path()) } else { Ok(Vec::new()) };
            found.insert(path, contents.expect("readable"));
        }
    }
    found
}

fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    file.take(1 << 20).read_to_end(&mut bytes)?;
    Ok(bytes)
}
