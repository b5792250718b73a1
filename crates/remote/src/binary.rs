//! The binaries that can be copied to a host: agents that were packed for this purpose, this program's own binary, and
//! the binaries for other kinds of machine that are installed with it.

use aws_lc_rs::digest::{Context, SHA256};
use flate2::read::MultiGzDecoder;
use linerate_wire::path::printable;
use object::read::{Object, ReadCache};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crate::{packed, program, strangers};

/// The running program's file. This path stays valid when another file takes the program's name.
pub(crate) const OWN: &str = "/proc/self/exe";
/// The directory of the agent for this kind of machine, relative to the parent of this program's directory:
/// `/usr/lib/linerate` if the program is `/usr/bin/linerate`.
pub const LIBRARY: &str = "lib/linerate";
/// The directory of the agents and programs for other kinds of machine, relative to the same parent.
pub const BESIDE: &str = "lib/linerate/agents";
/// The beginning of a program's file name; the machine follows, as `uname -m` prints it.
pub const NAME: &str = "linerate-";

/// zstd's level. It compresses a program to 41 % in 0.1 s. Level 9 would reach 37 % in 0.5 s, but a link of 1 Gbit/s
/// doesn't save that much time.
const LEVEL: i32 = 3;

/// A static binary of linerate for one kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The system and machine that it runs on, as `uname -sm` prints them.
    pub machine: String,
    /// Its file.
    pub file: PathBuf,
    /// Its length in bytes, not compressed.
    pub size: u64,
    /// Identifies the binary: the linker's build ID in hexadecimal, or its SHA-256 if there is none, and its
    /// length, which strip(1) changes. Hashing all of it takes longer than copying a small file.
    pub id: String,
    /// The SHA-256 of the uncompressed binary, if the file holds the binary compressed by gzip.
    pub packed: Option<String>,
}

/// How much of linerate a far host needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarPart {
    /// Only the agent.
    Agent,
    /// All commands.
    Program,
}

/// The programs with which a host can decompress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unpackers {
    /// zstd(1).
    pub zstd: bool,
    /// gzip(1).
    pub gzip: bool,
}

/// The binaries of this installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// The running program.
    pub own: Binary,
    /// The programs for other kinds of machine.
    pub others: Vec<Binary>,
    /// The agents, for this kind of machine and others.
    pub agents: Vec<Binary>,
    /// The machines of agents and programs that aren't used, each with the file and the reason.
    pub unfit: Vec<(String, String)>,
}

impl Binaries {
    /// Examines the running program, and the binaries that are installed with it.
    ///
    /// # Errors
    /// If the kernel doesn't show this program. An installed program that can't be read is left out without an error.
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

    /// The binaries that provide `part` on a machine, which is named as its `uname -sm` prints it. The smallest binary
    /// is last.
    pub fn for_machine(&self, machine: &[u8], part: FarPart) -> Vec<&Binary> {
        let is_for = |binary: &&Binary| binary.machine.as_bytes() == machine;
        let program = [&self.own].into_iter().chain(&self.others).find(is_for);
        let agent = self.agents.iter().find(is_for).filter(|_| part == FarPart::Agent);
        program.into_iter().chain(agent).collect()
    }

    /// Removes the agent in `file`, and keeps the reason.
    pub fn give_up(&mut self, file: &Path, why: &str) {
        let is_meant = |agent: &mut Binary| agent.file == file;
        let given_up = self.agents.extract_if(.., is_meant);
        self.unfit.extend(given_up.map(|agent| (agent.machine, format!("{}: {why}", agent.file.display()))));
    }

    /// The reasons why the files for a machine can't be brought, fit to be printed; none if there are no such files.
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

/// The files in a directory whose names are a machine's name between `begin` and `end`, sorted by machine.
fn named(directory: &Path, begin: &str, end: &str) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let of_machine = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let arch = name.strip_prefix(begin)?.strip_suffix(end)?;
        // The name is put into the line for the far shell.
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
    /// Describes a program's file.
    ///
    /// # Errors
    /// If it can't be read.
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

    /// Describes a program's file that lies beside this one, if its beginning fits the machine.
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

    /// Checks all of a packed agent by unpacking it.
    ///
    /// # Errors
    /// The reason why it can't be brought, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        let Some(hash) = &self.packed else { return Ok(()) };
        let unpacked = MultiGzDecoder::new(program::open(&self.file)?).take(self.size.saturating_add(1));
        match sha256(unpacked) {
            Ok(found) if found == *hash => Ok(()),
            Ok(_) => Err("it is damaged: what is in it hasn't the SHA-256 of its description".into()),
            Err(error) => Err(format!("it can't be unpacked: {error}")),
        }
    }

    /// The number of bytes of the file that are sent, unless the file is compressed on the way.
    pub fn travels(&self, unpackers: Unpackers) -> u64 {
        let is_brought_packed = self.packed.is_some() && unpackers.gzip;
        let packed = is_brought_packed.then(|| self.file.metadata().ok()).flatten();
        packed.map_or(self.size, |file| file.len())
    }

    /// Writes the binary's hash to `far`, and then the binary. If the far end can decompress, the binary is compressed;
    /// its compressed length and the name of the program that decompresses it then follow the hash.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub fn bring(&self, far: &mut impl Write, unpackers: Unpackers) -> io::Result<()> {
        let file = File::open(&self.file)?;
        match &self.packed {
            Some(hash) if unpackers.gzip => {
                let length = file.metadata()?.len();
                writeln!(far, "{hash} {length} gzip")?;
                io::copy(&mut file.take(length), far)?;
            }
            Some(hash) => {
                writeln!(far, "{hash}")?;
                io::copy(&mut MultiGzDecoder::new(file).take(self.size), far)?;
            }
            None => self.bring_program(far, unpackers.zstd)?,
        }
        far.flush()
    }

    fn bring_program(&self, far: &mut impl Write, compressed: bool) -> io::Result<()> {
        let contents = || File::open(&self.file).map(|file| file.take(self.size));
        let hash = sha256(contents()?)?;
        if compressed {
            let packed = zstd::encode_all(contents()?, LEVEL)?;
            writeln!(far, "{hash} {} zstd", packed.len())?;
            return far.write_all(&packed);
        }
        writeln!(far, "{hash}")?;
        io::copy(&mut contents()?, far).map(|_| ())
    }
}

/// The build ID in an ELF file's notes.
fn build_id(file: &File) -> Option<Vec<u8>> {
    let cache = ReadCache::new(file);
    let object = object::File::parse(&cache).ok()?;
    object.build_id().ok()?.filter(|id| !id.is_empty()).map(<[u8]>::to_vec)
}

/// The SHA-256 of the input, in hexadecimal.
///
/// # Errors
/// If it can't be read.
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

    /// Changes an ELF file's notes to another type.
    fn without_notes(mut bytes: Vec<u8>) -> Vec<u8> {
        // The owner's name behind its length, the description's length, and the type.
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
        // A file that has the right form but no ID. Reading the form leaves nothing more to read.
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

    /// Nothing lies beside a program for x86-64.
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
            fs::write(at(name), "#!program").unwrap();
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
        assert!(why.ends_with("agent-riscv64.gz: it is no packed agent"), "{why}");
        binaries.give_up(&at("agent-s390x.gz"), "it is damaged");
        assert!(binaries.for_machine(b"Linux s390x", FarPart::Agent).is_empty());
        assert!(binaries.why_unfit(b"Linux s390x").unwrap().ends_with("agent-s390x.gz: it is damaged"));
    }

    #[test]
    fn a_packed_agent_travels_as_it_is_or_unpacked() {
        let directory = tempfile::tempdir().unwrap();
        let (file, plain) = (directory.path().join("agent-x.gz"), directory.path().join("agent"));
        let bytes = include_bytes!("binary.rs");
        fs::write(&plain, bytes).unwrap();
        packed::write(&plain, &mut File::create(&file).unwrap()).unwrap();
        let agent = packed::read(&machine("x"), &file).unwrap();
        let hash = sha256(&bytes[..]).unwrap();
        let brought = |unpackers| {
            let mut far = Vec::new();
            agent.bring(&mut far, unpackers).unwrap();
            far
        };
        let gzip = Unpackers { gzip: true, zstd: true };
        let packed = fs::read(&file).unwrap();
        let line = format!("{hash} {} gzip\n", packed.len());
        assert_eq!(agent.travels(gzip), packed.len() as u64);
        assert!(brought(gzip) == [line.as_bytes(), &packed].concat());
        let line = format!("{hash}\n");
        let zstd = Unpackers { gzip: false, zstd: true };
        assert!(brought(zstd) == [line.as_bytes(), bytes].concat());
        assert_eq!(agent.travels(zstd), bytes.len() as u64);
        assert_eq!(agent.id, Binary::of(machine("x"), plain).unwrap().id);
    }
}
