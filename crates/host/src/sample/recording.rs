//! Reads a recording.

use std::fmt::{Display, Formatter};

/// The first line of a recording: the name of the format, and its version.
pub const MAGIC: &str = "linerate recording 1";

/// A recording: the texts of a host's counters at several moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The properties that the recording has as a whole.
    pub about: RecordingInfo,
    /// The samples, in the order of their times.
    pub samples: Vec<Sample>,
    /// The kinds of data that couldn't be read, each with the reason.
    pub missing: Vec<(String, String)>,
}

/// The properties of a whole recording.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordingInfo {
    /// The name of the host.
    pub host: String,
    /// The time at which the recording began, in seconds since 1970-01-01 UTC.
    pub started: f64,
    /// The time at which the recording began, in seconds since the host was booted.
    pub boot: f64,
    /// The intended time between two samples, in seconds.
    pub interval: f64,
    /// The number of ticks in a second (USER_HZ); processor times are counted in ticks.
    pub ticks_per_second: u64,
}

/// The data that was read at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The seconds since the recording began, by a monotonic clock.
    pub seconds: f64,
    /// The name and text of each kind of data. Not every sample contains every kind.
    pub texts: Vec<(String, String)>,
}

/// The reason why bytes aren't a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingError {
    /// The first line isn't that of a recording.
    NoRecording,
    /// A line isn't allowed at its position.
    Line {
        /// The number of bytes before the line.
        at: usize,
        /// The line, or its beginning.
        line: String,
    },
}

impl Recording {
    /// Parses a recording. If the last sample was cut off, for example by a crash, it is omitted.
    ///
    /// # Errors
    /// If the bytes aren't a recording, or are damaged.
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordingError> {
        let mut lines = Lines { bytes, at: 0 };
        if lines.next() != Some(MAGIC.as_bytes()) {
            return Err(RecordingError::NoRecording);
        }
        let mut recording = Self::default();
        recording.read(lines)?;
        Ok(recording)
    }

    /// Adds later samples: the result of [`super::Recorder::take`] after the first call.
    ///
    /// # Errors
    /// If the bytes don't continue this recording.
    pub fn extend(&mut self, continuation: &[u8]) -> Result<(), RecordingError> {
        self.read(Lines { bytes: continuation, at: 0 })
    }

    fn read(&mut self, mut lines: Lines<'_>) -> Result<(), RecordingError> {
        loop {
            let at = lines.at;
            let Some(line) = lines.next() else { return Ok(()) };
            match self.take(&String::from_utf8_lossy(line), &mut lines) {
                Some(Taken::Whole) => {}
                Some(Taken::Cut) => {
                    self.samples.pop();
                    return Ok(());
                }
                None => return Err(RecordingError::line(at, line)),
            }
        }
    }

    /// Parses one line with its text; `None` if the line isn't allowed here.
    fn take(&mut self, line: &str, lines: &mut Lines<'_>) -> Option<Taken> {
        let (mark, rest) = line.split_once(' ')?;
        match mark {
            "@" => self.begin(rest),
            "#" => self.text(rest, lines),
            "!" => self.miss(rest),
            _ if self.samples.is_empty() => self.about.set(mark, rest),
            _ => None,
        }
    }

    fn begin(&mut self, seconds: &str) -> Option<Taken> {
        let seconds: f64 = seconds.parse().ok()?;
        let before = self.samples.last().map_or(0.0, |sample| sample.seconds);
        // NaN fails both comparisons, so it is refused too.
        if !(seconds >= before && seconds.is_finite()) {
            return None;
        }
        self.samples.push(Sample { seconds, texts: Vec::new() });
        Some(Taken::Whole)
    }

    fn text(&mut self, rest: &str, lines: &mut Lines<'_>) -> Option<Taken> {
        let (kind, length) = rest.split_once(' ')?;
        let length: usize = length.parse().ok()?;
        let sample = self.samples.last_mut()?;
        let Some(text) = lines.text(length)? else { return Some(Taken::Cut) };
        sample.texts.push((kind.to_owned(), String::from_utf8_lossy(text).into_owned()));
        Some(Taken::Whole)
    }

    fn miss(&mut self, rest: &str) -> Option<Taken> {
        let (kind, reason) = rest.split_once(' ')?;
        self.missing.push((kind.to_owned(), reason.to_owned()));
        Some(Taken::Whole)
    }

    /// Seconds between the first and the last sample.
    pub fn seconds(&self) -> f64 {
        match (self.samples.first(), self.samples.last()) {
            (Some(first), Some(last)) => last.seconds - first.seconds,
            _ => 0.0,
        }
    }

    /// The texts of one kind of data, each with its time in seconds.
    pub fn texts<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (f64, &'a str)> + 'a {
        self.samples.iter().filter_map(move |sample| {
            let (_, text) = sample.texts.iter().find(|(name, _)| name == kind)?;
            Some((sample.seconds, text.as_str()))
        })
    }

    /// Removes samples so that consecutive samples are at least `seconds` seconds apart. The first sample and the last
    /// two samples are always kept. Because counters only increase, no growth between two kept samples is lost.
    pub fn thin(&mut self, seconds: f64) {
        let (mut place, mut kept, last) = (0, f64::NEG_INFINITY, self.samples.len());
        self.samples.retain(|sample| {
            place += 1;
            let stays = sample.seconds >= kept + seconds || place + 1 >= last;
            if stays {
                kept = sample.seconds;
            }
            stays
        });
    }

    /// A recording of only the samples from one second of this recording to another, both inclusive.
    pub fn window(&self, from: f64, to: f64) -> Self {
        let inside = |sample: &&Sample| (from..=to).contains(&sample.seconds);
        let samples = self.samples.iter().filter(inside).cloned().collect();
        Self { about: self.about.clone(), samples, missing: self.missing.clone() }
    }
}

enum Taken {
    Whole,
    /// The bytes end inside the line or its text.
    Cut,
}

impl RecordingInfo {
    /// Sets one property of the recording. Unknown properties are ignored, so that later versions may add
    /// some.
    fn set(&mut self, key: &str, value: &str) -> Option<Taken> {
        let number = || value.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        match key {
            "host" => value.clone_into(&mut self.host),
            "started" => self.started = number()?,
            "boot" => self.boot = number()?,
            "interval" => self.interval = number()?,
            "ticks" => self.ticks_per_second = value.parse().ok().filter(|ticks| *ticks > 0)?,
            _ => {}
        }
        Some(Taken::Whole)
    }
}

impl Display for RecordingInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Self { host, started, boot, interval, ticks_per_second } = self;
        let host: String = host.chars().filter(|c| !c.is_control()).collect();
        write!(f, "host {host}\nstarted {started:.6}\nboot {boot:.6}\ninterval {interval}\n")?;
        writeln!(f, "ticks {ticks_per_second}")
    }
}

impl Display for Recording {
    /// Writes the recording in the format on disk.
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{MAGIC}\n{}", self.about)?;
        for (kind, reason) in &self.missing {
            writeln!(f, "! {kind} {reason}")?;
        }
        for sample in &self.samples {
            writeln!(f, "@ {:.6}", sample.seconds)?;
            for (kind, text) in &sample.texts {
                writeln!(f, "# {kind} {}\n{text}", text.len())?;
            }
        }
        Ok(())
    }
}

impl RecordingError {
    fn line(at: usize, line: &[u8]) -> Self {
        let line = String::from_utf8_lossy(&line[..line.len().min(60)]).escape_debug().to_string();
        Self::Line { at, line }
    }
}

impl Display for RecordingError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRecording => write!(f, "it isn't a recording: its first line isn't \"{MAGIC}\""),
            Self::Line { at, line } => {
                write!(f, "it is damaged: \"{line}\" at byte {at} isn't allowed there")
            }
        }
    }
}

impl std::error::Error for RecordingError {}

/// Reads lines and texts of a recording, one after the other.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    /// The next complete line.
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().position(|&byte| byte == b'\n')?;
        self.at += end + 1;
        Some(&rest[..end])
    }

    /// Reads a text of `length` bytes and the line end after the text. `None` if another byte is in the place of the
    /// line end; `Some(None)` if the bytes end before the line end.
    #[expect(clippy::option_option, reason = "damaged, cut off, or whole")]
    fn text(&mut self, length: usize) -> Option<Option<&'a [u8]>> {
        let rest = &self.bytes[self.at..];
        if rest.len() <= length {
            return Some(None);
        }
        self.at += length + 1;
        (rest[length] == b'\n').then_some(Some(&rest[..length]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "linerate recording 1\nhost a\nstarted 1700000000.5\nboot 20\ninterval 0.25\nticks 100\n\
        later thing\n! queues no driver tells\n@ 0.000001\n# cpu 6\ncpu  1\n@ 0.25\n# cpu 4\n# x\n\n";

    #[test]
    fn texts_come_back_whatever_they_hold() {
        let recording = Recording::parse(TEXT.as_bytes()).unwrap();
        let texts: Vec<_> = recording.texts("cpu").collect();
        assert_eq!(texts, [(0.000_001, "cpu  1"), (0.25, "# x\n")]);
        assert_eq!(recording.about.host, "a");
        assert_eq!((recording.about.interval, recording.about.ticks_per_second), (0.25, 100));
        assert_eq!(recording.missing, [("queues".to_owned(), "no driver tells".to_owned())]);
        assert_eq!(recording.window(0.1, 0.3).samples.len(), 1);
        assert_eq!(Recording::parse(recording.to_string().as_bytes()), Ok(recording.clone()));
        let (begin, rest) = TEXT.split_at(TEXT.find("@ 0.25").unwrap());
        let mut joined = Recording::parse(begin.as_bytes()).unwrap();
        joined.extend(rest.as_bytes()).unwrap();
        assert_eq!(joined, recording);
        assert!(joined.extend(begin.as_bytes()).is_err(), "another recording's beginning");
    }

    #[test]
    fn a_thin_recording_has_its_ends_and_even_steps() {
        let sample = |at: u32| Sample { seconds: f64::from(at) / 4.0, texts: Vec::new() };
        let mut recording = Recording { samples: (0..42).map(sample).collect(), ..Recording::default() };
        recording.thin(1.0);
        let seconds: Vec<f64> = recording.samples.iter().map(|sample| sample.seconds).collect();
        assert_eq!(seconds, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 10.25]);
    }

    #[test]
    fn a_cut_recording_loses_its_last_sample_only() {
        let inside_the_second = TEXT.find("# x").unwrap();
        let recording = Recording::parse(&TEXT.as_bytes()[..inside_the_second]).unwrap();
        assert_eq!(recording.samples.len(), 1);
        for end in MAGIC.len() + 1..TEXT.len() {
            assert!(Recording::parse(&TEXT.as_bytes()[..end]).is_ok(), "cut at {end}");
        }
    }

    #[test]
    fn what_is_damaged_is_reported() {
        assert_eq!(Recording::parse(b"linerate recording 2\n"), Err(RecordingError::NoRecording));
        let damaged = [
            "# cpu 1\nx\n",
            "@ nan\n",
            "@ 1\n@ 0.5\n",
            "@ 1\n# cpu 1\nxy\n",
            "@ 1\nhost b\n",
            "ticks 0\n",
            "word\n",
        ];
        for text in damaged {
            let error = Recording::parse(format!("{MAGIC}\n{text}").as_bytes()).unwrap_err();
            assert!(error.to_string().contains("isn't allowed there"), "{text:?}: {error}");
        }
    }
}
