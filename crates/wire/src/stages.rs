//! Counters of each stage of a transfer: busy time, waiting time, and bytes. The limiter is determined from these.

use serde::{Deserialize, Serialize};

/// One end's stages, summed over its workers. Times are nanoseconds of wall time inside the stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// Stream workers that ran.
    pub workers: u64,
    /// Nanoseconds for which the workers existed, summed.
    pub lifetime: u64,
    /// Sender: waiting for the scanner. Receiver: zero.
    pub queue: u64,
    /// Sender: opening and reading files.
    pub read: u64,
    /// Encrypting or decrypting, and checksums.
    pub cipher: u64,
    /// Time in the socket call. For the sender: the peer or the network don't take more data. For the receiver: no data
    /// has arrived. It includes copying between kernel and program, and for the sender also the wait for a held rate.
    pub socket: u64,
    /// Receiver: creating and writing files.
    pub write: u64,
    /// Waiting because of a rate limit that the user set.
    pub limit: u64,
    /// Sender: the part of its lifetime in which the rate was held slightly below the path's.
    pub held: u64,
    /// Compressing or decompressing.
    pub compress: u64,
    /// Payload bytes, before compression.
    pub bytes: u64,
    /// Bytes that the data connections carried for the payload, including frames and records.
    pub wire: u64,
    /// Payload bytes of frames that were sent compressed, before compression.
    pub packed: u64,
    /// Entries.
    pub entries: u64,
    /// Microseconds that TCP had something to send (`tcpi_busy_time`), summed over streams.
    pub tcp_busy: u64,
    /// Microseconds of `tcp_busy` in which the receive window was the limit (`tcpi_rwnd_limited`).
    pub tcp_rwnd_limited: u64,
    /// Microseconds of `tcp_busy` in which the send buffer was the limit (`tcpi_sndbuf_limited`).
    pub tcp_sndbuf_limited: u64,
    /// Segments retransmitted.
    pub tcp_retransmits: u64,
    /// Segments sent, including those retransmitted.
    pub tcp_segments: u64,
    /// The number of TCP samples on which the following sums are based: a few a second for each stream.
    pub tcp_looks: u64,
    /// Sum over these samples of the smoothed round-trip time in microseconds.
    pub tcp_rtt: u64,
    /// Sum of the shortest round-trip time that the stream had measured so far, in microseconds.
    pub tcp_min_rtt: u64,
    /// Sum of the delivery rates in bytes a second.
    pub tcp_delivery_rate: u64,
    /// Sum of the segment sizes in bytes.
    pub tcp_segment_size: u64,
    /// Sum of the send buffers' sizes in bytes of memory.
    pub tcp_send_buffer: u64,
    /// Sum of the bytes in flight: sent and not yet acknowledged.
    pub tcp_in_flight: u64,
    /// The number of samples in which the send buffer was full, and all its bytes were in flight.
    pub tcp_send_buffer_full: u64,
    /// Nanoseconds from the start of the first worker to the latest update by any worker.
    pub span: u64,
    /// Nanoseconds of `lifetime` for which `cpu` and `waited` were counted; 0 if the kernel doesn't count them.
    pub clocked: u64,
    /// Nanoseconds of processor time of the workers.
    pub cpu: u64,
    /// Nanoseconds in which workers were ready to run but had no processor.
    pub waited: u64,
    /// Nanoseconds in which the processors of this host were busy, with work of any process, summed over processors.
    /// Work at a lower priority (nice) doesn't count, since it yields.
    pub host_busy: u64,
    /// Nanoseconds of all processors of this host, busy or idle, in the time for which `host_busy` was counted.
    pub host_time: u64,
    /// Nanoseconds of processor time that the end's control group may use in a second; 0 without a quota. If several
    /// nested groups have a quota, it is that of the group that was throttled most often.
    pub quota: u64,
    /// Length of the quota's period in nanoseconds.
    pub quota_period: u64,
    /// Periods in which the group used up its quota and was throttled.
    pub quota_stops: u64,
    /// Nanoseconds for which the group was throttled, summed over processors.
    pub quota_stopped: u64,
    /// Sender: the rate of the port that its streams use, in bits a second, or that of its shaper if that is lower; 0 if neither is
    /// known, or the port's is only nominal.
    pub link: u64,
}

/// Processor time and memory of one end's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time of the process in seconds, user and system.
    pub cpu_seconds: f64,
    /// Peak resident memory in bytes.
    pub peak_rss_bytes: u64,
    /// Processors online at that end.
    pub processors: u32,
}
