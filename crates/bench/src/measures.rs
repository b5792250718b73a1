//! Values of a run that are computed from other values.

use crate::record::{Cpu, Measures};

/// The beginning of a warning among a tool's notes. In tool files, such a note has the name "warning".
const WARNING: &str = "warning: ";

impl Measures {
    /// The tool's warnings, for example that the rate and the response times of a closed loop don't agree.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().filter_map(|note| note.strip_prefix(WARNING))
    }

    /// Payload rate over the whole command in Gbit/s.
    pub fn gbit_per_second(&self) -> f64 {
        rate(self.bytes, self.seconds)
    }

    /// Payload rate in Gbit/s over the payload time that the tool reports; over the whole command if it reports
    /// none.
    pub fn payload_gbit_per_second(&self) -> f64 {
        rate(self.bytes, self.payload_seconds.unwrap_or(self.seconds))
    }

    /// CPU of the sending host over the time in which the bytes were counted.
    pub fn sender_cpu(&self) -> &Cpu {
        self.window.as_ref().map_or(&self.cpu_a, |window| &window.cpu_a)
    }

    /// CPU of the receiving host over the time in which the bytes were counted.
    pub fn receiver_cpu(&self) -> &Cpu {
        self.window.as_ref().map_or(&self.cpu_b, |window| &window.cpu_b)
    }

    /// The length of the time in which the bytes were counted, divided by the length of the window whose CPU is
    /// known. A receiver that counts until it has everything counts a little longer than that window.
    pub(crate) fn seconds_of_bytes_by_cpu(&self) -> f64 {
        let window = self.window.map(|window| window.end - window.begin).filter(|seconds| *seconds > 0.0);
        self.payload_seconds.zip(window).map_or(1.0, |(bytes, cpu)| bytes / cpu)
    }

    /// Payload bytes in the direction that had more of them, because a link carries both directions at the same
    /// time.
    pub fn one_way_bytes(&self) -> u64 {
        let back = self.bytes_back.unwrap_or(0).min(self.bytes);
        back.max(self.bytes - back)
    }

    /// Payload rate in Gbit/s of the direction that had more payload.
    pub fn one_way_gbit_per_second(&self) -> f64 {
        rate(self.one_way_bytes(), self.payload_seconds.unwrap_or(self.seconds))
    }
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8e-9 / seconds } else { 0.0 }
}
