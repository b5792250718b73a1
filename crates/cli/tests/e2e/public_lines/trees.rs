//! The prepared trees: a typical source, an older version of it, and lists of files.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};

use crate::archive::set_time;
use crate::tree::{noise, write};

/// The files of a source, including files that usual patterns exclude.
const FILES: [&str; 58] = [
    ".git/HEAD",
    ".git/config",
    ".git/objects/ab",
    ".cache/thumb",
    ".DS_Store",
    ".env",
    ".htaccess",
    "a.c",
    "b.c",
    "main.o",
    "notes.tmp",
    "README.md",
    "LICENSE",
    "LICENSE-MIT.txt",
    "bootstrap.sh",
    "core",
    "a file.txt",
    "kept~",
    "\u{fc}n\u{ef}code",
    "build/out.o",
    "build/deep/er/x",
    "dist/index.html",
    "dist/js/app.js",
    "public/index.html",
    "public/build/b.js",
    "public/images/p.jpg",
    "node_modules/m/index.js",
    "lost+found/x",
    "proc/1/status",
    "dev/null",
    "sys/k",
    "tmp/t1",
    "run/r",
    "mnt/m/x",
    "var/cache/apt/archives/a.deb",
    "var/lib/x",
    "boot/firmware/start.elf",
    "boot/config.txt",
    "src/foo.c",
    "src/foo.h",
    "src/foo.o",
    "src/cmd",
    "src/bar/baz.c",
    "src/bar/zzz.txt",
    "content/posts/p1/gallery/pic.jpg",
    "content/posts/p1/feature.png",
    "content/posts/p1/index.md",
    "logs/a.log",
    "logs/b.log",
    "swapfile",
    "photos/1.jpg",
    "photos/2.JPG",
    "photos/raw.png",
    "src/doc.pdf",
    "lib/l.so",
    "CVS/Entries",
    "src/x.secret",
    "etc/fstab",
];

/// Makes all files that a line may name.
pub fn make(top: &Path) {
    make_source(&top.join("from"));
    make_older(&top.join("to"));
    make_older(&top.join("last"));
    write(top.join("aside/file"), "what is beside");
    fs::create_dir(top.join("tmp")).expect("writable");
    write(top.join("excludes"), "# what isn't kept\n.cache\n*.o\n- /tmp/*\n/proc\nnode_modules/\n");
    write(top.join("includes"), "+ /src/\n+ *.c\n- *.tmp\n");
    write(top.join("list"), "a.c\nsrc/bar\nsrc/foo.h\ndist/js/app.js\n");
    write(top.join("zeros"), "a.c\0src/foo.h\0a file.txt\0");
    settle(top);
}

fn make_source(top: &Path) {
    for (seed, name) in (1..).zip(FILES) {
        write(top.join(name), noise(seed, 40 + 13 * seed as usize));
    }
    write(top.join("big.bin"), noise(99, 100_000));
    write(top.join(".gitignore"), "*.log\nbuild/\n");
    write(top.join("src/.rsync-filter"), "- *.secret\n");
    write(top.join("src/.excl"), "- foo.o\n");
    write(top.join("src/.cvsignore"), "cmd\n");
    fs::create_dir(top.join("empty")).expect("writable");
    for (target, name) in
        [("a.c", "link"), ("src", "dirlink"), ("nowhere", "dangling"), ("../aside/file", "outlink")]
    {
        symlink(target, top.join(name)).expect("writable");
    }
    fs::hard_link(top.join("a.c"), top.join("src/hard.c")).expect("writable");
    rustix::fs::mknodat(CWD, top.join("pipe"), FileType::Fifo, Mode::from_raw_mode(0o640), 0)
        .expect("writable");
    let sparse = fs::File::create(top.join("sparse")).expect("writable");
    sparse.set_len(65_536).and_then(|()| sparse.write_all_at(b"in the middle", 32_768)).expect("writable");
    give_attributes(top);
}

fn give_attributes(top: &Path) {
    for (name, mode) in [
        ("bootstrap.sh", 0o755),
        ("LICENSE", 0o444),
        ("tmp", 0o1777),
        ("etc", 0o700),
        ("lib", 0o2775),
        (".env", 0o600),
    ] {
        fs::set_permissions(top.join(name), PermissionsExt::from_mode(mode)).expect("our own");
    }
    for name in ["b.c", "src"] {
        // A file system without them compares as well.
        let _ = rustix::fs::lsetxattr(top.join(name), "user.comment", name.as_bytes(), XattrFlags::empty());
    }
    for (name, owner) in [("etc/fstab", 1000), ("photos", 33), ("photos/1.jpg", 33)] {
        // Only root may.
        let _ = chown(top.join(name), Some(owner), Some(owner));
    }
}

/// Makes an older version of the source: some entries are missing, some are different, and some are
/// additional.
fn make_older(top: &Path) {
    make_source(top);
    for name in ["dist/js/app.js", "photos/2.JPG", "link"] {
        fs::remove_file(top.join(name)).expect("just made");
    }
    fs::remove_dir_all(top.join("content")).expect("just made");
    write(top.join("src/foo.c"), "older, and shorter");
    write(top.join("b.c"), noise(77, 40 + 13 * 9));
    write(top.join("README.md"), "newer at the destination");
    write(top.join("big.bin"), [noise(99, 50_000), noise(98, 50_000)].concat());
    for name in [
        "extra.txt",
        "old/stale",
        "src/gone.c",
        "tmp/t0",
        ".cache/gone",
        "from/a.c",
        "from/extra",
        "from/src/foo.c",
        "old.o",
    ] {
        write(top.join(name), name);
    }
    fs::remove_file(top.join("logs/b.log")).expect("just made");
    symlink("a.log", top.join("logs/b.log")).expect("writable");
    fs::set_permissions(top.join("LICENSE-MIT.txt"), PermissionsExt::from_mode(0o600)).expect("our own");
}

/// Sets the modification times: those of the older version are older, with some exceptions.
fn settle(top: &Path) {
    for (tree, time) in [("from", 1_500_000_000), ("to", 1_500_000_000), ("last", 1_500_000_000)] {
        for path in inside(&top.join(tree)) {
            set_time(&path, time, 0);
        }
    }
    for tree in ["to", "last"] {
        for (name, time) in [
            ("src/foo.c", 1_400_000_000),
            ("README.md", 1_600_000_000),
            ("big.bin", 1_400_000_000),
            ("boot/config.txt", 1_400_000_000),
            ("src", 1_400_000_000),
            ("", 1_400_000_000),
        ] {
            set_time(&top.join(tree).join(name), time, 0);
        }
    }
}

/// All entries below a directory, the deepest first, and the directory itself last.
fn inside(top: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = crate::tree::names(top).into_iter().map(|path| top.join(path)).collect();
    paths.reverse();
    paths.push(top.to_owned());
    paths
}

/// Changes the source between two runs. Entries that a line has removed are not restored.
pub fn change(place: &Path) {
    let from = place.join("from");
    let _ = fs::remove_file(from.join("photos/1.jpg"));
    let _ = fs::remove_dir_all(from.join("node_modules"));
    for (name, text) in [
        ("src/foo.c", "changed since, and longer than it was"),
        ("late.txt", "new"),
        ("src/bar/new/one", "1"),
    ] {
        write(from.join(name), text);
        set_time(&from.join(name), 1_650_000_000, 0);
    }
    if from.join("b.c").exists() {
        fs::set_permissions(from.join("b.c"), PermissionsExt::from_mode(0o640)).expect("our own");
    }
    for name in ["src/bar/new", "src/bar", "src", "photos", ""] {
        set_time(&from.join(name), 1_650_000_000, 0);
    }
}
