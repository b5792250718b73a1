//! The binaries that can be brought to a host: this program's own, and those for other kinds of machine that lie beside it.

use aws_lc_rs::digest::{Context, SHA256};
use object::read::{Object, ReadCache};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The running program's file, even after its name was given to another file.
const OWN: &str = "/proc/self/exe";
/// Where binaries for other machines are, below the directory above the one of this program: for `/usr/bin/linerate` in
/// `/usr/lib/linerate/agents`.
pub const BESIDE: &str = "lib/linerate/agents";
/// Begins their names; the machine follows, as `uname -m` calls it.
pub const NAME: &str = "linerate-";

/// Compresses to 41 % in 0.1 s; at level 9 it would be 37 % in 0.5 s, which a link of 1 Gbit/s doesn't give back.
const LEVEL: i32 = 3;

/// A static binary of linerate for one kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// The system and machine that it runs on, as `uname -sm` prints them.
    pub machine: String,
    /// Its file.
    pub file: PathBuf,
    /// Its length in bytes.
    pub size: u64,
    /// Identifies the binary: the linker's build ID in hexadecimal, or its SHA-256 if there is none, and its
    /// length, which strip(1) changes. Hashing all of it takes longer than copying a small file.
    pub id: String,
}

/// The binaries of this installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    /// The running program.
    pub own: Binary,
    /// The binaries for other kinds of machine.
    pub others: Vec<Binary>,
}

impl Binaries {
    /// Looks at the running program, and at what lies beside it.
    ///
    /// # Errors
    /// If the kernel doesn't show this program. A file beside it that can't be read isn't there.
    pub fn installed() -> io::Result<Self> {
        let own = Binary::of(machine(std::env::consts::ARCH), OWN.into())?;
        let beside = fs::read_link(OWN).ok().and_then(|path| Some(path.parent()?.parent()?.join(BESIDE)));
        let mut others = beside.map(|directory| in_directory(&directory)).unwrap_or_default();
        others.retain(|other| other.machine != own.machine);
        Ok(Self { own, others })
    }

    /// The binary for a machine, as its `uname -sm` calls it.
    pub fn of(&self, machine: &[u8]) -> Option<&Binary> {
        [&self.own].into_iter().chain(&self.others).find(|binary| binary.machine.as_bytes() == machine)
    }
}

/// The binaries in a directory, sorted by their names. Others' files are no binaries.
fn in_directory(directory: &Path) -> Vec<Binary> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let binary = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let arch = name.strip_prefix(NAME)?;
        // The name stands in the line for the far shell.
        let is_word =
            !arch.is_empty() && arch.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_word.then(|| Binary::of(machine(arch), entry.path()).ok()).flatten()
    };
    let mut binaries: Vec<_> = entries.filter_map(binary).collect();
    binaries.sort_by(|one, other| one.machine.cmp(&other.machine));
    binaries
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
        Ok(Self { machine, file: path, size, id: format!("{content}-{size}") })
    }

    /// Writes the program's hash to `far`, and then the program; compressed, with that length behind the hash, if the far
    /// end `unpacks` it.
    ///
    /// # Errors
    /// If reading or writing fails.
    pub fn bring(&self, far: &mut impl Write, unpacks: bool) -> io::Result<()> {
        let contents = || File::open(&self.file).map(|file| file.take(self.size));
        let hash = sha256(contents()?)?;
        if unpacks {
            let packed = zstd::encode_all(contents()?, LEVEL)?;
            writeln!(far, "{hash} {}", packed.len())?;
            far.write_all(&packed)?;
        } else {
            writeln!(far, "{hash}")?;
            io::copy(&mut contents()?, far)?;
        }
        far.flush()
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

    /// An ELF file whose notes have another type.
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
        // A file of the right form without an ID, of which reading the form leaves nothing to read.
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
            fs::write(directory.path().join(name), "program").unwrap();
        }
        let found = in_directory(directory.path());
        let machines: Vec<_> = found.iter().map(|binary| &*binary.machine).collect();
        assert_eq!(machines, ["Linux aarch64", "Linux riscv64"]);
        assert_eq!(in_directory(&directory.path().join("none")), []);
        let binaries =
            Binaries { own: Binary { machine: "Linux x".into(), ..found[0].clone() }, others: found };
        assert_eq!(binaries.of(b"Linux riscv64").unwrap().file, directory.path().join("linerate-riscv64"));
        assert_eq!(binaries.of(b"Linux ppc64le"), None);
        assert_eq!(binaries.of(b"Linux x").unwrap().machine, "Linux x");
    }
}
