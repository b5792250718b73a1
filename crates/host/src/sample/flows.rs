//! Records the TCP connections of the network namespace, with their values of TCP_INFO.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use linerate_sys::tcp::SendBuffer;

use super::sock_diag::SockDiag;
use super::sockets::followed;
use super::source::TextSource;
use super::{Recording, SampleKind, SamplerOptions, TimeSeries};
use crate::link_rate;

const NAME: &str = "flows";
/// The number of connections with series of their own: those that moved the most bytes.
const SHOWN: usize = 16;

pub(super) const KIND: SampleKind =
    SampleKind { name: NAME, open: |options| Box::new(ConnectionSource::new(options)), series };

struct ConnectionSource {
    sockets: Option<SockDiag>,
    text: String,
    /// For each local address, the rate of the port that has this address.
    links: BTreeMap<IpAddr, Option<u64>>,
}

impl ConnectionSource {
    fn new(options: &SamplerOptions) -> Self {
        let live = options.root.as_os_str() == "/";
        Self {
            sockets: live.then(SockDiag::open).and_then(Result::ok),
            text: String::new(),
            links: BTreeMap::new(),
        }
    }
}

impl TextSource for ConnectionSource {
    fn read(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let Some(sockets) = &mut self.sockets else {
            return Err(io::Error::other("the kernel can't be asked for TCP connections here"));
        };
        self.text.clear();
        sockets.read(&mut self.text)?;
        for line in self.text.lines() {
            text.extend_from_slice(line.as_bytes());
            let near = line.split(' ').next().and_then(|near| near.parse::<SocketAddr>().ok());
            let link =
                near.and_then(|near| *self.links.entry(near.ip()).or_insert_with(|| link_rate(near.ip())));
            if let Some(bits) = link {
                text.extend_from_slice(format!(" link={bits}").as_bytes());
            }
            text.push(b'\n');
        }
        Ok(())
    }
}

/// A TCP connection, from the first sample to the last sample that contains it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// The local address and port number.
    pub near: String,
    /// The other end's address and port number.
    pub far: String,
    /// The name of the congestion control.
    pub congestion: String,
    /// The bytes that were sent and acknowledged during the recording. Bytes that were sent before the first sample of
    /// the recording aren't counted.
    pub bytes_sent: u64,
    /// The bytes received during the recording.
    pub bytes_received: u64,
    /// The bytes in the busier direction between the first and the last sample that contain the connection.
    #[serde(default)]
    pub bytes_seen: u64,
    /// The number of segments retransmitted during the recording.
    pub retransmits: u64,
    /// The median of the smoothed round-trip times, in microseconds.
    pub rtt_us: u64,
    /// The shortest round-trip time that the kernel has measured, in microseconds; 0 if it is unknown.
    #[serde(default)]
    pub min_rtt_us: u64,
    /// The size of a segment in bytes.
    #[serde(default)]
    pub segment_size: u64,
    /// The median of the other end's windows in bytes; 0 if the window was closed most of the time, or is unknown
    /// (before Linux 5.4).
    #[serde(default)]
    pub window: u64,
    /// The share of the samples in which the other end's window was less than half of the largest window in the samples
    /// until then; 0 if the window isn't known.
    #[serde(default)]
    pub window_closed: f64,
    /// The share of the samples in which the send buffer was full and nearly all its bytes were in flight; 0 if the
    /// send buffer's values aren't known.
    #[serde(default)]
    pub send_buffer_full: f64,
    /// The median of the send buffer's size in bytes of memory; 0 if the size isn't known.
    #[serde(default)]
    pub send_buffer: u64,
    /// The median of the bytes in flight.
    #[serde(default)]
    pub in_flight: u64,
    /// The share of the samples in which more unsent bytes than one segment has waited in the send buffer; 0 if the
    /// unsent bytes aren't known.
    #[serde(default)]
    pub waiting: f64,
    /// The share of the samples in which received bytes waited to be read by the program.
    #[serde(default)]
    pub unread: f64,
    /// The rate in bits per second at which the port with the local address may send: the rate of the port, or of its
    /// shaper if that is lower; 0 if neither rate is known, or if the port's rate is only nominal.
    #[serde(default)]
    pub link: u64,
    /// The number of segments with data that were sent and received during the recording; 0 if this number isn't known.
    #[serde(default)]
    pub data_segments: u64,
    /// The median of the delivery rates in bytes per second.
    #[serde(default)]
    pub delivery_rate: u64,
    /// The largest congestion window in segments.
    pub most_cwnd: u64,
    /// The microseconds of the recording in which there was data to send.
    pub busy_us: u64,
    /// The busy microseconds in which the other end's window was the limit.
    pub rwnd_limited_us: u64,
    /// The busy microseconds in which the local send buffer was the limit.
    pub sndbuf_limited_us: u64,
    /// The seconds of the recording at which the first and the last sample with the connection were taken.
    pub seen: (f64, f64),
}

/// All connections in the samples, sorted by their bytes in descending order.
pub fn flows(recording: &Recording) -> Vec<Flow> {
    flows_where(recording, |_| true)
}

/// The connections of the followed processes; all connections if the processes' sockets aren't known.
pub fn flows_of_followed(recording: &Recording) -> Vec<Flow> {
    let Some(sockets) = followed(recording) else { return flows(recording) };
    // For some time, the kernel still shows a closed connection, but without its inode. So it is enough if the inode of
    // one sample is that of a followed process.
    flows_where(recording, |moments| {
        moments.iter().any(|(_, fields)| sockets.contains(&number(fields, "inode")))
    })
}

fn flows_where(recording: &Recording, counts: impl Fn(&ConnectionMoments<'_>) -> bool) -> Vec<Flow> {
    let histories = histories(recording);
    let counted = histories.values().filter(|moments| counts(moments));
    let mut flows: Vec<_> = counted.map(|moments| flow(recording, moments)).collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.bytes_sent.saturating_add(flow.bytes_received)));
    flows
}

type Fields<'a> = BTreeMap<&'a str, &'a str>;
type ConnectionMoments<'a> = Vec<(f64, Fields<'a>)>;

/// The samples of each connection, identified by its addresses and cookie.
fn histories(recording: &Recording) -> BTreeMap<(&str, &str, &str), ConnectionMoments<'_>> {
    let mut all: BTreeMap<_, ConnectionMoments<'_>> = BTreeMap::new();
    for (seconds, text) in recording.texts(NAME) {
        for (near, far, fields) in text.lines().filter_map(parse) {
            let cookie = fields.get("cookie").copied().unwrap_or_default();
            all.entry((near, far, cookie)).or_default().push((seconds, fields));
        }
    }
    all.values_mut().for_each(only_known);
    all.iter_mut().for_each(|((near, far, _), moments)| {
        moments[0].1.insert("near", near);
        moments[0].1.insert("far", far);
    });
    all
}

/// Removes the samples of a closing connection, for which the kernel still knows the addresses but no values.
fn only_known(moments: &mut ConnectionMoments<'_>) {
    let is_known = |fields: &Fields<'_>| number(fields, "mss") > 0;
    if moments.iter().any(|(_, fields)| is_known(fields)) {
        moments.retain(|(_, fields)| is_known(fields));
    }
}

fn parse(line: &str) -> Option<(&str, &str, Fields<'_>)> {
    let mut words = line.split(' ');
    let (near, far) = (words.next()?, words.next()?);
    Some((near, far, words.filter_map(|word| word.split_once('=')).collect()))
}

fn number(fields: &Fields<'_>, name: &str) -> u64 {
    fields.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn flow(recording: &Recording, moments: &ConnectionMoments<'_>) -> Flow {
    let (Some((from, first)), Some((to, last))) = (moments.first(), moments.last()) else {
        return Flow::default();
    };
    let text = |name| first.get(name).copied().unwrap_or_default().to_owned();
    // If the connection was opened during the recording, it has moved all its bytes during the recording.
    let is_old = recording.samples.first().is_none_or(|sample| sample.seconds == *from);
    let grown = |name| number(last, name).saturating_sub(if is_old { number(first, name) } else { 0 });
    let between = |name| number(last, name).saturating_sub(number(first, name));
    let median = |name| {
        let mut values: Vec<_> = moments.iter().map(|(_, fields)| number(fields, name)).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    Flow {
        near: text("near"),
        far: text("far"),
        congestion: text("congestion"),
        bytes_sent: grown("bytes_acked"),
        bytes_received: grown("bytes_received"),
        bytes_seen: between("bytes_acked").max(between("bytes_received")),
        retransmits: grown("retrans"),
        rtt_us: median("rtt"),
        min_rtt_us: number(last, "min_rtt"),
        segment_size: number(last, "mss"),
        window: median("snd_wnd"),
        window_closed: closed(moments),
        send_buffer_full: share_of(moments, is_send_buffer_full),
        send_buffer: median("sndbuf"),
        in_flight: median("unacked").saturating_mul(number(last, "mss")),
        waiting: share_of(moments, |fields| number(fields, "notsent") > number(fields, "mss")),
        unread: share_of(moments, |fields| number(fields, "rqueue") > 0),
        link: number(last, "link"),
        data_segments: grown("data_segs_in").saturating_add(grown("data_segs_out")),
        delivery_rate: median("delivery_rate"),
        most_cwnd: moments.iter().map(|(_, fields)| number(fields, "cwnd")).max().unwrap_or(0),
        busy_us: grown("busy"),
        rwnd_limited_us: grown("rwnd_limited"),
        sndbuf_limited_us: grown("sndbuf_limited"),
        seen: (*from, *to),
    }
}

fn share_of(moments: &ConnectionMoments<'_>, is: impl Fn(&Fields<'_>) -> bool) -> f64 {
    moments.iter().filter(|(_, fields)| is(fields)).count() as f64 / moments.len().max(1) as f64
}

fn is_send_buffer_full(fields: &Fields<'_>) -> bool {
    let of = |name| number(fields, name);
    let in_flight = of("unacked").saturating_mul(of("mss"));
    SendBuffer { size: of("sndbuf"), queued: of("wmem_queued") }.limits(of("notsent"), in_flight)
}

/// The share of the samples in which the window was closed. Each window is compared with the largest window until then,
/// so that a window that is still growing doesn't count as closed.
fn closed(moments: &ConnectionMoments<'_>) -> f64 {
    let mut largest = 0;
    let is_closed = |window: u64| {
        largest = largest.max(window);
        window < largest.div_ceil(2)
    };
    let windows = moments.iter().map(|(_, fields)| number(fields, "snd_wnd"));
    windows.map(is_closed).filter(|is_closed| *is_closed).count() as f64 / moments.len().max(1) as f64
}

/// Series over time: the number of all connections, and the rates and TCP values of the connections that moved the most
/// bytes.
fn series(recording: &Recording) -> Vec<TimeSeries> {
    let count = |(seconds, text): (f64, &str)| (seconds, text.lines().filter_map(parse).count() as f64);
    let counts: Vec<_> = recording.texts(NAME).map(count).collect();
    if counts.is_empty() {
        return Vec::new();
    }
    let mut all = vec![TimeSeries::new(NAME, "all", "connections", counts)];
    let mut histories: Vec<_> =
        histories(recording).into_values().filter(|moments| moments.len() > 1).collect();
    histories.sort_by_key(|moments| std::cmp::Reverse(moved(moments)));
    all.extend(histories.iter().take(SHOWN).flat_map(of_flow));
    all
}

fn moved(moments: &ConnectionMoments<'_>) -> u64 {
    let sum =
        |fields: &Fields<'_>| number(fields, "bytes_acked").saturating_add(number(fields, "bytes_received"));
    let (first, last) = (moments.first(), moments.last());
    last.map_or(0, |last| sum(&last.1)).saturating_sub(first.map_or(0, |first| sum(&first.1)))
}

fn of_flow(moments: &ConnectionMoments<'_>) -> Vec<TimeSeries> {
    let named = |name: &str| moments[0].1.get(name).copied().unwrap_or_default();
    let title = format!("{} > {}", named("near"), named("far"));
    let gauge = |what: &str, field: &str, unit: &str, scale: f64| {
        let points = moments.iter().map(|(at, fields)| (*at, number(fields, field) as f64 * scale)).collect();
        TimeSeries::new(NAME, &format!("{title} {what}"), unit, points)
    };
    let rate = |what: &str, field: &str, unit: &str, scale: f64| {
        let step = |pair: &[(f64, Fields<'_>)]| {
            let ((from, earlier), (to, later)) = (&pair[0], &pair[1]);
            let grown = number(later, field).saturating_sub(number(earlier, field)) as f64;
            (to > from).then(|| (*to, grown * scale / (to - from)))
        };
        TimeSeries::new(NAME, &format!("{title} {what}"), unit, moments.windows(2).filter_map(step).collect())
    };
    vec![
        rate("sent", "bytes_acked", "bit/s", 8.0),
        rate("received", "bytes_received", "bit/s", 8.0),
        rate("retransmits", "retrans", "1/s", 1.0),
        gauge("rtt", "rtt", "ms", 1e-3),
        gauge("cwnd", "cwnd", "segments", 1.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Sampler, recording_of};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;

    #[test]
    fn a_window_that_falls_is_closed_and_one_that_grows_is_not() {
        let closed = |windows: &[u64]| {
            let texts: Vec<String> =
                windows.iter().map(|window| format!("a:1 b:2 state=1 snd_wnd={window}\n")).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            flows(&recording_of(NAME, &texts))[0].window_closed
        };
        // These values were reported by the kernel for a receiver that doesn't read.
        assert_eq!(closed(&[75776, 0, 0, 0, 2048, 0, 0, 0]), 7.0 / 8.0);
        assert_eq!(closed(&[65536, 131_072, 1 << 20, 1 << 20, 900_000]), 0.0);
        assert_eq!(closed(&[0, 0, 0]), 0.0, "not known");
    }

    #[test]
    fn a_closing_connection_keeps_the_values_that_it_had() {
        let open = |bytes| {
            format!("a:1 b:2 state=1 cookie=7 inode=9 mss=1448 bytes_acked={bytes} min_rtt=7 busy=5\n")
        };
        let texts = [String::new(), open(1000), open(5000), "a:1 b:2 state=6 cookie=7 inode=0\n".into()];
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let flows = flows(&recording_of("flows", &texts));
        let [flow] = flows.as_slice() else { panic!("{flows:?}") };
        assert_eq!((flow.bytes_sent, flow.bytes_seen, flow.min_rtt_us, flow.busy_us), (5000, 4000, 7, 5));
    }

    #[test]
    fn a_send_buffer_is_full_where_nothing_in_it_waits_to_be_sent() {
        // These values were reported by the kernel on a path of 20 ms, with a maximum of net.ipv4.tcp_wmem of
        // 64 KiB and of 4 MiB.
        let small = "a:1 b:2 state=1 mss=1448 unacked=46 notsent=0 sndbuf=65536 wmem_queued=68158\n";
        let large =
            "a:1 b:2 state=1 mss=1448 unacked=470 notsent=564720 sndbuf=2161152 wmem_queued=1281888\n";
        let of = |texts: &[&str]| flows(&recording_of(NAME, texts)).remove(0);
        let full = of(&[small, small, &small.replace("68158", "0"), small]);
        assert_eq!((full.send_buffer_full, full.send_buffer, full.in_flight), (0.75, 65536, 66_608));
        assert_eq!(of(&[large, large]).send_buffer_full, 0.0);
        assert_eq!(of(&["a:1 b:2 state=1 unacked=46\n"]).send_buffer_full, 0.0, "not known");
    }

    #[test]
    fn bytes_that_nobody_reads_are_seen() {
        let text = |queue: u64| format!("a:1 b:2 state=1 rqueue={queue}\n");
        assert_eq!(flows(&recording_of(NAME, &[&text(0), &text(9000), &text(65536)]))[0].unread, 2.0 / 3.0);
    }

    /// Both ends of a TCP connection over loopback.
    fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn connections_of_other_processes_are_not_the_followed_ones() {
        // The child process gets one end of this connection, and no other process has that end open.
        let (given, mut of_child) = connection();
        let near = given.local_addr().unwrap().to_string();
        let mut command = std::process::Command::new("cat");
        let mut child =
            command.stdin(OwnedFd::from(given)).stdout(std::process::Stdio::null()).spawn().unwrap();
        drop(command);
        let (beside, mut other) = connection();
        let options = SamplerOptions { processes: vec![child.id()], ..SamplerOptions::default() };
        let mut sampler = Sampler::new(&options);
        let mut bytes = sampler.heading();
        for _ in 0..2 {
            of_child.write_all(&[7; 1000]).unwrap();
            other.write_all(&[7; 50_000]).unwrap();
            sampler.sample(true, &mut bytes);
        }
        drop(of_child);
        child.wait().unwrap();
        let recording = Recording::parse(&bytes).unwrap();
        let all: Vec<String> = flows(&recording).into_iter().map(|flow| flow.near).collect();
        assert!(all.contains(&beside.local_addr().unwrap().to_string()) && all.contains(&near), "{all:?}");
        let counted: Vec<String> = flows_of_followed(&recording).into_iter().map(|flow| flow.near).collect();
        assert_eq!(counted, [near]);
    }

    #[test]
    fn a_connection_is_followed_by_its_cookie() {
        let text = |acked: u64, rtt: u64| {
            format!(
                "10.0.0.1:1 10.0.0.2:80 state=1 cookie=1 congestion=cubic bytes_acked={acked} rtt={rtt} cwnd=10 \
                 snd_wnd=65536 link=10000000000 data_segs_in=3 data_segs_out={}\n",
                acked / 1000
            )
        };
        let again = |acked| text(acked, 7).replace("cookie=1", "cookie=2");
        let recording = recording_of(NAME, &[&text(1000, 50), &text(9000, 70), &again(5)]);
        let found = flows(&recording);
        assert_eq!((found.len(), found[0].bytes_sent, found[1].bytes_sent), (2, 8000, 5));
        assert_eq!((found[0].window, found[0].link), (65536, 10_000_000_000));
        assert_eq!((found[0].data_segments, found[1].data_segments), (8, 3));
        assert_eq!(
            (found[0].bytes_seen, found[1].bytes_seen),
            (8000, 0),
            "of a moment alone there is no rate"
        );
        assert_eq!((found[0].rtt_us, found[0].seen, &*found[0].congestion), (70, (0.0, 1.0), "cubic"));
        let series = series(&recording);
        assert_eq!(series[0].points, [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)]);
        let sent = series.iter().find(|s| s.name == "10.0.0.1:1 > 10.0.0.2:80 sent").unwrap();
        assert_eq!(sent.points, [(1.0, 64_000.0)]);
    }
}
