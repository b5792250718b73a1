//! Samples hosts during a measurement.

use linerate_host::sample::{MAGIC, MOST_BYTES, Recorder, Recording, RecordingError, SamplerOptions};
use linerate_remote::far_end::FarEnd;
use linerate_remote::host_agent::HostAgent;
use linerate_sys::replace::{may_replace, replace};
use linerate_wire::control::Sampling;
use linerate_wire::path::printable;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::common::failure::Failure;
use crate::common::login::{bare_host, not_started, unanswered};
use crate::common::spared::{ReplacedKind, taken};
use crate::exit::Code;

/// One host that is being sampled.
pub struct Host {
    name: String,
    source: SampleSource,
    recording: Recording,
    /// The bytes of the recording so far, in the form in which it is saved.
    bytes: Vec<u8>,
    /// The seconds between two samples that are kept. If there are too many samples, this number is increased.
    spacing: f64,
}

enum SampleSource {
    Here(Box<Recorder>),
    There(Box<HostAgent>),
    /// No source any more: the host was lost, or the sampling has ended.
    Gone,
}

/// The recording of one host.
pub struct Recorded {
    /// The host's name as the user wrote it, or its own name.
    pub name: String,
    /// The recording of the host.
    pub recording: Recording,
}

impl Host {
    /// Starts to sample this host. The sampler follows this process and its descendants, which include the
    /// measured command.
    pub fn here(interval: Duration, names: &[String]) -> Result<Self, Failure> {
        let names = names.to_vec();
        let options = SamplerOptions {
            interval,
            processes: vec![std::process::id()],
            names,
            ..SamplerOptions::default()
        };
        let recorder = Recorder::start(&options);
        let recorder =
            recorder.map_err(|error| Failure::failed(format!("sampling can't be started: {error}")))?;
        let mut host = Self::new(String::new(), SampleSource::Here(Box::new(recorder)))?;
        host.name.clone_from(&host.recording.about.host);
        Ok(host)
    }

    /// Starts to sample another host, through an agent on that host.
    pub fn there(
        far_end: &FarEnd,
        interval: Duration,
        names: &[String],
        interrupted: &AtomicBool,
    ) -> Result<Self, Failure> {
        let name = printable(far_end.host.as_bytes());
        let agent = far_end.start(&|note| message!("linerate: {note}"), interrupted).map_err(|error| {
            let Failure(message, code) = not_started(&error, interrupted);
            Failure(format!("{name}: {message}"), code)
        })?;
        let interval_ms = u32::try_from(interval.as_millis()).unwrap_or(u32::MAX);
        let sampling = Sampling { interval_ms, processes: Vec::new(), names: names.to_vec() };
        let started = HostAgent::over(agent).and_then(|mut agent| {
            agent.start_sampling(&sampling)?;
            Ok(agent)
        });
        let agent = started.map_err(|error| Failure(format!("{name}: {error}"), unanswered(&error)))?;
        Self::new(name, SampleSource::There(Box::new(agent)))
    }

    /// A host, with the heading and the first sample of its recording, which are available immediately.
    fn new(name: String, source: SampleSource) -> Result<Self, Failure> {
        let mut host =
            Self { name, source, recording: Recording::default(), bytes: Vec::new(), spacing: 0.0 };
        let bytes = host.source.take().map_err(|error| host.lost(&error))?;
        host.recording = Recording::parse(&bytes).map_err(|error| host.lost(&error))?;
        host.bytes = bytes;
        host.spacing = host.recording.about.interval;
        Ok(host)
    }

    fn lost(&self, error: &dyn std::error::Error) -> Failure {
        Failure(format!("{}: its recording can't be read: {error}", self.name), Code::FarEnd)
    }

    /// The host's name as the user wrote it, or its own name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The recording so far. If the host is lost, this function reports the loss once, and the recording stays as it
    /// is.
    pub fn look(&mut self) -> &Recording {
        let taken = self.source.take();
        self.add(taken);
        self.thin(MOST_BYTES);
        &self.recording
    }

    /// Limits the recording to `most` bytes, for a view that stays open for days. If the recording is larger, doubles
    /// the time between kept samples until the recording is small enough.
    fn thin(&mut self, most: usize) {
        if self.bytes.len() <= most {
            return;
        }
        while self.recording.samples.len() > 3 {
            // The time is slightly reduced, because a sample may have been taken a little early.
            self.recording.thin(self.spacing * 0.9);
            self.bytes = self.recording.to_string().into_bytes();
            if self.bytes.len() <= most / 8 * 7 {
                return;
            }
            self.spacing *= 2.0;
        }
    }

    /// Ends the recording. If `out` is given, saves the recording there; the second result is the failure to save it.
    pub fn stop(mut self, out: Option<&Path>) -> (Recorded, Result<(), Failure>) {
        let is_here = matches!(self.source, SampleSource::Here(_));
        let taken = match std::mem::replace(&mut self.source, SampleSource::Gone) {
            SampleSource::Here(recorder) => Ok(recorder.stop()),
            SampleSource::There(mut agent) => agent.stop_sampling(),
            SampleSource::Gone => Ok(Vec::new()),
        };
        self.add(taken);
        let kept = out.map_or(Ok(()), |out| {
            let path = if is_here { out.to_owned() } else { beside(out, &self.name) };
            replace(&path, &self.bytes).map_err(|error| not_kept(&path, &error))
        });
        (Recorded { name: self.name, recording: self.recording }, kept)
    }

    fn add(&mut self, taken: io::Result<Vec<u8>>) {
        let added = taken.and_then(|bytes| {
            self.recording.extend(&bytes).map_err(|error: RecordingError| io::Error::other(error))?;
            self.bytes.extend(bytes);
            Ok(())
        });
        if let Err(error) = added {
            message!("linerate: {}: {error}; its later samples are missing", self.name);
            self.source = SampleSource::Gone;
        }
    }
}

impl SampleSource {
    fn take(&mut self) -> io::Result<Vec<u8>> {
        match self {
            Self::Here(recorder) => Ok(recorder.take()),
            Self::There(agent) => agent.take_samples(),
            Self::Gone => Ok(Vec::new()),
        }
    }
}

/// Recordings, as a kind of files that runs may replace.
const RECORDINGS: ReplacedKind =
    ReplacedKind { name: "a recording", begins: |bytes| bytes.starts_with(MAGIC.as_bytes()) };

/// Checks in advance whether the recording of this host can be saved to `out`, and those of `hosts` beside it.
pub fn may_keep(out: &Path, hosts: &[OsString]) -> Result<(), Failure> {
    let others = hosts.iter().map(|host| beside(out, &printable(bare_host(host).as_bytes())));
    [out.to_owned()].into_iter().chain(others).try_for_each(|file| {
        may_replace(&file).map_err(|error| not_kept(&file, &error))?;
        let shown = || printable(file.as_os_str().as_bytes());
        let why = taken(&file, "--out").or_else(|| RECORDINGS.refusal(&file));
        why.map_or(Ok(()), |why| Err(Failure::usage(format!("--out {}: {why}", shown()))))
    })
}

fn not_kept(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("saving the recording in {}: {error}", path.display()))
}

/// The path `OUT.HOST` for the recording of another host. Slashes in the host's name are replaced by underscores.
fn beside(out: &Path, host: &str) -> PathBuf {
    let mut name = OsString::from(out);
    name.push(".");
    name.push(host.replace('/', "_"));
    name.into()
}

/// The first bytes of a zstd frame (RFC 8878, section 3.1.1). The recordings of studies are compressed by zstd.
const COMPRESSED: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The size in bytes of the largest recording that is read. It is far above the recorder's own limit of 64 MiB. A limit
/// is necessary because a few bytes compressed by zstd can expand to any size.
const MOST_READ: u64 = 1 << 30;

/// The contents of a file, decompressed if necessary; at most `most` bytes.
fn unpacked(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = BufReader::new(File::open(path)?);
    let is_compressed = file.fill_buf()?.starts_with(COMPRESSED);
    let mut plain: Box<dyn Read> =
        if is_compressed { Box::new(zstd::Decoder::new(file)?) } else { Box::new(file) };
    let mut bytes = Vec::new();
    plain.by_ref().take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it has more than {} MiB, which is too large for a recording", most >> 20),
        )),
        false => Ok(bytes),
    }
}

/// Reads a saved recording.
pub fn read(path: &Path) -> Result<Recorded, Failure> {
    let reported = |error: &dyn std::fmt::Display| format!("reading {}: {error}", path.display());
    let bytes = unpacked(path, MOST_READ).map_err(|error| Failure(reported(&error), Code::Usage))?;
    let recording = Recording::parse(&bytes).map_err(|error| Failure(reported(&error), Code::Usage))?;
    Ok(Recorded { name: printable(recording.about.host.as_bytes()), recording })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_some_bytes_stand_for_has_a_limit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let bomb = zstd::encode_all(&vec![0; 9 << 20][..], 0).unwrap();
        assert!(bomb.len() < 9 << 10);
        std::fs::write(file.path(), bomb).unwrap();
        assert_eq!(unpacked(file.path(), 9 << 20).unwrap().len(), 9 << 20);
        let error = unpacked(file.path(), 8 << 20).unwrap_err();
        assert!(error.to_string().contains("more than 8 MiB"), "{error}");
        std::fs::write(file.path(), vec![b'x'; 9 << 20]).unwrap();
        assert!(unpacked(file.path(), 8 << 20).is_err());
    }

    #[test]
    fn a_view_that_stays_open_keeps_no_more_than_a_recorder() {
        let heading = b"linerate recording 1\nhost x\nstarted 1\nboot 1\ninterval 0.25\nticks 100\n@ 0.0\n";
        let mut host = Host {
            name: "x".into(),
            source: SampleSource::Gone,
            recording: Recording::parse(heading).unwrap(),
            bytes: heading.to_vec(),
            spacing: 0.25,
        };
        for number in 1..=5000 {
            let at = f64::from(number) / 4.0;
            host.add(Ok(format!("@ {at:.6}\n# cpu 50\n{:50}\n", number).into_bytes()));
            host.thin(20_000);
            assert!(host.bytes.len() <= 20_000);
        }
        assert_eq!(Recording::parse(&host.bytes).unwrap(), host.recording);
        assert!(host.recording.samples.len() > 100 && host.recording.seconds() == 1250.0);
    }
}
