//! Counters of each stage of a transfer: busy time, waiting time and bytes. From these counters the limiter
//! is determined.

use serde::{Deserialize, Serialize};

/// One end's stages, summed over its workers. Times are nanoseconds of wall time inside the stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// The number of stream workers that ran.
    pub workers: u64,
    /// Nanoseconds for which the workers existed, summed over workers.
    pub lifetime: u64,
    /// At the sender: time spent waiting for the scanner. At the receiver: 0.
    pub queue: u64,
    /// At the sender: time spent opening and reading files.
    pub read: u64,
    /// Time spent encrypting or decrypting, and computing checksums.
    pub cipher: u64,
    /// Time in the socket call. At the sender, the other end or the network accepts no more data; at the receiver,
    /// no data has arrived. The time includes copying between kernel and program, and at the sender also the
    /// wait for a held rate.
    pub socket: u64,
    /// At the receiver: time spent creating and writing files.
    pub write: u64,
    /// Time spent waiting because of the user's rate limit.
    pub limit: u64,
    /// At the sender: the part of `lifetime` in which the rate was held slightly below the path's.
    pub held: u64,
    /// Time spent compressing or decompressing.
    pub compress: u64,
    /// Payload bytes, before compression.
    pub bytes: u64,
    /// Bytes that the data connections carried for the payload, including frames and records.
    pub wire: u64,
    /// Payload bytes (before compression) of the frames that were sent compressed.
    pub packed: u64,
    /// The number of entries.
    pub entries: u64,
    /// Microseconds that TCP had something to send (`tcpi_busy_time`), summed over streams.
    pub tcp_busy: u64,
    /// Microseconds of `tcp_busy` in which the receive window was the limit (`tcpi_rwnd_limited`).
    pub tcp_rwnd_limited: u64,
    /// Microseconds of `tcp_busy` in which the send buffer was the limit (`tcpi_sndbuf_limited`).
    pub tcp_sndbuf_limited: u64,
    /// The number of retransmitted segments.
    pub tcp_retransmits: u64,
    /// The number of segments sent, including retransmissions.
    pub tcp_segments: u64,
    /// The number of samples of TCP's state on which the following sums are based: a few per second for each
    /// stream.
    pub tcp_looks: u64,
    /// The sum, over these samples, of the smoothed round-trip time in microseconds.
    pub tcp_rtt: u64,
    /// The sum, over these samples, of the stream's shortest round-trip time so far, in microseconds.
    pub tcp_min_rtt: u64,
    /// The sum, over these samples, of the delivery rate in bytes per second.
    pub tcp_delivery_rate: u64,
    /// The sum, over these samples, of the segment size in bytes.
    pub tcp_segment_size: u64,
    /// The sum, over these samples, of the send buffer's size in bytes of memory.
    pub tcp_send_buffer: u64,
    /// The sum, over these samples, of the bytes in flight, which were sent and not yet acknowledged.
    pub tcp_in_flight: u64,
    /// The number of samples in which the send buffer was full with bytes in flight.
    pub tcp_send_buffer_full: u64,
    /// Nanoseconds from the start of the first worker to the latest update by any worker.
    pub span: u64,
    /// Nanoseconds of `lifetime` for which `cpu` and `waited` were counted; 0 if the kernel doesn't count them.
    pub clocked: u64,
    /// Nanoseconds of processor time of the workers.
    pub cpu: u64,
    /// Nanoseconds in which workers were ready to run but had no processor.
    pub waited: u64,
    /// Nanoseconds in which the processors of this host were busy, with work of any process, summed over
    /// processors. Work at a lower priority (nice) isn't counted, since it gives way to other work.
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
    /// At the sender: the rate of the port that its streams use in bits per second, or the rate of the port's
    /// shaper if that is lower. 0 if neither is known, or if the port's rate is only nominal.
    pub link: u64,
}

/// Processor time and memory of one end's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The processor time of the process in seconds, user and system.
    pub cpu_seconds: f64,
    /// Peak resident memory in bytes.
    pub peak_rss_bytes: u64,
    /// The number of processors that are online at that end.
    pub processors: u32,
}
