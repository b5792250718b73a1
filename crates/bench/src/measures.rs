//! Values of a run that are computed from other values.

use crate::record::{Cpu, Measures};

/// The beginning of a warning among a tool's notes. In tool files, such a note has the name "warning".
const WARNING: &str = "warning: ";

impl Measures {
    /// The tool's warnings, for example that a closed loop's rate and response times don't agree.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().filter_map(|note| note.strip_prefix(WARNING))
    }

    /// The payload rate over the whole command, in Gbit/s.
    pub fn gbit_per_second(&self) -> f64 {
        rate(self.bytes, self.seconds)
    }

    /// The payload rate in Gbit/s over the payload time that the tool reports; if the tool reports none, over
    /// the whole command.
    pub fn payload_gbit_per_second(&self) -> f64 {
        rate(self.bytes, self.payload_seconds.unwrap_or(self.seconds))
    }

    /// The processor time of the sending host, over the time in which the bytes were counted.
    pub fn sender_cpu(&self) -> &Cpu {
        self.window.as_ref().map_or(&self.cpu_a, |window| &window.cpu_a)
    }

    /// The processor time of the receiving host, over the time in which the bytes were counted.
    pub fn receiver_cpu(&self) -> &Cpu {
        self.window.as_ref().map_or(&self.cpu_b, |window| &window.cpu_b)
    }

    /// The length of the time in which the bytes were counted, divided by the length of the window whose CPU is known.
    /// The ratio is above 1 if the receiver counts until all data has arrived, slightly after the end of the window.
    pub(crate) fn seconds_of_bytes_by_cpu(&self) -> f64 {
        let window = self.window.map(|window| window.end - window.begin).filter(|seconds| *seconds > 0.0);
        self.payload_seconds.zip(window).map_or(1.0, |(bytes, cpu)| bytes / cpu)
    }

    /// The payload bytes in the direction that had more of them. A link carries both directions at the same time, so
    /// the bytes of the two directions aren't added.
    pub fn one_way_bytes(&self) -> u64 {
        let back = self.bytes_back.unwrap_or(0).min(self.bytes);
        back.max(self.bytes - back)
    }

    /// The payload rate in Gbit/s of the direction that had more payload.
    pub fn one_way_gbit_per_second(&self) -> f64 {
        rate(self.one_way_bytes(), self.payload_seconds.unwrap_or(self.seconds))
    }
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8e-9 / seconds } else { 0.0 }
}
