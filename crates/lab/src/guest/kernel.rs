//! A kernel of the distribution, with its modules, for guests.

use std::cmp::Ordering;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::module::{Module, ModuleFiles};
use super::spec::{GuestSpec, MachineKind};
use crate::error::LabError;
use crate::tool::{self, LINUX_UML};

/// A kernel's image and its directory of modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuestKernel {
    image: PathBuf,
    modules: PathBuf,
    version: String,
}

/// The compression formats of kernel images: the first bytes of the data, and the command that decompresses
/// it.
const COMPRESSIONS: [(&[u8], &[&str]); 5] = [
    (b"\xfd7zXZ\0", &["xz", "-dc", "--single-stream"]),
    (b"\x28\xb5\x2f\xfd", &["zstd", "-dc"]),
    (b"\x1f\x8b\x08", &["gzip", "-dc"]),
    (b"\x02\x21\x4c\x18", &["lz4", "-dc"]),
    (b"BZh", &["bzip2", "-dc"]),
];

/// The first bytes of an ELF file.
const ELF: &[u8] = b"\x7fELF";

/// The number of bytes at the beginning of a kernel's image that are read for its header.
const HEADER: usize = 0x250;

impl GuestKernel {
    /// The newest kernel below `root` (`None`: `/`) for such guests.
    ///
    /// # Errors
    /// [`LabError::Kernel`] if no kernel has all needed modules; [`LabError::Missing`] if user-mode Linux isn't
    /// installed.
    pub(crate) fn find(root: Option<&Path>, spec: &GuestSpec) -> Result<Self, LabError> {
        match spec.kind {
            MachineKind::Qemu => Self::with_modules(root, spec.modules()),
            MachineKind::Uml => Self::user_mode(root),
        }
    }

    /// User-mode Linux, a kernel that is a program, with its modules.
    fn user_mode(root: Option<&Path>) -> Result<Self, LabError> {
        let (image, root) = match root {
            None => (LINUX_UML.find()?, Path::new("/")),
            Some(root) => (root.join("usr/bin").join(LINUX_UML.program()), root),
        };
        let version = tool::output(Command::new(&image).arg("--version"))?.trim().to_owned();
        Ok(Self { image, modules: root.join("usr/lib/uml/modules").join(&version), version })
    }

    fn with_modules(root: Option<&Path>, modules: &[&str]) -> Result<Self, LabError> {
        let root = root.unwrap_or(Path::new("/"));
        let mut found = Self::all(root);
        found.sort_by(|one, other| by_number(&other.version, &one.version));
        let whole = |kernel: &&Self| {
            ModuleFiles::below(&kernel.modules)
                .is_ok_and(|files| files.has("9p") && modules.iter().all(|name| files.has(name)))
        };
        found.iter().find(whole).cloned().ok_or_else(|| LabError::Kernel {
            root: root.to_owned(),
            modules: modules.join(", "),
            found: found.iter().map(|kernel| kernel.version.as_str()).collect::<Vec<_>>().join(", "),
        })
    }

    fn all(root: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(root.join("boot")).into_iter().flatten().flatten();
        let kernel = |entry: std::fs::DirEntry| {
            let version = entry.file_name().to_str()?.strip_prefix("vmlinuz-")?.to_owned();
            let directories =
                ["lib/modules", "usr/lib/modules"].map(|parent| root.join(parent).join(&version));
            let modules = directories.into_iter().find(|directory| directory.is_dir())?;
            Some(Self { image: entry.path(), modules, version })
        };
        entries.filter_map(kernel).collect()
    }

    /// The modules that a guest needs, with the modules `further` of its network cards.
    pub(crate) fn modules(&self, further: &[&str]) -> Result<Vec<Module>, LabError> {
        let files = ModuleFiles::below(&self.modules).map_err(LabError::file("reading", &self.modules))?;
        files.needed(further)
    }

    /// The kernel's version, as uname(1) prints it.
    pub(crate) fn version(&self) -> &str {
        &self.version
    }

    /// The file that is booted: the ELF file from the image, which is decompressed to `to`, so that the guest needn't
    /// decompress it. If this fails, or nothing is compressed, the image itself.
    pub(crate) fn bootable(&self, to: &Path) -> PathBuf {
        match self.unpack(to) {
            Some(()) => to.to_owned(),
            None => self.image.clone(),
        }
    }

    fn unpack(&self, to: &Path) -> Option<()> {
        let mut image = File::open(&self.image).ok()?;
        let mut header = [0; HEADER];
        image.read_exact(&mut header).ok()?;
        let payload = payload(&header)?;
        let mut magic = [0; 6];
        image.seek(SeekFrom::Start(payload)).ok()?;
        image.read_exact(&mut magic).ok()?;
        image.seek(SeekFrom::Start(payload)).ok()?;
        let (_, argv) = COMPRESSIONS.iter().find(|(begin, _)| magic.starts_with(begin))?;
        let mut command = Command::new(argv[0]);
        command.args(&argv[1..]).stdin(image).stdout(File::create(to).ok()?).stderr(Stdio::null());
        // The exit status isn't checked: other bytes follow the compressed data, and some decompression programs report
        // these bytes as an error.
        command.status().ok()?;
        let mut begin = [0; ELF.len()];
        File::open(to).ok()?.read_exact(&mut begin).ok()?;
        (begin == ELF).then_some(())
    }
}

/// The offset of the compressed kernel in an x86 image (Documentation/arch/x86/boot.rst: `HdrS` at 0x202,
/// protocol 2.08 or later, setup_sects at 0x1f1, payload_offset at 0x248).
fn payload(header: &[u8; HEADER]) -> Option<u64> {
    let word = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    if &header[0x202..0x206] != b"HdrS" || word(0x206) < 0x0208 {
        return None;
    }
    let sectors = if header[0x1f1] == 0 { 4 } else { u64::from(header[0x1f1]) };
    let offset = u32::from_le_bytes([header[0x248], header[0x249], header[0x24a], header[0x24b]]);
    Some((sectors + 1) * 512 + u64::from(offset))
}

/// Compares versions: the numbers in them as numbers, the rest as text.
fn by_number(one: &str, other: &str) -> Ordering {
    let parts = |text: &str| -> Vec<(u64, String)> {
        let ends = |c: char| !c.is_ascii_digit();
        text.split_inclusive(ends)
            .map(|part| (part.trim_end_matches(ends).parse().unwrap_or(0), part.to_owned()))
            .collect()
    };
    parts(one).cmp(&parts(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(root: &Path, version: &str, modules: &[&str]) {
        let directory = root.join("lib/modules").join(version).join("kernel");
        std::fs::create_dir_all(root.join("boot")).expect("writable");
        std::fs::create_dir_all(&directory).expect("writable");
        std::fs::write(root.join("boot").join(format!("vmlinuz-{version}")), "").expect("writable");
        for module in modules {
            std::fs::write(directory.join(format!("{module}.ko")), "").expect("writable");
        }
    }

    #[test]
    fn the_newest_kernel_with_the_modules_is_found() {
        let root = tempfile::tempdir().expect("a temporary directory");
        kernel(root.path(), "6.1.0-9-amd64", &["9p", "e1000"]);
        kernel(root.path(), "6.1.0-56-amd64", &["9p", "e1000"]);
        kernel(root.path(), "6.12.1-cloud-amd64", &["9p"]);
        let find = |modules: &[&str]| GuestKernel::with_modules(Some(root.path()), modules);
        assert_eq!(find(&["e1000"]).expect("there is one").version(), "6.1.0-56-amd64");
        assert_eq!(find(&[]).expect("there is one").version(), "6.12.1-cloud-amd64");
        let error = find(&["vmxnet3"]).expect_err("none has it").to_string();
        assert!(error.contains("vmxnet3") && error.contains("linux-image-amd64"), "{error}");
    }

    #[test]
    fn the_payload_is_where_the_header_says() {
        let mut header = [0; HEADER];
        assert_eq!(payload(&header), None);
        header[0x202..0x206].copy_from_slice(b"HdrS");
        header[0x206..0x208].copy_from_slice(&[0x0f, 0x02]);
        header[0x1f1] = 31;
        header[0x248] = 0x10;
        assert_eq!(payload(&header), Some(32 * 512 + 0x10));
    }

    #[test]
    fn a_packed_kernel_is_unpacked() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let packed = root.path().join("elf.gz");
        let elf = [ELF, &[7; 4000]].concat();
        let made = File::create(&packed).and_then(|file| {
            let mut child = Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(file).spawn()?;
            std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), &elf)?;
            child.wait()
        });
        assert!(made.expect("gzip is essential").success());
        let mut image = vec![0; 1024 + 512];
        image[0x1f1] = 2;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x206..0x208].copy_from_slice(&[0x0f, 0x02]);
        image.extend(std::fs::read(&packed).expect("just written"));
        image.extend([9; 4]);
        let path = root.path().join("vmlinuz");
        std::fs::write(&path, image).expect("writable");
        let kernel = GuestKernel { image: path, modules: root.path().into(), version: "1".into() };
        let to = root.path().join("vmlinux");
        assert_eq!(kernel.bootable(&to), to);
        assert_eq!(std::fs::read(&to).expect("just written"), elf);
        let odd = GuestKernel { image: packed.clone(), ..kernel };
        assert_eq!(odd.bootable(&to), packed, "an image of another kind is left to QEMU");
    }
}
