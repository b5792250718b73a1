//! Counters for each stage of a transfer: busy time, waiting time and bytes. These counters show what limits the
//! transfer.

use serde::{Deserialize, Serialize};

/// The counters of one end's stages, summed over its workers. Unless a field states another unit, times are nanoseconds
/// of wall time inside the stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stages {
    /// The number of workers, the threads that each serve one stream.
    pub workers: u64,
    /// Nanoseconds for which the workers existed, summed over workers.
    pub lifetime: u64,
    /// At the sender: time spent waiting for the scanner. At the receiver: 0.
    pub queue: u64,
    /// At the sender: time spent opening and reading files.
    pub read: u64,
    /// Time spent encrypting or decrypting, and computing checksums.
    pub cipher: u64,
    /// Time in the socket call. At the sender, this is mostly time in which the other end or the network accepts no
    /// more data; at the receiver, time in which no data has arrived. The time includes copying between kernel and
    /// program, and at the sender also the waits by which the rate is held below the path's rate.
    pub socket: u64,
    /// At the receiver: time spent creating and writing files.
    pub write: u64,
    /// Time spent waiting because of the user's rate limit.
    pub limit: u64,
    /// At the sender: the part of `lifetime` in which the rate was held slightly below the path's rate.
    pub held: u64,
    /// At the sender: time spent waiting for the compressor. At the receiver: time spent decompressing.
    pub compress: u64,
    /// Payload bytes, before compression.
    pub bytes: u64,
    /// Bytes that the data connections carried for the payload, including frames and records.
    pub wire: u64,
    /// Payload bytes (before compression) of the frames that were sent compressed.
    pub packed: u64,
    /// The number of entries.
    pub entries: u64,
    /// Microseconds in which TCP had something to send (`tcpi_busy_time`), summed over streams.
    pub tcp_busy: u64,
    /// Microseconds of `tcp_busy` in which the receive window was the limit (`tcpi_rwnd_limited`).
    pub tcp_rwnd_limited: u64,
    /// Microseconds of `tcp_busy` in which the send buffer was the limit (`tcpi_sndbuf_limited`).
    pub tcp_sndbuf_limited: u64,
    /// The number of retransmitted segments.
    pub tcp_retransmits: u64,
    /// The number of segments sent, including retransmissions.
    pub tcp_segments: u64,
    /// The number of samples of TCP's state, of which there are a few per second for each stream. The next fields are
    /// sums over these samples.
    pub tcp_looks: u64,
    /// The sum, over the samples of TCP's state, of the smoothed round-trip time in microseconds.
    pub tcp_rtt: u64,
    /// The sum, over the samples of TCP's state, of the stream's shortest round-trip time so far, in microseconds.
    pub tcp_min_rtt: u64,
    /// The sum, over the samples of TCP's state, of the delivery rate in bytes per second.
    pub tcp_delivery_rate: u64,
    /// The sum, over the samples of TCP's state, of the segment size in bytes.
    pub tcp_segment_size: u64,
    /// The sum, over the samples of TCP's state, of the send buffer's size in bytes of memory.
    pub tcp_send_buffer: u64,
    /// The sum, over the samples of TCP's state, of the bytes in flight, which were sent and not yet acknowledged.
    pub tcp_in_flight: u64,
    /// The number of samples of TCP's state in which at least a third of the send buffer was in use, nearly all of it
    /// by bytes in flight.
    pub tcp_send_buffer_full: u64,
    /// Nanoseconds from the start of the first worker to the last update by any worker.
    pub span: u64,
    /// Nanoseconds of `lifetime` for which `cpu` and `waited` were counted; 0 if the kernel doesn't count these two
    /// times.
    pub clocked: u64,
    /// Nanoseconds of processor time of the workers.
    pub cpu: u64,
    /// Nanoseconds in which workers were ready to run but had no processor.
    pub waited: u64,
    /// Nanoseconds in which the processors that this end may use were busy with work of any process, summed over them.
    /// Work at a lower priority (nice) isn't counted, because it gives way to other work.
    pub host_busy: u64,
    /// Nanoseconds of these processors, busy or idle, in the time for which `host_busy` was counted.
    pub host_time: u64,
    /// Nanoseconds of processor time that the end's control group may use in a second; 0 without a quota. If several
    /// nested groups have a quota, this is the quota of the group that was throttled most often.
    pub quota: u64,
    /// The length of the quota's period in nanoseconds.
    pub quota_period: u64,
    /// The number of periods in which the group used up its quota and was throttled.
    pub quota_stops: u64,
    /// Nanoseconds for which the group was throttled, summed over processors.
    pub quota_stopped: u64,
    /// At the sender: the rate, in bits per second, of the port that the streams use, or the rate of the port's shaper
    /// if that is lower. 0 if there is no shaper and the port's rate is unknown or only nominal.
    pub link: u64,
}

/// The processor time and memory that one end's process has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// The processor time of the process, and of its child processes that have ended, in seconds, in user and kernel
    /// mode.
    pub cpu_seconds: f64,
    /// The peak of the process's resident memory in bytes.
    pub peak_rss_bytes: u64,
    /// The number of processors that the process may use.
    pub processors: u32,
}
