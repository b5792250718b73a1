//! The kinds of machines for which linerate is built, and the compilers for kinds other than this machine's.

use anyhow::{Context, bail};
use linerate_remote::program;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Command;

/// The path of Debian's own compiler. Debian has the standard libraries for other machines as packages:
/// `rustc-web`, `libstd-rust-web-dev:arm64`.
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";

/// A kind of machine, by its name in `uname -m` and in Rust.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Machine(String);

impl Machine {
    /// The kind of this machine.
    pub fn here() -> Self {
        Self(std::env::consts::ARCH.to_owned())
    }

    /// The kind of machine with this name.
    ///
    /// # Errors
    /// If the name isn't that of a 64-bit little-endian machine with Linux.
    pub fn named(name: &str) -> anyhow::Result<Self> {
        match name {
            "x86_64" | "aarch64" | "riscv64" => Ok(Self(name.to_owned())),
            _ => bail!("linerate is built for x86_64, aarch64 and riscv64, not for '{name}'"),
        }
    }

    pub fn name(&self) -> &str {
        &self.0
    }

    /// The name of Rust's target for this kind of machine.
    pub fn triple(&self) -> String {
        match self.name() {
            "riscv64" => "riscv64gc-unknown-linux-gnu".into(),
            name => format!("{name}-unknown-linux-gnu"),
        }
    }

    /// Checks that a file is a program for this kind of machine, or a script.
    ///
    /// # Errors
    /// If the file is for another kind of machine, or isn't a program.
    pub fn check(&self, file: &Path) -> anyhow::Result<()> {
        let mut start = Vec::new();
        let opened = File::open(file).and_then(|file| {
            (&file).take(program::HEAD as u64).read_to_end(&mut start)?;
            Ok(file.metadata()?.len())
        });
        let size = opened.with_context(|| format!("reading {}", file.display()))?;
        match program::fault(&start, size, self.name()) {
            Some(why) => bail!("{} is no program for {}: {why}", file.display(), self.name()),
            None => Ok(()),
        }
    }

    /// The version of the C library with which this machine links programs for this kind of machine, if the library is
    /// glibc.
    pub fn c_library(&self) -> Option<String> {
        let mut macros = Command::new(self.linker());
        macros.args(["-E", "-dM", "-include", "features.h", "-x", "c", "/dev/null"]);
        let macros = String::from_utf8(macros.output().ok()?.stdout).ok()?;
        let value = |name| macros.lines().find_map(|line| line.strip_prefix("#define ")?.strip_prefix(name));
        Some(format!("{}.{}", value("__GLIBC__ ")?, value("__GLIBC_MINOR__ ")?))
    }

    /// The version of the GCC whose runtime this machine links into programs for this kind of machine, if the C
    /// compiler is GCC.
    pub fn gcc(&self) -> Option<String> {
        let version = Command::new(self.linker()).arg("-dumpfullversion").output().ok()?;
        let version = String::from_utf8(version.stdout).ok()?.trim().to_owned();
        (!version.is_empty()).then_some(version)
    }

    /// The C compiler that links programs for this kind of machine.
    fn linker(&self) -> String {
        if self.is_here() { "cc".to_owned() } else { self.c_compiler() }
    }

    fn is_here(&self) -> bool {
        *self == Self::here()
    }

    /// Debian's C compiler for this kind of machine.
    fn c_compiler(&self) -> String {
        format!("{}-linux-gnu-gcc", self.name())
    }

    /// Builds statically linked programs for this kind of machine with cargo, with additional options for rustc and the
    /// C compiler.
    ///
    /// # Errors
    /// If no compiler here has Rust's standard library for that machine.
    pub fn build_with(
        &self,
        cargo: &mut Command,
        mut rust: Vec<String>,
        c_options: &str,
    ) -> anyhow::Result<()> {
        let triple = self.triple();
        let variable = triple.replace('-', "_");
        rust.insert(0, "-Ctarget-feature=+crt-static".into());
        // If the target is named explicitly, cargo uses the flags only for the program, not for build scripts.
        cargo.args(["--target", &triple]).env("CARGO_ENCODED_RUSTFLAGS", rust.join("\x1f"));
        cargo.env(format!("CFLAGS_{variable}"), c_options);
        if self.is_here() {
            return Ok(());
        }
        if let Some(rustc) = self.compiler()? {
            cargo.env("RUSTC", rustc);
        }
        let linker = format!("CARGO_TARGET_{}_LINKER", variable.to_uppercase());
        cargo.env(linker, self.c_compiler()).env(format!("CC_{variable}"), self.c_compiler());
        Ok(())
    }

    /// The compiler that has the standard library for this kind of machine; `None` for the usual compiler.
    fn compiler(&self) -> anyhow::Result<Option<&'static str>> {
        let usual = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
        if self.has_library(&usual)? {
            return Ok(None);
        }
        if Path::new(DEBIAN_RUSTC).exists() && self.has_library(DEBIAN_RUSTC)? {
            return Ok(Some(DEBIAN_RUSTC));
        }
        let triple = self.triple();
        bail!(
            "building for {}: there is no standard library for it; by rustup: rustup target add {triple}; on Debian: \
             dpkg --add-architecture arm64, apt-get update, apt-get install rustc-web libstd-rust-web-dev \
             libstd-rust-web-dev:arm64; and {} from gcc-{}-linux-gnu",
            self.name(),
            self.c_compiler(),
            self.name().replace('_', "-"),
        )
    }

    fn has_library(&self, rustc: &str) -> anyhow::Result<bool> {
        let asked =
            Command::new(rustc).args(["--print", "target-libdir", "--target", &self.triple()]).output();
        let asked = asked.with_context(|| format!("running {rustc}"))?;
        let directory = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
        Ok(asked.status.success() && Path::new(&directory).is_dir())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_machines_that_it_runs_on_are_taken() {
        assert_eq!(Machine::named("riscv64").unwrap().triple(), "riscv64gc-unknown-linux-gnu");
        assert!(Machine::named("aarch64").unwrap().triple().starts_with("aarch64-"));
        for wrong in ["arm64", "mips", "../x", ""] {
            assert!(Machine::named(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_program_is_for_its_own_machine() {
        let own = Path::new("/proc/self/exe");
        Machine::here().check(own).unwrap();
        let other = ["x86_64", "aarch64"].map(|name| Machine::named(name).unwrap());
        for machine in other.iter().filter(|machine| !machine.is_here()) {
            assert!(machine.check(own).unwrap_err().to_string().contains(machine.name()));
        }
        assert!(Machine::here().check(Path::new("Cargo.toml")).is_err());
    }

    #[test]
    fn this_machine_needs_no_other_compiler() {
        let mut cargo = Command::new("cargo");
        Machine::here().build_with(&mut cargo, Vec::new(), "").unwrap();
        assert!(cargo.get_envs().all(|(name, _)| name != "RUSTC"));
        assert!(Machine::here().has_library("rustc").unwrap());
    }
}
