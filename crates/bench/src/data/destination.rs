//! The directory to which a run writes its files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_lab::is_on_tmpfs;

use super::tree::Tree;

/// The name of the file that is written to make memory available. No tool creates a file with this name.
const BALLAST: &str = ".ballast";

/// The path of the directory to which a run writes its files.
pub(crate) struct Destination(pub PathBuf);

impl Destination {
    /// Empties the directory, and makes sure that memory for `bytes` is available at once.
    ///
    /// On a tmpfs, the directory is first filled with `bytes` bytes and then emptied, so that the run reuses the memory
    /// that becomes free. Without this step, the hypervisor of a virtual machine would have to provide memory that
    /// hasn't been used for some time, and the run would measure this as the tool's work.
    ///
    /// # Errors
    /// If the directory can't be filled, removed or made.
    pub fn clear(&self, bytes: u64) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        if is_on_tmpfs(&self.0) {
            self.fill(bytes)?;
        }
        remove_all(&self.0)?;
        fs::create_dir_all(&self.0)
    }

    fn fill(&self, bytes: u64) -> io::Result<()> {
        let mut left = bytes.saturating_sub(Tree::read(&self.0)?.bytes());
        let mut ballast = File::create(self.0.join(BALLAST))?;
        let block = vec![1; 1 << 20];
        while left > 0 {
            let length = left.min(block.len() as u64);
            ballast.write_all(&block[..length as usize])?;
            left -= length;
        }
        Ok(())
    }
}

/// Removes a tree. If processes of a killed run still write to it, the removal is tried again.
fn remove_all(path: &Path) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match fs::remove_dir_all(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) if tries < 10 => tries += 1,
            result => return result,
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_empty_whatever_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let destination = Destination(dir.path().join("arrived"));
        for bytes in [0, 3_000_000, 10] {
            destination.clear(bytes).unwrap();
            assert!(Tree::read(&destination.0).unwrap().entries().is_empty());
            fs::create_dir(destination.0.join("d")).unwrap();
            fs::write(destination.0.join("d/f"), b"abc").unwrap();
        }
    }

    #[test]
    fn it_is_filled_up_to_what_will_come() {
        let dir = tempfile::tempdir().unwrap();
        let destination = Destination(dir.path().to_owned());
        fs::write(dir.path().join("f"), b"abc").unwrap();
        destination.fill(3_000_000).unwrap();
        assert_eq!(Tree::read(dir.path()).unwrap().bytes(), 3_000_000);
        destination.fill(10).unwrap();
        assert_eq!(Tree::read(dir.path()).unwrap().bytes(), 3);
    }
}
