//! The kernel modules that a guest needs, each after the modules it depends on.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::LabError;
use crate::tool;

/// Modules for the root file system and the PCI bus of virtio.
const ALWAYS: [&str; 4] = ["virtio_pci", "9pnet_virtio", "9p", "overlay"];

/// The contents of one module's file, and the module's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) contents: Vec<u8>,
}

/// The files below a kernel's directory of modules, by the modules' names.
pub(crate) struct ModuleFiles(BTreeMap<String, PathBuf>);

impl ModuleFiles {
    /// Finds all modules below `directory`, such as `/lib/modules/6.1.0-56-amd64`.
    pub(crate) fn below(directory: &Path) -> io::Result<Self> {
        let mut found = BTreeMap::new();
        collect(&directory.join("kernel"), &mut found)?;
        Ok(Self(found))
    }

    /// True if there is a module of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The modules that every guest needs and the modules `further`, in an order in which they can be loaded. A module
    /// without a file is left out, because it may be part of the kernel. If it isn't, the guest reports an error when
    /// it needs the module.
    pub(crate) fn needed(&self, further: &[&str]) -> Result<Vec<Module>, LabError> {
        let mut ordered = Vec::new();
        for name in ALWAYS.iter().chain(further) {
            self.add(name, &mut ordered)?;
        }
        Ok(ordered)
    }

    fn add(&self, name: &str, ordered: &mut Vec<Module>) -> Result<(), LabError> {
        let name = name.replace('-', "_");
        let Some(path) = self.0.get(&name) else { return Ok(()) };
        if ordered.iter().any(|module| module.name == name) {
            return Ok(());
        }
        let contents = read(path)?;
        for needed in dependencies(&contents) {
            self.add(&needed, ordered)?;
        }
        ordered.push(Module { name, contents });
        Ok(())
    }
}

fn collect(directory: &Path, found: &mut BTreeMap<String, PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), found)?;
        } else if let Some((name, _)) = entry.file_name().to_str().and_then(|name| name.split_once(".ko")) {
            found.insert(name.replace('-', "_"), entry.path());
        }
    }
    Ok(())
}

/// Reads a module's file, and decompresses it.
fn read(path: &Path) -> Result<Vec<u8>, LabError> {
    let program = match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => "xz",
        Some("zst") => "zstd",
        Some("gz") => "gzip",
        _ => return std::fs::read(path).map_err(LabError::file("reading", path)),
    };
    let mut command = Command::new(program);
    command.arg("-dc").arg(path);
    tool::output_bytes(&mut command)
}

/// The modules that a module depends on, as its `.modinfo` section names them: `depends=a,b` between zero
/// bytes.
fn dependencies(contents: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = contents.windows(KEY.len()).position(|window| window == KEY) else { return Vec::new() };
    let value = contents[at + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(value);
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(directory: &Path, name: &str, depends: &str) {
        let directory = directory.join("kernel/drivers");
        std::fs::create_dir_all(&directory).expect("writable");
        std::fs::write(directory.join(name), format!("\x7fELF..\0license=GPL\0depends={depends}\0name=x\0"))
            .expect("writable");
    }

    #[test]
    fn a_module_comes_after_those_it_needs_and_once() {
        let root = tempfile::tempdir().expect("a temporary directory");
        module(root.path(), "virtio-net.ko", "virtio_ring,net-failover");
        module(root.path(), "net_failover.ko", "virtio_ring");
        module(root.path(), "virtio_ring.ko", "");
        module(root.path(), "virtio_pci.ko", "virtio_ring");
        let files = ModuleFiles::below(root.path()).expect("readable");
        let names: Vec<String> =
            files.needed(&["virtio_net"]).expect("readable").into_iter().map(|module| module.name).collect();
        assert_eq!(names, ["virtio_ring", "virtio_pci", "net_failover", "virtio_net"]);
    }

    #[test]
    fn a_file_without_dependencies_has_none() {
        for text in [&b"\0depends=\0"[..], b"", b"depends=a", b"\0depends"] {
            assert_eq!(dependencies(text), Vec::<String>::new());
        }
    }
}
