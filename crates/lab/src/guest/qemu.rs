//! QEMU's command line.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use super::init::{PROGRAM, SUBCOMMAND};
use super::machine::{Booted, Card};
use super::spec::{Accel, GuestSpec, Nic};
use crate::error::LabError;
use crate::tool::QEMU;

/// The processor model of an emulated guest, without fast string operations, because QEMU emulates them slowly.
const TCG_MODEL: &str = "max,-erms,-fsrm";

/// The command that runs a guest without network cards.
pub(super) fn without_cards(booted: &Booted) -> Result<Command, LabError> {
    let Booted { spec, boot, log, name } = booted;
    let mut command = Command::new(QEMU.find()?);
    let (accel, model, kernel_options) = match spec.accel {
        Accel::Kvm => ("kvm", "host", ""),
        // Mitigations of processor vulnerabilities cost much time if every instruction is emulated.
        Accel::Tcg | Accel::Auto => ("tcg,thread=multi", TCG_MODEL, "mitigations=off tsc=unstable "),
    };
    let append = format!(
        "console=ttyS0 quiet loglevel=3 {kernel_options}net.ifnames=0 panic=-1 rdinit=/{PROGRAM} -- {SUBCOMMAND} {name}"
    );
    let (vcpus, memory) = (spec.vcpus.to_string(), format!("{}k", spec.memory / 1024));
    command.args(["-name", &format!("linerate-{name}"), "-machine", "q35", "-accel", accel, "-cpu", model]);
    command.args(["-smp", &vcpus, "-m", &memory, "-nodefaults", "-no-user-config", "-no-reboot"]);
    command.args(["-display", "none", "-monitor", "none", "-append", &append, "-serial"]);
    command.arg(with_path("file:", log)).arg("-kernel").arg(&boot.kernel).arg("-initrd").arg(&boot.archive);
    Ok(command)
}

/// An option of QEMU that ends in a path. A comma in the path is written twice.
fn with_path(option: &str, path: &Path) -> OsString {
    format!("{option}{}", path.display().to_string().replace(',', ",,")).into()
}

/// The command that runs a guest with these cards and with this host's root file system.
pub(super) fn with_cards(booted: &Booted, cards: &[Card]) -> Result<Command, LabError> {
    let spec = booted.spec;
    let mut command = without_cards(booted)?;
    command.args(["-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap"]);
    for (link, Card { tap, mac }) in cards.iter().enumerate() {
        let queues = if spec.queues > 1 { format!(",queues={}", spec.queues) } else { String::new() };
        let vhost = if spec.vhost { "on" } else { "off" };
        command.args([
            "-netdev",
            &format!("tap,id=n{link},ifname={tap},script=no,downscript=no,vhost={vhost}{queues}"),
        ]);
        command.args(["-device", &device(spec, link, mac)]);
    }
    command.stdout(Stdio::null());
    Ok(command)
}

fn device(spec: &GuestSpec, link: usize, mac: &str) -> String {
    let name = spec.nic.device();
    // `romfile=`: the card has no boot ROM.
    let plain = format!("{name},netdev=n{link},mac={mac},romfile=");
    if spec.nic != Nic::Virtio {
        return plain;
    }
    // The number of interrupts: two for each queue, one for the configuration and one for the control queue.
    let queues =
        if spec.queues > 1 { format!(",mq=on,vectors={}", 2 * spec.queues + 2) } else { String::new() };
    let rss = if spec.rss { ",rss=on" } else { "" };
    let offload = if spec.offload {
        ""
    } else {
        ",csum=off,gso=off,guest_csum=off,guest_tso4=off,guest_tso6=off,host_tso4=off,host_tso6=off,mrg_rxbuf=off"
    };
    format!("{plain}{queues}{rss}{offload}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_has_as_many_queues_as_asked() {
        let spec = GuestSpec { vcpus: 4, queues: 4, ..GuestSpec::default() };
        assert_eq!(device(&spec, 0, "m"), "virtio-net-pci,netdev=n0,mac=m,romfile=,mq=on,vectors=10");
        let rss = GuestSpec { rss: true, ..GuestSpec::default() };
        assert!(device(&rss, 0, "m").ends_with("romfile=,rss=on"));
        let plain = GuestSpec { nic: Nic::E1000, ..GuestSpec::default() };
        assert_eq!(device(&plain, 1, "m"), "e1000,netdev=n1,mac=m,romfile=");
        let bare = GuestSpec { offload: false, ..GuestSpec::default() };
        assert!(device(&bare, 0, "m").contains("gso=off"));
    }

    #[test]
    fn a_comma_in_a_path_ends_no_option() {
        assert_eq!(with_path("file:", Path::new("/a,b")), "file:/a,,b");
    }
}
