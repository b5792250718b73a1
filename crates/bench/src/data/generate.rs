//! Generates files of incompressible bytes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The number of bytes that are generated and written at a time.
const BLOCK: usize = 1 << 20;

/// Writes files of these sizes in bytes below `root`, with `per_directory` files in each directory. The same
/// seed gives the same bytes.
///
/// # Errors
/// The first error of writing, with the name of the file.
pub(crate) fn files(root: &Path, sizes: &[u64], per_directory: u64, seed: u64) -> io::Result<()> {
    fs::create_dir_all(root)?;
    let per_directory = usize::try_from(per_directory).unwrap_or(usize::MAX).max(1);
    for (d, sizes) in sizes.chunks(per_directory).enumerate() {
        let dir = root.join(format!("d{d:04}"));
        fs::create_dir_all(&dir)?;
        for (f, size) in sizes.iter().enumerate() {
            let path: PathBuf = dir.join(format!("f{f:04}"));
            // Each file has its own random generator, so that its bytes don't depend on the sizes of other
            // files.
            let own = fastrand::Rng::with_seed(seed ^ ((d as u64) << 32 | f as u64)).u64(..);
            file(&path, *size, own)
                .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        }
    }
    Ok(())
}

fn file(path: &Path, size: u64, seed: u64) -> io::Result<()> {
    let mut out = File::create(path)?;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut block = vec![0; BLOCK.min(usize::try_from(size).unwrap_or(BLOCK))];
    let mut left = size;
    while left > 0 {
        let n = block.len().min(usize::try_from(left).unwrap_or(BLOCK));
        rng.fill(&mut block[..n]);
        out.write_all(&block[..n])?;
        left -= n as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Tree;

    #[test]
    fn files_are_spread_and_the_same_for_the_same_seed() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b, c) = (dir.path().join("a"), dir.path().join("b"), dir.path().join("c"));
        let sizes = [5, 0, 3_000_000, 1, 70_000];
        files(&a, &sizes, 2, 9).unwrap();
        files(&b, &sizes, 2, 9).unwrap();
        files(&c, &sizes, 2, 10).unwrap();
        let tree = Tree::read(&a).unwrap();
        assert_eq!((tree.files(), tree.bytes()), (5, 3_070_006));
        assert_eq!(fs::read_dir(&a).unwrap().count(), 3);
        assert_eq!(tree.difference(&a, &b).unwrap(), None);
        assert!(tree.difference(&a, &c).unwrap().is_some());
    }

    #[test]
    fn bytes_do_not_compress() {
        let dir = tempfile::tempdir().unwrap();
        files(dir.path(), &[1_000_000], 1, 1).unwrap();
        let bytes = fs::read(dir.path().join("d0000/f0000")).unwrap();
        let packed = zstd::bulk::compress(&bytes, 9).unwrap();
        assert!(packed.len() > 999_000, "{}", packed.len());
    }
}
