//! File systems for destinations, each mounted once.

use anyhow::Context;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::call;

/// The size of each file system in bytes: enough for two of the largest trees, but small enough to be filled.
pub const ROOM: u64 = 400 << 20;

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GroundKind {
    Tmpfs,
    Ext4,
    Xfs,
    Btrfs,
    /// A file system without O_TMPFILE.
    Bindfs,
    /// A file system that is full before everything is copied, and is enlarged later.
    Small,
}

/// All kinds, in the order of their numbers.
pub const KINDS: [GroundKind; 6] = [
    GroundKind::Tmpfs,
    GroundKind::Ext4,
    GroundKind::Xfs,
    GroundKind::Btrfs,
    GroundKind::Bindfs,
    GroundKind::Small,
];

/// A mounted file system.
pub struct Ground {
    pub kind: GroundKind,
    pub top: PathBuf,
}

impl Ground {
    /// Makes a file system and mounts it below `directory`. The error names a missing program or kernel
    /// module.
    pub fn mount(kind: GroundKind, directory: &Path) -> anyhow::Result<Self> {
        let ground = Self { kind, top: directory.join(format!("{kind:?}").to_lowercase()) };
        fs::create_dir_all(&ground.top)?;
        match kind {
            GroundKind::Tmpfs | GroundKind::Small => ground.mount_tmpfs()?,
            GroundKind::Ext4 => ground.mount_image(&["mkfs.ext4", "-q", "-F"])?,
            GroundKind::Xfs => ground.mount_image(&["mkfs.xfs", "-q", "-f"])?,
            // With --mixed, data and metadata share the same block groups. Otherwise, on such a small file system, the
            // space of removed contents couldn't be used for names.
            GroundKind::Btrfs => ground.mount_image(&["mkfs.btrfs", "-q", "-f", "--mixed"])?,
            GroundKind::Bindfs => {
                ground.mount_tmpfs()?;
                quietly(Command::new("bindfs").arg(&ground.top).arg(&ground.top))?;
            }
        }
        Ok(ground)
    }

    pub fn name(&self) -> &'static str {
        match self.kind {
            GroundKind::Tmpfs => "tmpfs",
            GroundKind::Ext4 => "ext4",
            GroundKind::Xfs => "xfs",
            GroundKind::Btrfs => "btrfs",
            GroundKind::Bindfs => "bindfs",
            GroundKind::Small => "small tmpfs",
        }
    }

    pub fn number(&self) -> u64 {
        KINDS.iter().position(|kind| *kind == self.kind).expect("one of them") as u64
    }

    /// Changes the size of a small file system.
    pub fn resize(&self, bytes: u64) -> anyhow::Result<()> {
        let option = format!("remount,size={bytes}");
        quietly(Command::new("mount").args(["-o", &option]).arg(&self.top))
    }

    /// Removes everything in the file system.
    pub fn empty(&self) -> anyhow::Result<()> {
        for entry in fs::read_dir(&self.top)?.flatten() {
            if entry.file_name() == "lost+found" {
                continue;
            }
            call(Command::new("rm").arg("-rf").arg(entry.path()))?;
        }
        Ok(())
    }

    /// Fills the free space with a file, until the result is dropped.
    pub fn fill(&self) -> anyhow::Result<Filling> {
        let filling = Filling(self.top.join("filling"));
        let file = File::create(&filling.0)?;
        let mut piece = ROOM;
        let mut length = 0;
        while piece >= 4096 {
            match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), length, piece) {
                Ok(()) => length += piece,
                // Some file systems in user space don't support this call.
                Err(Errno::OPNOTSUPP) => break,
                Err(_) => piece /= 2,
            }
        }
        if length == 0 {
            let zeros = vec![0; 1 << 20];
            while (&file).write_all(&zeros).is_ok() {}
        }
        Ok(filling)
    }

    fn mount_tmpfs(&self) -> anyhow::Result<()> {
        let size = format!("size={ROOM}");
        quietly(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "chaos"]).arg(&self.top))?;
        Ok(fs::set_permissions(&self.top, PermissionsExt::from_mode(0o755))?)
    }

    fn mount_image(&self, make: &[&str]) -> anyhow::Result<()> {
        let image = self.top.with_extension("image");
        File::create(&image)?.set_len(ROOM)?;
        quietly(Command::new(make[0]).args(&make[1..]).arg(&image))?;
        quietly(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&self.top))
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let layers = if self.kind == GroundKind::Bindfs { 2 } else { 1 };
        for _ in 0..layers {
            let _ = quietly(Command::new("umount").arg("-l").arg(&self.top));
        }
    }
}

/// A file that fills the free space; it is removed on drop.
pub struct Filling(PathBuf);

impl Drop for Filling {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs a command; if it fails, the error contains its output.
fn quietly(command: &mut Command) -> anyhow::Result<()> {
    let shown = crate::show(command);
    let output = command.output().with_context(|| format!("running {shown}"))?;
    anyhow::ensure!(
        output.status.success(),
        "{shown}: {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
