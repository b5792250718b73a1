//! Counters of each stage of a transfer: busy and waiting time, and bytes. The limiter is named from these.

use serde::{Deserialize, Serialize};

/// One end's stages, summed over its workers. Times are nanoseconds of wall time inside the stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// Stream workers that ran.
    pub workers: u64,
    /// Nanoseconds that the workers existed, summed.
    pub lifetime: u64,
    /// Sender: waiting for the scanner. Receiver: zero.
    pub queue: u64,
    /// Sender: opening and reading files.
    pub read: u64,
    /// Encrypting or decrypting, and checksums.
    pub cipher: u64,
    /// In the socket call: for the sender the peer or the network don't take more, for the receiver nothing
    /// has come; copying between kernel and program is in it. For the sender, waiting at a held rate, too.
    pub socket: u64,
    /// Receiver: creating and writing files.
    pub write: u64,
    /// Held back by a rate limit that the user set.
    pub limit: u64,
    /// Sender: of its lifetime, with the rate held a little below the path's.
    pub held: u64,
    /// Compressing or decompressing.
    pub compress: u64,
    /// Payload bytes, without compression.
    pub bytes: u64,
    /// Bytes that the data connections carried for it: frames and records.
    pub wire: u64,
    /// Payload bytes of frames that travelled compressed.
    pub packed: u64,
    /// Entries.
    pub entries: u64,
    /// Microseconds that TCP had something to send (`tcpi_busy_time`), summed over streams.
    pub tcp_busy: u64,
    /// Microseconds of `tcp_busy` that the receive window was the limit (`tcpi_rwnd_limited`).
    pub tcp_rwnd_limited: u64,
    /// Microseconds of `tcp_busy` that the send buffer was the limit (`tcpi_sndbuf_limited`).
    pub tcp_sndbuf_limited: u64,
    /// Segments sent again.
    pub tcp_retransmits: u64,
    /// Segments sent, those sent again included.
    pub tcp_segments: u64,
    /// How often TCP was asked for what follows: a few times a second for each stream.
    pub tcp_looks: u64,
    /// Sum over these of the smoothed round-trip time in microseconds.
    pub tcp_rtt: u64,
    /// Sum of the shortest round-trip time that the stream has seen by then, in microseconds.
    pub tcp_min_rtt: u64,
    /// Sum of the delivery rates in bytes a second.
    pub tcp_delivery_rate: u64,
    /// Sum of the segment sizes in bytes.
    pub tcp_segment_size: u64,
    /// Sum of the send buffers' sizes in bytes of memory.
    pub tcp_send_buffer: u64,
    /// Sum of the bytes under way: sent and not acknowledged yet.
    pub tcp_in_flight: u64,
    /// How often the send buffer had no room, and all bytes in it were under way.
    pub tcp_send_buffer_full: u64,
    /// Nanoseconds from the first worker's beginning to the last that was heard of any.
    pub span: u64,
    /// Nanoseconds of `lifetime` in which `cpu` and `waited` were counted; 0 if the kernel doesn't count.
    pub clocked: u64,
    /// Nanoseconds of processor time of the workers.
    pub cpu: u64,
    /// Nanoseconds in which workers could have run and no processor was given to them.
    pub waited: u64,
    /// Nanoseconds in which a processor of this host worked, whoever used it, summed over processors. Work at a lower
    /// priority (nice) doesn't count, since it yields.
    pub host_busy: u64,
    /// Nanoseconds of all processors of this host, busy or idle, over which `host_busy` was counted.
    pub host_time: u64,
    /// Nanoseconds of processor time that the end's control group may use in a second; 0 without a quota. Of several
    /// groups, one inside the other, it is the one that was stopped most often.
    pub quota: u64,
    /// Nanoseconds of the quota's period.
    pub quota_period: u64,
    /// Periods in which the group used all of its quota, and was stopped.
    pub quota_stops: u64,
    /// Nanoseconds for which it was stopped, summed over processors.
    pub quota_stopped: u64,
    /// Sender: bits a second of the port by which its streams leave; 0 where that is unknown or only nominal.
    pub link: u64,
}

/// Processor time and memory of one end's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time of the process in seconds, user and system.
    pub cpu_seconds: f64,
    /// Peak resident memory in bytes.
    pub peak_rss_bytes: u64,
    /// Processors on line at that end.
    pub processors: u32,
}
