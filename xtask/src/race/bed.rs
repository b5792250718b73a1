//! The test bed of a race: its data and its link. It measures the time of each run of a program.

use anyhow::{Context, ensure};
use fastrand::Rng;
use linerate_host::CpuTimes;
use linerate_lab::wan::Wan;
use linerate_lab::{End, Lab, LabOptions, parse_link};
use linerate_remote::place::Place;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::OURS;
use super::cases::{RaceCase, RaceData, RaceLink, Racer};
use super::quota::EndQuotas;
use crate::call;

/// The size of a large file in bytes.
const LARGE: usize = 1_000_000_000;
/// A login moves fewer bytes than this number, so further bytes are data.
const LOGIN_BYTES: u64 = 64 << 10;
/// The interval at which a run is observed. It is so long that the observation costs no measurable time.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The scripts that run both ends of a program.
const SCRIPTS: [(&str, &str); 2] = [("wdt", include_str!("wdt.sh")), ("iperf3", include_str!("iperf3.sh"))];
/// In a program's output, one of these texts precedes the time in seconds that the program itself measured for the
/// data.
const OWN_SECONDS: [&str; 2] = ["\"payload_seconds\":", "own seconds: "];

/// The time of one run, and other measurements of it.
#[derive(Clone, Copy)]
pub struct RaceTime {
    pub seconds: f64,
    /// The program's own time for the data in seconds, without the login, if it prints one.
    pub own_seconds: Option<f64>,
    /// The processor time of the whole machine in seconds.
    pub cpu_seconds: f64,
    /// The share of the machine's processor time that its hypervisor gave to others.
    pub stolen: f64,
    /// The number of bytes on the link, in both directions.
    pub bytes: u64,
    /// The time until the link carried data, in seconds.
    pub first_seconds: f64,
    /// The largest memory of any process of the program, in bytes.
    pub memory: u64,
}

/// The test bed of one case.
pub struct RaceBed {
    data: RaceData,
    program: PathBuf,
    source: PathBuf,
    /// The size of the source in bytes. It is counted before the runs, because counting reads the source's directories
    /// into the caches.
    source_bytes: u64,
    older: PathBuf,
    destination: PathBuf,
    /// The labs: one for each entry of the case's `links`. For a case within one host, one lab, of which only the
    /// directory is used.
    labs: Vec<Lab>,
    is_far: bool,
    quotas: Option<EndQuotas>,
    /// The directory on the disk, if the data is there.
    on_disk: Option<tempfile::TempDir>,
}

impl RaceBed {
    /// Makes the data of `case`, on a tmpfs.
    pub fn up(case: &RaceCase, program: &Path) -> anyhow::Result<Self> {
        let mut labs =
            case.links.iter().map(|link| lab(link, program)).collect::<anyhow::Result<Vec<_>>>()?;
        let is_far = !labs.is_empty();
        if !is_far {
            labs.push(Lab::up(&LabOptions::default())?);
        }
        // Debian's /tmp may be a tmpfs, but /var/tmp isn't.
        let on_disk = case.on_disk.then(|| tempfile::tempdir_in("/var/tmp")).transpose()?;
        let top = on_disk.as_ref().map_or(labs[0].scratch(), |disk| disk.path());
        let place = |name: &str| top.join(name);
        let (source, older, destination) = (place("from"), place("older"), place("to"));
        make(case.data, &source, &older)?;
        let quotas = case.quota.map(EndQuotas::make).transpose()?;
        if let Some(quotas) = &quotas {
            quotas.limit_logins(&format!("linerate-{}-b", labs[0].name()))?;
        }
        let program = program.into();
        let source_bytes = size(&source);
        let bed = Self {
            data: case.data,
            program,
            source,
            source_bytes,
            older,
            destination,
            labs,
            is_far,
            quotas,
            on_disk,
        };
        for (name, script) in SCRIPTS {
            fs::write(bed.script(name), script)?;
        }
        Ok(bed)
    }

    /// The path of the script that runs both ends of a program.
    fn script(&self, program: &str) -> PathBuf {
        self.labs[0].scratch().join(format!("{program}.sh"))
    }

    /// Removes the test bed.
    pub fn down(self) -> anyhow::Result<()> {
        self.labs.into_iter().try_for_each(|lab| lab.down())?;
        self.quotas.map_or(Ok(()), EndQuotas::remove)
    }

    /// Restores the destination to its initial state, and then runs one of the programs.
    pub fn race(&self, racer: &Racer) -> anyhow::Result<RaceTime> {
        self.reset()?;
        let mut command = self.place(racer).command(&self.words(racer))?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let cpu_before = CpuTimes::read(Path::new("/"))?;
        let watch = Watch { bed: self, racer, before: self.bytes(racer)?, begun: Instant::now() };
        let child = command.spawn().with_context(|| format!("starting {}", racer.line))?;
        self.quotas.iter().try_for_each(|quotas| quotas.limit(child.id()))?;
        let (output, seconds, (first, memory)) = watch.until_over(child)?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}: {}: {said}", racer.line, output.status);
        let bytes = self.bytes(racer)? - watch.before;
        let passed = CpuTimes::read(Path::new("/"))?.since(&cpu_before);
        Ok(RaceTime {
            seconds,
            own_seconds: own_seconds(&String::from_utf8_lossy(&output.stdout)),
            cpu_seconds: passed.busy(),
            stolen: passed.steal / passed.total().max(1e-9),
            bytes,
            first_seconds: first.unwrap_or(seconds),
            memory,
        })
    }

    /// Returns an error if the destination differs from the source, for racers that move data there.
    pub fn check(&self, racer: &Racer) -> anyhow::Result<()> {
        if !racer.line.contains("{to}") {
            return Ok(());
        }
        let status = Command::new("diff").arg("-r").args([&self.source, &self.destination]).status()?;
        ensure!(status.success(), "{} made something else", racer.line);
        Ok(())
    }

    fn place(&self, racer: &Racer) -> Place {
        if self.is_far { self.labs[racer.over].place(End::A) } else { Place::Here }
    }

    fn words(&self, racer: &Racer) -> Vec<OsString> {
        let config = self.labs[racer.over].ssh_config().display().to_string();
        let far = if self.is_far { "b:" } else { "" };
        let to = format!("{far}{}", self.destination.display());
        let values = [
            ("{linerate}", self.program.display().to_string()),
            ("{from}", self.source.display().to_string()),
            ("{to}", to),
            ("{older}", self.older.display().to_string()),
            ("{ssh}", format!("ssh -F {config}")),
            ("{config}", config),
            ("{wdt}", self.script("wdt").display().to_string()),
            ("{iperf3}", self.script("iperf3").display().to_string()),
            ("{bytes}", self.source_bytes.to_string()),
            ("{address}", self.labs[racer.over].address(End::B).to_string()),
        ];
        let fill =
            |word: &str| values.iter().fold(word.to_owned(), |word, (name, value)| word.replace(name, value));
        racer.line.split(' ').map(|word| fill(word).into()).collect()
    }

    /// Restores the initial state of the destination: missing, or the older version.
    fn reset(&self) -> anyhow::Result<()> {
        if matches!(self.data, RaceData::Inserted | RaceData::AllNew) {
            let _ = fs::remove_file(&self.destination);
            fs::copy(&self.older, &self.destination)?;
            let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
            File::open(&self.destination)?.set_modified(old)?;
            return Ok(());
        }
        match fs::remove_dir_all(&self.destination) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        fs::create_dir(&self.destination)?;
        if self.on_disk.is_some() {
            rustix::fs::sync();
            fs::write("/proc/sys/vm/drop_caches", "3")?;
        }
        Ok(())
    }

    /// The number of bytes that the link has carried in both directions; 0 within one host.
    fn bytes(&self, racer: &Racer) -> anyhow::Result<u64> {
        if !self.is_far {
            return Ok(0);
        }
        let output = self.place(racer).command(&["cat", "/proc/net/dev"].map(OsString::from))?.output()?;
        let text = String::from_utf8(output.stdout)?;
        let ports = text.lines().filter_map(|line| line.split_once(':'));
        let counted = ports.filter(|(port, _)| port.trim() != "lo").map(|(_, counts)| {
            let fields: Vec<u64> = counts.split_whitespace().filter_map(|field| field.parse().ok()).collect();
            // The first field is bytes received, the ninth is bytes sent.
            fields.first().zip(fields.get(8)).map(|(received, sent)| received + sent)
        });
        counted.sum::<Option<u64>>().context("/proc/net/dev has other fields")
    }
}

/// A run in progress.
struct Watch<'a> {
    bed: &'a RaceBed,
    racer: &'a Racer,
    /// The count of bytes on the link when the run began.
    before: u64,
    begun: Instant,
}

impl Watch<'_> {
    /// Waits until the program ends. Returns the program's output, the seconds that it took, the seconds until the link
    /// carried data, and the largest memory of any of its processes.
    fn until_over(&self, child: Child) -> anyhow::Result<(Output, f64, (Option<f64>, u64))> {
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let seen = scope.spawn(|| self.look(&is_over));
            let output = child.wait_with_output().context("waiting for the program");
            // The time is taken now, because the observing thread ends a little later.
            let seconds = self.begun.elapsed().as_secs_f64();
            is_over.store(true, Ordering::Relaxed);
            Ok((output?, seconds, seen.join().expect("it doesn't panic")?))
        })
    }

    fn look(&self, is_over: &AtomicBool) -> anyhow::Result<(Option<f64>, u64)> {
        let (mut first, mut memory) = (None, 0);
        loop {
            thread::sleep(CHECK_INTERVAL);
            if is_over.load(Ordering::Relaxed) {
                return Ok((first, memory));
            }
            if first.is_none() && self.bed.bytes(self.racer)? > self.before + LOGIN_BYTES {
                first = Some(self.begun.elapsed().as_secs_f64());
            }
            memory = memory.max(greatest_memory(self.racer));
        }
    }
}

/// The largest memory that a process of the racer's program has used, in bytes.
fn greatest_memory(racer: &Racer) -> u64 {
    let name = racer.program();
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let of = |process: PathBuf| {
        let text = fs::read_to_string(process.join("status")).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        // The copy of linerate that is sent to a host has another process name, which begins with `agent-`.
        let is_it = field("Name:").is_some_and(|is| is == name || name == OURS && is.starts_with("agent-"));
        let kibibytes = field("VmHWM:")?.split(' ').next()?.parse::<u64>().ok()?;
        is_it.then_some(kibibytes << 10)
    };
    pids.filter_map(of).max().unwrap_or(0)
}

fn own_seconds(printed: &str) -> Option<f64> {
    let behind = |mark| printed.rsplit_once(mark).map(|(_, behind)| behind);
    let text = OWN_SECONDS.into_iter().find_map(behind)?;
    text.split([',', '\n']).next()?.parse().ok()
}

fn lab(link: &RaceLink, program: &Path) -> anyhow::Result<Lab> {
    let wan = link.path.map(wan).transpose()?;
    // On a path with an emulator, the linerate program itself is the emulator.
    let linerate = wan.is_some().then(|| program.to_owned());
    let rate = parse_link(link.rate)?;
    let options = LabOptions { link: rate, links: Some(link.count), wan, linerate, ..LabOptions::default() };
    Ok(Lab::up(&options)?)
}

fn wan((rtt, loss): (&str, &str)) -> anyhow::Result<Wan> {
    Ok(Wan { rtt: rtt.parse()?, loss: loss.parse()?, queue: None, seed: 1 })
}

fn make(data: RaceData, source: &Path, older: &Path) -> anyhow::Result<()> {
    let mut rng = Rng::with_seed(7);
    match data {
        RaceData::Mix => make_mix(source, 10, &mut rng),
        RaceData::LittleMix => make_mix(source, 1, &mut rng),
        RaceData::LeastMix => {
            make_files(&source.join("small"), 22, 700_000, &mut rng)?;
            make_files(&source.join("large"), 4, 6_000_000, &mut rng)
        }
        RaceData::Single => make_files(source, 1, 2_000_000_000, &mut rng),
        RaceData::Byte => make_files(source, 1, 1, &mut rng),
        RaceData::Small => make_files(source, 20_000, 8_000, &mut rng),
        RaceData::Million => make_files(source, 1_000_000, 1_000, &mut rng),
        RaceData::Sources => unpack_sources(source),
        RaceData::Unchanged => {
            make_files(source, 100_000, 100, &mut rng)?;
            call(Command::new("cp").arg("-a").args([source, older]))
        }
        RaceData::Inserted => {
            let (new, old) = (noise(1 << 20, &mut rng), noise(LARGE, &mut rng));
            fs::write(older, &old)?;
            let mut file = File::create(source)?;
            file.write_all(&new)?;
            Ok(file.write_all(&old)?)
        }
        RaceData::AllNew => {
            fs::write(older, noise(LARGE, &mut rng))?;
            Ok(fs::write(source, noise(LARGE, &mut rng))?)
        }
    }
}

/// The size of all files below a path, in bytes.
fn size(top: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(top) else { return top.metadata().map_or(0, |file| file.len()) };
    entries.flatten().map(|entry| size(&entry.path())).sum()
}

/// Makes a mix of small and large files: `times` times 0.2 GB.
pub fn make_mix(top: &Path, times: usize, rng: &mut Rng) -> anyhow::Result<()> {
    make_files(&top.join("small"), 110 * times, 700_000, rng)?;
    make_files(&top.join("large"), 15 * times, 8_000_000, rng)
}

/// Makes files, a hundred in each directory.
pub fn make_files(top: &Path, count: usize, length: usize, rng: &mut Rng) -> anyhow::Result<()> {
    for number in 0..count {
        let directory = top.join(format!("{}", number / 100));
        fs::create_dir_all(&directory)?;
        fs::write(directory.join(format!("{number}")), noise(length, rng))?;
    }
    Ok(())
}

/// Returns random bytes.
pub fn noise(length: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; length];
    rng.fill(&mut bytes);
    bytes
}

/// Unpacks the source code of Linux from Debian's package.
fn unpack_sources(to: &Path) -> anyhow::Result<()> {
    const PACKED: &str = "/usr/src";
    let is_packed = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("linux-source-") && name.ends_with(".tar.xz"))
    };
    let packed =
        fs::read_dir(PACKED).into_iter().flatten().flatten().map(|entry| entry.path()).find(is_packed);
    let packed = packed
        .with_context(|| format!("{PACKED} holds no linux-source-*.tar.xz: apt-get install linux-source"))?;
    fs::create_dir_all(to)?;
    call(Command::new("tar").arg("-xf").arg(packed).arg("--strip-components=1").arg("-C").arg(to))
}

#[cfg(test)]
mod tests {
    use super::own_seconds;

    #[test]
    fn a_program_s_own_time_is_the_last_that_it_prints() {
        let json =
            "{\"payload_seconds\":9.5}\n{\"bytes\":2,\"payload_seconds\":0.19,\"elapsed_seconds\":0.24}\n";
        assert_eq!(own_seconds(json), Some(0.19));
        assert_eq!(own_seconds("own seconds: 1.02\n"), Some(1.02));
        assert_eq!(own_seconds("total 3\n"), None);
    }
}
