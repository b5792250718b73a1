//! The binaries that can be copied to a host: agents that were packed for this purpose, this program's own binary, and
//! the binaries for other kinds of machine that are installed with it.

use aws_lc_rs::digest::{Context, SHA256};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use linerate_wire::identity::{IDENTITY, reported_by};
use linerate_wire::path::printable;
use object::read::{Object, ReadCache};
use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::{packed, program, strangers};

/// The file of the running program. This path stays valid if another file takes the program's name.
pub(crate) const OWN: &str = "/proc/self/exe";
/// The directory of the agent for this kind of machine, relative to the parent of this program's directory. If the
/// program is `/usr/bin/linerate`, the agent's directory is `/usr/lib/linerate`.
pub const LIBRARY: &str = "lib/linerate";
/// The directory of the agents and programs for other kinds of machine, relative to the parent of this
/// program's directory.
pub const BESIDE: &str = "lib/linerate/agents";
/// The beginning of the file name of a program for another machine. The machine's name follows, as `uname -m`
/// prints it.
pub const NAME: &str = "linerate-";

/// The level of zstd with which a program is compressed before it is copied: in 0.1 s, it compresses the program to 41
/// % of its size. Level 9 would reach 37 % in 0.5 s, but over a link of 1 Gbit/s, the smaller size saves less time than
/// that.
const LEVEL: i32 = 3;

/// A binary of linerate for one kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The system and machine on which the binary runs, as `uname -sm` prints them.
    pub machine: String,
    /// The path of the file that holds the binary.
    pub file: PathBuf,
    /// The length of the uncompressed binary in bytes.
    pub size: u64,
    /// Identifies the binary: the linker's build ID in hexadecimal digits (or the SHA-256 of a binary without build
    /// ID), a hyphen, and the binary's length in bytes, which strip(1) changes. To hash the whole binary in each run
    /// would take longer than to copy a small file.
    pub id: String,
    /// The SHA-256 of the uncompressed binary, if the file holds the binary compressed by gzip.
    pub packed: Option<String>,
}

/// The part of linerate that is needed on a far host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarPart {
    /// Only the agent, for transfers.
    Agent,
    /// The whole program, with all commands.
    Program,
}

/// The programs for decompressing that a host has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpackers {
    /// True if the host has zstd(1).
    pub zstd: bool,
    /// True if the host has gzip(1).
    pub gzip: bool,
}

/// The binaries that are part of this installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// The running program.
    pub own: Binary,
    /// The programs for other kinds of machine.
    pub others: Vec<Binary>,
    /// The agents, for this kind of machine and for other kinds.
    pub agents: Vec<Binary>,
    /// The agents and programs that can't be used: for each, its kind of machine, and a text with its file and the
    /// reason.
    pub unfit: Vec<(String, String)>,
}

impl Binaries {
    /// Examines the running program, and the binaries that are installed with it.
    ///
    /// # Errors
    /// If this program's own file can't be read. Another installed program that can't be read is left out
    /// without an error.
    pub fn installed() -> io::Result<Self> {
        let own = Binary::of(machine(std::env::consts::ARCH), OWN.into())?;
        let above = fs::read_link(OWN).ok().and_then(|path| Some(path.parent()?.parent()?.to_owned()));
        let mut binaries = Self { own, others: Vec::new(), agents: Vec::new(), unfit: Vec::new() };
        if let Some(above) = above {
            binaries.look_for_programs(&above, BESIDE);
            binaries.look_for_agents(&above, LIBRARY);
            binaries.look_for_agents(&above, BESIDE);
        }
        Ok(binaries)
    }

    /// Adds the programs for other machines in the directory `below` of `above`. Files with other names are ignored.
    fn look_for_programs(&mut self, above: &Path, below: &str) {
        let way = strangers::refuse_directories(above, below.as_ref());
        for (arch, file) in named(&above.join(below), NAME, "") {
            let machine = machine(&arch);
            match way.clone().and_then(|()| Binary::of_program(&arch, &file)) {
                _ if machine == self.own.machine => {}
                Ok(program) => self.others.push(program),
                Err(why) => self.unfit.push((machine, format!("{}: {why}", file.display()))),
            }
        }
    }

    /// Adds the agents in the directory `below` of `above`, for machines that have no agent yet.
    fn look_for_agents(&mut self, above: &Path, below: &str) {
        let way = strangers::refuse_directories(above, below.as_ref());
        for (arch, file) in named(&above.join(below), packed::NAME, packed::END) {
            let machine = machine(&arch);
            if self.agents.iter().any(|agent| agent.machine == machine) {
                continue;
            }
            match way.clone().and_then(|()| packed::read(&machine, &file)) {
                Ok(agent) => self.agents.push(agent),
                Err(why) => self.unfit.push((machine, format!("{}: {why}", file.display()))),
            }
        }
    }

    /// The binaries that provide `part` on a kind of machine, which is named in the form of `uname -sm`. If there is an
    /// agent, it is the last one.
    pub fn for_machine(&self, machine: &[u8], part: FarPart) -> Vec<&Binary> {
        let is_for = |binary: &&Binary| binary.machine.as_bytes() == machine;
        let program = [&self.own].into_iter().chain(&self.others).find(is_for);
        let agent = self.agents.iter().find(is_for).filter(|_| part == FarPart::Agent);
        program.into_iter().chain(agent).collect()
    }

    /// Removes the agent or program in `file` from the usable binaries, and remembers the reason.
    pub fn give_up(&mut self, file: &Path, why: &str) {
        for binaries in [&mut self.agents, &mut self.others] {
            let given_up = binaries.extract_if(.., |binary| binary.file == file);
            let reason = |binary: Binary| (binary.machine, format!("{}: {why}", binary.file.display()));
            self.unfit.extend(given_up.map(reason));
        }
    }

    /// The reasons why files for this kind of machine can't be used, in printable form; `None` if there are no such
    /// files.
    pub fn why_unfit(&self, machine: &[u8]) -> Option<String> {
        let unfit = self.unfit.iter().filter(|(of, _)| of.as_bytes() == machine);
        let reasons: Vec<_> = unfit.map(|(_, why)| printable(why.as_bytes())).collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// The other kinds of machine for which there are binaries, sorted.
    pub fn other_machines(&self) -> Vec<&str> {
        let all = self.others.iter().chain(&self.agents).map(|binary| &*binary.machine);
        let mut machines: Vec<_> = all.filter(|machine| *machine != self.own.machine).collect();
        machines.sort_unstable();
        machines.dedup();
        machines
    }
}

/// The files in a directory whose names consist of `begin`, a machine's name and `end`, sorted by machine.
fn named(directory: &Path, begin: &str, end: &str) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let of_machine = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let arch = name.strip_prefix(begin)?.strip_suffix(end)?;
        // The machine's name becomes part of the command line for the far shell.
        let is_word =
            !arch.is_empty() && arch.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_word.then(|| (arch.to_owned(), entry.path()))
    };
    let mut found: Vec<_> = entries.filter_map(of_machine).collect();
    found.sort();
    found
}

fn machine(arch: &str) -> String {
    format!("Linux {arch}")
}

impl Binary {
    /// Describes the binary in a file.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn of(machine: String, path: PathBuf) -> io::Result<Self> {
        let file = File::open(&path)?;
        let size = file.metadata()?.len();
        let content = match build_id(&file) {
            Some(id) => hexadecimal(&id),
            None => {
                (&file).rewind()?;
                sha256(file.take(size))?
            }
        };
        Ok(Self { machine, file: path, size, id: format!("{content}-{size}"), packed: None })
    }

    /// Describes the file of a program for another kind of machine, if the file's header fits that kind of machine.
    fn of_program(arch: &str, path: &Path) -> Result<Self, String> {
        let (file, mut head) = (program::open(path)?, Vec::new());
        let said = |error: io::Error| format!("it can't be read: {error}");
        let size = file.metadata().map_err(said)?.len();
        file.take(program::HEAD as u64).read_to_end(&mut head).map_err(said)?;
        if let Some(why) = program::fault(&head, size, arch) {
            return Err(why);
        }
        Self::of(machine(arch), path.to_owned()).map_err(said)
    }

    /// Checks a binary before it is copied: a packed agent is unpacked completely and must have the right SHA-256, and
    /// a program for another kind of machine must not report another version than this program's.
    ///
    /// # Errors
    /// The reason why the binary can't be copied, as the end of a sentence.
    pub fn check(&self) -> Result<(), String> {
        let Some(hash) = &self.packed else { return self.check_version() };
        let unpacked = MultiGzDecoder::new(program::open(&self.file)?).take(self.size.saturating_add(1));
        match sha256(unpacked) {
            Ok(found) if found == *hash => Ok(()),
            Ok(_) => Err("it is damaged: its contents don't have the SHA-256 of its description".into()),
            Err(error) => Err(format!("it can't be unpacked: {error}")),
        }
    }

    fn check_version(&self) -> Result<(), String> {
        if self.file == Path::new(OWN) {
            return Ok(());
        }
        let (mut file, mut bytes) = (program::open(&self.file)?, Vec::new());
        file.read_to_end(&mut bytes).map_err(|error| format!("it can't be read: {error}"))?;
        match reported_by(&bytes) {
            Some(reported) if reported != IDENTITY => Err(packed::of_other(reported)),
            _ => Ok(()),
        }
    }

    /// The binary in the form in which it is sent to a host that has these programs. If the host has a program for
    /// decompressing, the binary is compressed, and the line before the binary contains the hash, the compressed length
    /// and the name of that program; otherwise the line contains only the hash.
    ///
    /// # Errors
    /// If reading fails.
    pub fn parcel(&self, unpackers: Unpackers) -> io::Result<Parcel> {
        if let Some(hash) = self.packed.as_ref().filter(|_| unpackers.gzip) {
            let file = File::open(&self.file)?;
            let length = file.metadata()?.len();
            return Ok(Parcel {
                line: format!("{hash} {length} gzip"),
                length,
                bytes: Box::new(file.take(length)),
            });
        }
        let hash = match &self.packed {
            Some(hash) => hash.clone(),
            None => sha256(self.contents()?)?,
        };
        let (packed, by) = match unpackers {
            Unpackers { zstd: true, .. } => (zstd::encode_all(self.contents()?, LEVEL)?, "zstd"),
            Unpackers { gzip: true, .. } => (gzipped(self.contents()?)?, "gzip"),
            _ => return Ok(Parcel { line: hash, length: self.size, bytes: self.contents()? }),
        };
        let (line, length) = (format!("{hash} {} {by}", packed.len()), packed.len() as u64);
        Ok(Parcel { line, length, bytes: Box::new(Cursor::new(packed)) })
    }

    /// The uncompressed bytes of the binary.
    fn contents(&self) -> io::Result<Box<dyn Read>> {
        let file = File::open(&self.file)?;
        Ok(match self.packed {
            Some(_) => Box::new(MultiGzDecoder::new(file).take(self.size)),
            None => Box::new(file.take(self.size)),
        })
    }
}

/// A binary in the form in which it is sent to a host.
pub struct Parcel {
    /// The line that is sent before the bytes.
    line: String,
    /// The number of bytes that are sent after the line.
    pub length: u64,
    bytes: Box<dyn Read>,
}

impl Parcel {
    /// Sends the line, and then the bytes, to the far shell.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub fn bring(mut self, far: &mut impl Write) -> io::Result<()> {
        writeln!(far, "{}", self.line)?;
        io::copy(&mut self.bytes, far)?;
        far.flush()
    }
}

/// Compresses with gzip's lowest level: in 0.2 s, it compresses the program to 52 % of its size. Level 3 would reach 45
/// % in 0.6 s, but over a link of 100 Mbit/s, the smaller size saves less time than that.
fn gzipped(contents: impl Read) -> io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    io::copy(&mut BufReader::with_capacity(256 << 10, contents), &mut gzip)?;
    gzip.finish()
}

/// The build ID in an ELF file's notes.
fn build_id(file: &File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    let object = object::File::parse(&cache).ok()?;
    object.build_id().ok()?.filter(|id| !id.is_empty()).map(<[u8]>::to_vec)
}

/// The SHA-256 of the bytes in `contents`, in hexadecimal digits.
///
/// # Errors
/// If reading fails.
pub fn sha256(mut contents: impl Read) -> io::Result<String> {
    let (mut context, mut buffer) = (Context::new(&SHA256), vec![0; 256 << 10]);
    loop {
        match contents.read(&mut buffer) {
            Ok(0) => return Ok(hexadecimal(context.finish().as_ref())),
            Ok(got) => context.update(&buffer[..got]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_wire::identity::IDENTITY;

    /// Changes the type of an ELF file's notes, so that the file has no build ID.
    fn without_notes(mut bytes: Vec<u8>) -> Vec<u8> {
        // The length of the owner's name, the length of the description, the type, and the owner's name.
        let gnu_build_id = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
        let at = bytes.windows(gnu_build_id.len()).position(|window| window == gnu_build_id);
        bytes[at.expect("the linker writes one") + 8] = 99;
        bytes
    }

    #[test]
    fn a_binary_is_known_by_its_build_or_by_its_contents() {
        let own = Binaries::installed().unwrap().own;
        assert_eq!(own.size, std::fs::metadata(OWN).unwrap().len());
        let ends = format!("-{}", own.size);
        let build = own.id.strip_suffix(&ends).unwrap();
        let written = build_id(&File::open(OWN).unwrap()).expect("the linker writes one");
        assert_eq!(build, hexadecimal(&written));
        // This file has the right form but no ID, and nothing follows that form.
        let own_bytes = std::fs::read(OWN).unwrap();
        let mut without = tempfile::NamedTempFile::new().unwrap();
        without.write_all(&without_notes(own_bytes)).unwrap();
        assert_eq!(build_id(without.as_file()), None);
        let hashed = Binary::of(String::new(), without.path().into()).unwrap();
        without.rewind().unwrap();
        assert_eq!(hashed.id, format!("{}-{}", sha256(without).unwrap(), hashed.size));
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(&b""[..]).unwrap(), empty);
    }

    #[test]
    fn what_lies_beside_is_found_by_its_name() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["linerate-riscv64", "linerate-aarch64", "linerate-a$(id)", "linerate-", "readme"] {
            fs::write(directory.path().join(name), "#!program").unwrap();
        }
        let mut binaries = alone();
        binaries.look_for_programs(directory.path(), "");
        let machines: Vec<_> = binaries.others.iter().map(|binary| &*binary.machine).collect();
        assert_eq!(machines, ["Linux aarch64", "Linux riscv64"]);
        binaries.look_for_programs(directory.path(), "none");
        assert_eq!((binaries.others.len(), binaries.unfit.len()), (2, 0));
        fs::write(directory.path().join("linerate-aarch64"), "").unwrap();
        fs::copy(OWN, directory.path().join("linerate-riscv64")).unwrap();
        let mut binaries = alone();
        binaries.look_for_programs(directory.path(), "");
        assert_eq!(binaries.others, []);
        let why = |machine: &[u8]| binaries.why_unfit(machine).unwrap();
        assert!(why(b"Linux aarch64").ends_with("linerate-aarch64: it is empty"));
        assert!(why(b"Linux riscv64").contains("it is a program for "), "{}", why(b"Linux riscv64"));
    }

    /// The binaries of a program for x86-64 with no other files installed beside it.
    fn alone() -> Binaries {
        let own = Binary { file: "linerate".into(), ..Binary::of(machine("x86_64"), OWN.into()).unwrap() };
        Binaries { own, others: Vec::new(), agents: Vec::new(), unfit: Vec::new() }
    }

    /// The names of the files that `for_machine` returns.
    fn files<'a>(binaries: &'a Binaries, machine: &str, part: FarPart) -> Vec<&'a str> {
        let fit = binaries.for_machine(machine.as_bytes(), part).into_iter();
        fit.map(|binary| binary.file.file_name().unwrap().to_str().unwrap()).collect()
    }

    #[test]
    fn an_agent_is_smaller_than_the_program_and_only_an_agent() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["linerate-aarch64", "linerate-riscv64"] {
            fs::write(at(name), format!("#!program (speaks {IDENTITY})")).unwrap();
        }
        for name in ["agent-x86_64.gz", "agent-aarch64.gz", "agent-s390x.gz"] {
            packed::write(&at("linerate-aarch64"), &mut File::create(at(name)).unwrap()).unwrap();
        }
        fs::write(at("agent-riscv64.gz"), "damaged").unwrap();
        let mut binaries = alone();
        binaries.look_for_programs(directory.path(), "");
        binaries.look_for_agents(directory.path(), "");
        binaries.look_for_agents(directory.path(), "");
        for (machine, agent, program) in [
            ("Linux x86_64", &["linerate", "agent-x86_64.gz"][..], &["linerate"][..]),
            ("Linux aarch64", &["linerate-aarch64", "agent-aarch64.gz"], &["linerate-aarch64"]),
            ("Linux riscv64", &["linerate-riscv64"], &["linerate-riscv64"]),
            ("Linux s390x", &["agent-s390x.gz"], &[]),
            ("Linux ppc64le", &[], &[]),
        ] {
            assert_eq!(files(&binaries, machine, FarPart::Agent), agent);
            assert_eq!(files(&binaries, machine, FarPart::Program), program);
        }
        assert_eq!(binaries.other_machines(), ["Linux aarch64", "Linux riscv64", "Linux s390x"]);
        let why = binaries.why_unfit(b"Linux riscv64").unwrap();
        assert!(why.ends_with("agent-riscv64.gz: it isn't a packed agent"), "{why}");
        binaries.give_up(&at("agent-s390x.gz"), "it is damaged");
        assert!(binaries.for_machine(b"Linux s390x", FarPart::Agent).is_empty());
        assert!(binaries.why_unfit(b"Linux s390x").unwrap().ends_with("agent-s390x.gz: it is damaged"));
    }

    #[test]
    fn a_packed_agent_travels_as_it_is_or_packed_anew() {
        let directory = tempfile::tempdir().unwrap();
        let (file, plain) = (directory.path().join("agent-x.gz"), directory.path().join("agent"));
        let bytes = [format!("(speaks {IDENTITY})").as_bytes(), include_bytes!("binary.rs")].concat();
        fs::write(&plain, &bytes).unwrap();
        packed::write(&plain, &mut File::create(&file).unwrap()).unwrap();
        let agent = packed::read(&machine("x"), &file).unwrap();
        let hash = sha256(&bytes[..]).unwrap();
        let brought = |unpackers| {
            let mut far = Vec::new();
            let parcel = agent.parcel(unpackers).unwrap();
            let length = parcel.length;
            parcel.bring(&mut far).unwrap();
            (far, length)
        };
        let gzip = Unpackers { gzip: true, zstd: true };
        let packed = fs::read(&file).unwrap();
        let line = format!("{hash} {} gzip\n", packed.len());
        assert!(brought(gzip) == ([line.as_bytes(), &packed].concat(), packed.len() as u64));
        let packed = zstd::encode_all(&bytes[..], LEVEL).unwrap();
        let line = format!("{hash} {} zstd\n", packed.len());
        let zstd = Unpackers { gzip: false, zstd: true };
        assert!(brought(zstd) == ([line.as_bytes(), &packed].concat(), packed.len() as u64));
        let line = format!("{hash}\n");
        assert!(brought(Unpackers::default()) == ([line.as_bytes(), &bytes].concat(), bytes.len() as u64));
        assert_eq!(agent.id, Binary::of(machine("x"), plain).unwrap().id);
    }

    #[test]
    fn a_program_is_packed_by_whatever_the_host_unpacks() {
        let own = Binary::of(machine("x"), OWN.into()).unwrap();
        let whole = fs::read(OWN).unwrap();
        let brought = |zstd, gzip| {
            let (parcel, mut far) = (own.parcel(Unpackers { zstd, gzip }).unwrap(), Vec::new());
            let length = parcel.length as usize;
            parcel.bring(&mut far).unwrap();
            let bytes = far.split_off(far.len() - length);
            (String::from_utf8(far).unwrap(), bytes)
        };
        let (plain, bytes) = brought(false, false);
        assert!(bytes == whole);
        for (zstd, gzip, by) in [(true, true, "zstd"), (true, false, "zstd"), (false, true, "gzip")] {
            let (line, packed) = brought(zstd, gzip);
            assert_eq!(line, format!("{} {} {by}\n", plain.trim_end(), packed.len()));
            assert!(packed.len() < whole.len() * 2 / 3, "{by}: {} of {} bytes", packed.len(), whole.len());
            let mut unpacked = Vec::new();
            match by {
                "gzip" => MultiGzDecoder::new(&packed[..]).read_to_end(&mut unpacked).map(drop).unwrap(),
                _ => unpacked = zstd::decode_all(&packed[..]).unwrap(),
            }
            assert!(unpacked == whole, "{by}");
        }
    }
}
