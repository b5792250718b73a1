//! The cases of the race: each has data, a path, and the command lines of the programs that move the data.

use super::OURS;
use crate::setup;

/// A case of the race.
pub struct RaceCase {
    pub name: &'static str,
    pub about: &'static str,
    /// The links between the two hosts, each with its own test bed; empty for a case within one host.
    pub links: &'static [RaceLink],
    pub data: RaceData,
    pub racers: &'static [Racer],
    /// The processor time that each end may use, in processors; `None` without a limit.
    pub quota: Option<f64>,
    /// True if the data is on the disk and is read from there, and false if it is on a tmpfs.
    pub on_disk: bool,
    pub bounds: &'static [RaceBound],
}

/// The figure that a bound compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceFigure {
    /// The time of the whole command.
    Whole,
    /// The programs' own times for the data.
    Own,
    /// The processor time of the whole machine.
    Processors,
    /// The bytes on the link.
    Bytes,
}

/// The largest ratio of linerate's figure to another racer's that is required.
pub struct RaceBound {
    pub figure: RaceFigure,
    /// The other racer, or [`FIXED`].
    pub other: &'static str,
    pub at_most: f64,
}

/// Stands for the best racer with a fixed number of streams.
pub const FIXED: &str = "the best fixed number of streams";

const fn bound(figure: RaceFigure, other: &'static str, at_most: f64) -> RaceBound {
    RaceBound { figure, other, at_most }
}

/// The number of streams that linerate chooses is at least as good as the best fixed number, but for 3 %.
const AUTO: RaceBound = bound(RaceFigure::Whole, FIXED, 1.0 / 0.97);

/// Parallel links between two hosts.
#[derive(Clone, Copy)]
pub struct RaceLink {
    /// The number of parallel links.
    pub count: u32,
    /// The rate of each link, or `open`.
    pub rate: &'static str,
    /// The round-trip time that the path adds, and its share of lost segments.
    pub path: Option<(&'static str, &'static str)>,
}

const fn link(rate: &'static str) -> RaceLink {
    RaceLink { count: 1, rate, path: None }
}

const fn long(rate: &'static str, rtt: &'static str, loss: &'static str) -> RaceLink {
    RaceLink { count: 1, rate, path: Some((rtt, loss)) }
}

/// The data that is moved.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RaceData {
    /// 2 GB of random bytes: 1,100 files of 0.7 MB and 150 of 8 MB.
    Mix,
    /// A tenth of the files of [`RaceData::Mix`], of the same sizes.
    LittleMix,
    /// 40 MB of random bytes: 22 files of 0.7 MB and 4 of 6 MB.
    LeastMix,
    /// 20,000 files of 8 KB.
    Small,
    /// 1,000,000 files of 1 KB.
    Million,
    /// A file of 2 GB.
    Single,
    /// A file of one byte.
    Byte,
    /// The source code of Linux, which compresses well.
    Sources,
    /// 100,000 files of 100 bytes, which the destination already has.
    Unchanged,
    /// A file of 1 GB. The destination has an older version of it, which lacks an inserted part of 1 MiB.
    Inserted,
    /// A file of 1 GB that has nothing in common with its older version.
    AllNew,
}

/// A program in a race. In its line, `{linerate}` is the program under test, `{from}` and `{to}` are the source and the
/// destination, and `{older}` is the older version. `{ssh}` is the remote shell, `{config}` its configuration,
/// `{address}` the address of the far host, `{bytes}` the size of the data, and `{wdt}` and `{iperf3}` are the scripts that
/// run both ends of these programs. A program that isn't installed is left out.
pub struct Racer {
    pub name: &'static str,
    pub line: &'static str,
    /// The index of the link in the case's list over which the program runs.
    pub over: usize,
}

const fn racer(name: &'static str, line: &'static str) -> Racer {
    Racer { name, line, over: 0 }
}

const WITHIN: &[Racer] = &[
    racer("linerate", "{linerate} cp -q -a {from}/. {to}/"),
    racer("cp -a", "cp -a {from}/. {to}/"),
    racer("rsync -a", "rsync -a {from}/ {to}/"),
    racer("syq", "syq rsync -a -q --no-progress {from}/ {to}/"),
];

impl Racer {
    /// The name of the racer's program.
    pub fn program(&self) -> &'static str {
        let line = self.line.strip_prefix("sh ").unwrap_or(self.line);
        line.split(' ').next().unwrap_or_default().trim_matches(['{', '}'])
    }

    /// Whether the racer's program is installed.
    pub fn is_here(&self) -> bool {
        self.program() == OURS || setup::is_there(self.program())
    }
}

/// The fields of a case that most cases don't need.
const PLAIN: RaceCase = RaceCase {
    name: "",
    about: "",
    links: &[],
    data: RaceData::Mix,
    racers: &[],
    quota: None,
    on_disk: false,
    bounds: &[],
};

/// linerate with the number of streams that it chooses itself, linerate with fixed numbers of streams, and other
/// programs, followed by `further` racers.
macro_rules! streams {
    ($($further:expr),*) => {
        &[
            racer("linerate", "{linerate} cp --json -a -F {config} {from}/. {to}/"),
            racer("--streams 1", "{linerate} cp -q -a --streams 1 -F {config} {from}/. {to}/"),
            racer("--streams 2", "{linerate} cp -q -a --streams 2 -F {config} {from}/. {to}/"),
            racer("--streams 4", "{linerate} cp -q -a --streams 4 -F {config} {from}/. {to}/"),
            racer("--streams 8", "{linerate} cp -q -a --streams 8 -F {config} {from}/. {to}/"),
            racer("--streams 16", "{linerate} cp -q -a --streams 16 -F {config} {from}/. {to}/"),
            racer("rsync -a", "rsync -a -e {ssh} {from}/ {to}/"),
            racer("syq", "syq rsync -a -q --no-progress --no-compress -e {ssh} {from}/ {to}/"),
            racer("wdt, plain 1", "sh {wdt} {config} {address} {from} {to} -num_ports 1 -encryption_type none"),
            racer("wdt, plain 8", "sh {wdt} {config} {address} {from} {to} -num_ports 8 -encryption_type none"),
            racer("wdt, AES 1", "sh {wdt} {config} {address} {from} {to} -num_ports 1"),
            $($further),*
        ]
    };
}

const STREAMS: &[Racer] = streams!();
const STREAMS_AND_IPERF3: &[Racer] = streams!(racer("iperf3", "sh {iperf3} {config} {address} {bytes} -P 1"));
const STREAMS_AND_SCP: &[Racer] = streams!(racer("scp", "scp -q -F {config} -r {from}/. {to}/"));

/// linerate with the number of streams that it chooses itself, and with fixed numbers.
const FIXED_STREAMS: &[Racer] = STREAMS.split_at(6).0;

pub const CASES: [RaceCase; 20] = [
    RaceCase {
        name: "one-host",
        about: "2 GB in 1,250 files, within one host",
        links: &[],
        data: RaceData::Mix,
        racers: WITHIN,
        bounds: &[bound(RaceFigure::Whole, "cp -a", 1.0), bound(RaceFigure::Whole, "rsync -a", 1.0 / 3.0)],
        ..PLAIN
    },
    RaceCase {
        name: "one-host-small",
        about: "20,000 files of 8 KB, within one host",
        links: &[],
        data: RaceData::Small,
        racers: WITHIN,
        bounds: &[bound(RaceFigure::Whole, "cp -a", 1.0)],
        ..PLAIN
    },
    RaceCase {
        name: "backup",
        about: "100,000 unchanged files by --link-dest, within one host",
        links: &[],
        data: RaceData::Unchanged,
        racers: &[
            racer("linerate", "{linerate} rsync -a --link-dest={older} {from}/ {to}/"),
            racer("rsync -a", "rsync -a --link-dest={older} {from}/ {to}/"),
        ],
        bounds: &[bound(RaceFigure::Whole, "rsync -a", 0.5)],
        ..PLAIN
    },
    RaceCase {
        name: "inserted",
        about: "1 MiB in front of a file of 1 GB, over 100 Mbit/s",
        links: &[link("100mbit")],
        data: RaceData::Inserted,
        racers: &[
            racer("linerate", "{linerate} sync -q -F {config} {from} {to}"),
            racer("rsync -a", "rsync -a -e {ssh} {from} {to}"),
        ],
        bounds: &[bound(RaceFigure::Bytes, "rsync -a", 1.1), bound(RaceFigure::Whole, "rsync -a", 1.0)],
        ..PLAIN
    },
    RaceCase {
        name: "all-new",
        about: "a changed file of 1 GB whose bytes are all new, over 10 Gbit/s",
        links: &[link("10gbit")],
        data: RaceData::AllNew,
        racers: &[
            racer("linerate", "{linerate} sync -q -F {config} {from} {to}"),
            racer("--same-places", "{linerate} sync -q --same-places -F {config} {from} {to}"),
            racer("--whole-file", "{linerate} sync -q --whole-file -F {config} {from} {to}"),
        ],
        ..PLAIN
    },
    RaceCase {
        name: "compressible",
        about: "the source code of Linux, over 100 Mbit/s",
        links: &[link("100mbit")],
        data: RaceData::Sources,
        racers: &[
            racer("linerate", "{linerate} rsync -az -e {ssh} {from}/ {to}/"),
            racer("rsync -az", "rsync -az -e {ssh} {from}/ {to}/"),
            racer("syq -z", "syq rsync -az -q --no-progress -e {ssh} {from}/ {to}/"),
        ],
        bounds: &[bound(RaceFigure::Whole, "rsync -az", 0.7)],
        ..PLAIN
    },
    RaceCase {
        name: "incompressible",
        about: "2 GB in 1,250 files of random bytes, over 10 Gbit/s",
        links: &[link("10gbit")],
        data: RaceData::Mix,
        racers: &[
            racer("linerate", "{linerate} cp -q -a -F {config} {from}/. {to}/"),
            racer("--compress=off", "{linerate} cp -q -a --compress=off -F {config} {from}/. {to}/"),
        ],
        bounds: &[bound(RaceFigure::Whole, "--compress=off", 1.0 / 0.99)],
        ..PLAIN
    },
    RaceCase {
        name: "link",
        about: "2 GB in 1,250 files, over 10 Gbit/s",
        links: &[link("10gbit")],
        data: RaceData::Mix,
        racers: STREAMS_AND_IPERF3,
        bounds: &[bound(RaceFigure::Own, "iperf3", 1.0 / 0.985), bound(RaceFigure::Whole, "syq", 1.0), AUTO],
        ..PLAIN
    },
    RaceCase {
        name: "link-little",
        about: "0.2 GB in 125 files, over 10 Gbit/s",
        links: &[link("10gbit")],
        data: RaceData::LittleMix,
        racers: STREAMS_AND_IPERF3,
        bounds: &[bound(RaceFigure::Own, "iperf3", 1.0 / 0.97), bound(RaceFigure::Whole, "syq", 1.0), AUTO],
        ..PLAIN
    },
    RaceCase {
        name: "open",
        about: "2 GB in 1,250 files, over a link without a limit",
        links: &[link("open")],
        data: RaceData::Mix,
        racers: STREAMS,
        bounds: &[
            bound(RaceFigure::Own, "wdt, plain 1", 1.0 / 1.1),
            bound(RaceFigure::Own, "wdt, plain 8", 1.0 / 1.1),
            bound(RaceFigure::Processors, "wdt, plain 8", 0.9),
            bound(RaceFigure::Whole, "syq", 1.0 / 1.5),
            AUTO,
        ],
        ..PLAIN
    },
    RaceCase {
        name: "open-single",
        about: "a file of 2 GB, over a link without a limit",
        links: &[link("open")],
        data: RaceData::Single,
        racers: STREAMS,
        bounds: &[
            bound(RaceFigure::Own, "wdt, plain 1", 1.0),
            bound(RaceFigure::Whole, "syq", 1.0 / 1.5),
            AUTO,
        ],
        ..PLAIN
    },
    RaceCase {
        name: "open-small",
        about: "20,000 files of 8 KB, over a link without a limit",
        links: &[link("open")],
        data: RaceData::Small,
        racers: STREAMS,
        bounds: &[
            bound(RaceFigure::Whole, "wdt, AES 1", 0.8),
            bound(RaceFigure::Own, "wdt, plain 1", 0.8),
            bound(RaceFigure::Whole, "syq", 1.0 / 1.5),
            AUTO,
        ],
        ..PLAIN
    },
    RaceCase {
        name: "long",
        about: "0.2 GB in 125 files, over 1 Gbit/s with 50 ms and 0.01 % loss",
        links: &[long("1gbit", "50ms", "0.01%")],
        data: RaceData::LittleMix,
        racers: STREAMS_AND_SCP,
        bounds: &[
            bound(RaceFigure::Whole, "scp", 1.0 / 15.0),
            bound(RaceFigure::Whole, "rsync -a", 1.0 / 1.2),
            bound(RaceFigure::Own, "wdt, plain 8", 1.0 / 1.2),
            AUTO,
        ],
        ..PLAIN
    },
    RaceCase {
        name: "links",
        about: "2 GB in 1,250 files, over four links of 1 Gbit/s, and over one of 4 Gbit/s",
        links: &[RaceLink { count: 4, rate: "1gbit", path: None }, link("4gbit")],
        data: RaceData::Mix,
        racers: &[
            racer("linerate", "{linerate} cp -q -a --interfaces all -F {config} {from}/. {to}/"),
            Racer { name: "one link", line: "{linerate} cp -q -a -F {config} {from}/. {to}/", over: 1 },
        ],
        bounds: &[bound(RaceFigure::Whole, "one link", 1.0 / 0.97)],
        ..PLAIN
    },
    RaceCase {
        name: "million",
        about: "1,000,000 files of 1 KB, over a link without a limit",
        links: &[link("open")],
        data: RaceData::Million,
        racers: &[
            racer("linerate", "{linerate} cp -q -a -F {config} {from}/. {to}/"),
            racer("rsync -a", "rsync -a -e {ssh} {from}/ {to}/"),
        ],
        bounds: &[bound(RaceFigure::Whole, "rsync -a", 1.0 / 3.0)],
        ..PLAIN
    },
    RaceCase {
        name: "byte",
        about: "a file of one byte, over a link without a limit",
        links: &[link("open")],
        data: RaceData::Byte,
        racers: &[
            racer("linerate", "{linerate} cp -q -r -F {config} {from}/. {to}/"),
            racer("ssh true", "ssh -F {config} b true"),
            racer("scp", "scp -q -F {config} -r {from}/. {to}/"),
            racer("rsync", "rsync -r -e {ssh} {from}/ {to}/"),
            racer("syq", "syq rsync -r -q --no-progress -e {ssh} {from}/ {to}/"),
        ],
        ..PLAIN
    },
    RaceCase {
        name: "quota",
        about: "2 GB in 1,250 files, over 10 Gbit/s, each end with 70 % of one processor",
        links: &[link("10gbit")],
        racers: FIXED_STREAMS,
        quota: Some(0.7),
        bounds: &[bound(RaceFigure::Whole, FIXED, 1.0 / 0.95)],
        ..PLAIN
    },
    RaceCase {
        name: "long-large",
        about: "2 GB in 1,250 files, over 1 Gbit/s with 50 ms and 0.01 % loss",
        links: &[long("1gbit", "50ms", "0.01%")],
        data: RaceData::Mix,
        racers: &[
            racer("linerate", "{linerate} cp --json -a -F {config} {from}/. {to}/"),
            racer("--streams 8", "{linerate} cp -q -a --streams 8 -F {config} {from}/. {to}/"),
            racer("iperf3, 8", "sh {iperf3} {config} {address} {bytes} -P 8"),
            racer(
                "wdt, plain 8",
                "sh {wdt} {config} {address} {from} {to} -num_ports 8 -encryption_type none",
            ),
        ],
        bounds: &[bound(RaceFigure::Own, "iperf3, 8", 1.0 / 0.8)],
        ..PLAIN
    },
    RaceCase {
        name: "far",
        about: "40 MB in 26 files, over 100 Mbit/s with 200 ms and 0.1 % loss",
        links: &[long("100mbit", "200ms", "0.1%")],
        data: RaceData::LeastMix,
        racers: &[
            racer("linerate", "{linerate} cp -q -a -F {config} {from}/. {to}/"),
            racer("scp", "scp -q -F {config} -r {from}/. {to}/"),
            racer("rsync -a", "rsync -a -e {ssh} {from}/ {to}/"),
        ],
        bounds: &[bound(RaceFigure::Whole, "scp", 0.25)],
        ..PLAIN
    },
    RaceCase {
        name: "disk",
        about: "2 GB in 1,250 files, from disk to disk, over a link without a limit, with nothing in the page cache",
        links: &[link("open")],
        racers: &[
            racer("linerate", "{linerate} cp -q -a -F {config} {from}/. {to}/"),
            racer("rsync -a", "rsync -a -e {ssh} {from}/ {to}/"),
            racer("syq", "syq rsync -a -q --no-progress --no-compress -e {ssh} {from}/ {to}/"),
            racer(
                "wdt, plain 8",
                "sh {wdt} {config} {address} {from} {to} -num_ports 8 -encryption_type none",
            ),
        ],
        on_disk: true,
        bounds: &[bound(RaceFigure::Whole, "rsync -a", 1.0), bound(RaceFigure::Whole, "syq", 1.0)],
        ..PLAIN
    },
];
