//! The process that replaces directories and files of the destination with links to a tree outside, and
//! restores them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::support::Running;
use crate::this_test;
use crate::tree::{DIRECTORIES, FILES};

const TOP: &str = "LINERATE_RACER_TOP";

/// Starts the process, which is killed on drop.
pub fn start(top: &Path) -> Running {
    let mut command = this_test("racer_process");
    command.env(TOP, top);
    Running::start(command)
}

/// The number of replacements so far.
pub fn swaps(top: &Path) -> u64 {
    fs::read_to_string(top.join("swaps")).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The main function of the process, which runs until it is killed.
pub fn run() {
    let Some(top) = std::env::var_os(TOP) else { return };
    let mut racer = Racer { top: top.into(), swaps: 0, spoiled: 0, reported: Instant::now() };
    loop {
        racer.round();
    }
}

struct Racer {
    top: PathBuf,
    swaps: u64,
    /// The number of names in `aside` that can't be used any more, because they hold received entries now.
    spoiled: u64,
    reported: Instant,
}

impl Racer {
    fn round(&mut self) {
        let (a, b, file) = (pick(DIRECTORIES), pick(DIRECTORIES), pick(FILES));
        match fastrand::u8(0..10) {
            0..2 => self.swap(&format!("d{a}"), &format!("outside/d{a}")),
            2..4 => self.swap(&format!("d{a}"), "outside"),
            4..7 => self.swap(&format!("d{a}/d{b}"), &format!("outside/d{a}/d{b}")),
            7 => self.swap(&format!("d{a}/d{b}/f{file}"), &format!("outside/d{a}/d{b}/f{file}")),
            8 => self.swap(&format!("d{a}/d{b}/x{file}"), &format!("outside/d{a}/d{b}")),
            _ => self.swap_temporary(&format!("d{a}/d{b}")),
        }
        if self.reported.elapsed() > Duration::from_millis(50) {
            self.reported = Instant::now();
            // Only a figure for the end.
            let _ = fs::write(self.top.join("swaps.new"), self.swaps.to_string());
            let _ = fs::rename(self.top.join("swaps.new"), self.top.join("swaps"));
        }
    }

    /// Replaces `name` below the destination with a link to `target` for a moment.
    fn swap(&mut self, name: &str, target: &str) {
        let place = self.top.join("in/dest").join(name);
        // In trees of a copy the names lie one level deeper.
        let place = if place.parent().is_some_and(Path::is_dir) { place } else { self.deeper(name) };
        let link = self.link(target);
        if exchange(&place, &link) {
            self.swaps += 1;
            std::thread::sleep(Duration::from_micros(fastrand::u64(0..300)));
            exchange(&place, &link);
        }
    }

    fn deeper(&self, name: &str) -> PathBuf {
        self.top.join("in/dest/tree").join(name)
    }

    /// Replaces an entry with a temporary name by a link, without restoring it.
    fn swap_temporary(&mut self, directory: &str) {
        for directory in [self.top.join("in/dest").join(directory), self.deeper(directory)] {
            let names = fs::read_dir(directory).into_iter().flatten().flatten();
            let temporary =
                names.filter(|entry| entry.file_name().to_string_lossy().starts_with(".linerate"));
            for entry in temporary.take(3) {
                let link = self.link("outside/d0/d0/f0");
                self.swaps += u64::from(exchange(&entry.path(), &link));
            }
        }
    }

    /// Makes a link to `target` that can replace an entry.
    fn link(&mut self, target: &str) -> PathBuf {
        let link = self.top.join("aside").join(target.replace('/', "-"));
        if fs::symlink_metadata(&link).is_ok_and(|found| !found.is_symlink()) {
            self.spoiled += 1;
            let _ = fs::rename(&link, self.top.join("aside").join(format!("spoiled-{}", self.spoiled)));
        }
        // It may be there from before.
        let _ = symlink(self.top.join(target), &link);
        link
    }
}

fn pick(among: u64) -> u64 {
    fastrand::u64(0..among)
}

fn exchange(one: &Path, other: &Path) -> bool {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}
