//! The kind of machine (physical, or a guest), and whether this machine can run guests itself.

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::{pairs, words};
use crate::root::Root;
use crate::{cpuinfo, hypervisor};
use std::path::Path;

const CLOCK: &str = "sys/devices/system/clocksource/clocksource0";

/// Facts about the machine on which the kernel runs. Each value has one source; [`Machine::hypervisor`]
/// combines them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// True if the processor reports a hypervisor (x86's flag "hypervisor"); not applicable on Arm, which has no such
    /// flag.
    pub guest: Fact<bool>,
    /// The hypervisor's signature: CPUID leaf 0x4000_0000, such as `KVMKVMKVM`.
    pub signature: Fact<String>,
    /// The contents of /sys/hypervisor/type, such as `xen`.
    pub hypervisor_type: Fact<String>,
    /// The vendor according to DMI.
    pub vendor: Fact<String>,
    /// The product name according to DMI.
    pub product: Fact<String>,
    /// The tag of the chassis according to DMI, by which Azure's guests are distinguished from other guests of Hyper-V.
    /// The tag is read only on Microsoft's machines, because owners write their own tags into other machines.
    pub chassis_tag: Fact<String>,
    /// The vendor of the firmware according to DMI.
    pub bios_vendor: Fact<String>,
    /// True if the kernel uses an IOMMU, so that devices can be assigned to guests.
    pub iommu: Fact<bool>,
    /// True if /dev/kvm exists, so that this host can run guests with KVM.
    pub kvm: Fact<bool>,
    /// The program that runs this container, if linerate runs in a container: `docker`, `podman`, `kubernetes`, or the
    /// text of /run/systemd/container, such as `systemd-nspawn` or `lxc`.
    pub container: Fact<String>,
    /// The sysctls that can't be changed here, because they belong to the host of this container or are mounted
    /// read-only.
    pub fixed: Fact<Vec<String>>,
    /// The kernel's clock source: `tsc`, `kvm-clock`, `arch_sys_counter`, `hpet`.
    pub clock_source: Fact<String>,
    /// The clock sources that the kernel could use.
    pub clock_sources: Fact<Vec<String>>,
    /// The name of tuned's active profile; not applicable if tuned isn't running.
    pub tuned_profile: Fact<String>,
    /// True if /dev/vhost-net exists, so that the kernel can move guests' packets itself.
    pub vhost_net: Fact<bool>,
    /// The number of guests on this host: processes of QEMU, Cloud Hypervisor, Firecracker, crosvm and VMware.
    pub guests: Fact<u32>,
    /// The number of kernel threads that move guests' packets (`vhost-PID`).
    pub vhost_threads: Fact<u32>,
}

impl Machine {
    /// True on Arm. Only on Arm does /proc/cpuinfo list the processor's features without showing whether the host is a
    /// guest.
    pub fn is_arm(&self) -> bool {
        self.guest == Fact::NotApplicable
    }

    /// True if this host is a guest.
    pub fn is_guest_here() -> Fact<bool> {
        Root::dir(Path::new("/")).needed("proc/cpuinfo").and_then(|text| is_guest(&text))
    }

    /// The program that runs this container, as [`Machine::container`].
    pub fn container_here() -> Fact<String> {
        container(&Root::dir(Path::new("/")))
    }

    pub(super) fn read(root: &Root, cpuinfo: &Fact<String>) -> Self {
        let vendor = root.text("sys/class/dmi/id/sys_vendor");
        let guests = root.answer("live/guests", hypervisor::guests);
        let count = |key: &str| {
            let value = |text: String| match pairs(&text).get(key).and_then(|value| value.parse().ok()) {
                Some(count) => Fact::Known(count),
                None => Fact::Unreadable(format!("/live/guests lacks {key}")),
            };
            guests.clone().and_then(value)
        };
        Self {
            guest: cpuinfo.clone().and_then(|text| is_guest(&text)),
            signature: root.answer("live/signature", hypervisor::signature),
            hypervisor_type: root.text("sys/hypervisor/type"),
            chassis_tag: match vendor.known() {
                Some(name) if name.starts_with("Microsoft") => {
                    root.text("sys/class/dmi/id/chassis_asset_tag")
                }
                _ => Fact::NotApplicable,
            },
            vendor,
            product: root.text("sys/class/dmi/id/product_name"),
            bios_vendor: root.text("sys/class/dmi/id/bios_vendor"),
            iommu: root.names("sys/class/iommu").map(|names| !names.is_empty()),
            container: container(root),
            fixed: super::fixed::sysctls(root),
            clock_source: root.text(&format!("{CLOCK}/current_clocksource")),
            clock_sources: words(root, &format!("{CLOCK}/available_clocksource")),
            tuned_profile: tuned_profile(root),
            kvm: there(root, "kvm"),
            vhost_net: there(root, "vhost-net"),
            guests: count("guests"),
            vhost_threads: count("vhost_threads"),
        }
    }

    /// The name of the hypervisor on which the host runs, from /sys/hypervisor, DMI or the processor's signature;
    /// `unnamed` if only the processor's flag shows that there is a hypervisor.
    pub fn hypervisor(&self) -> Fact<String> {
        hypervisor::name(self)
    }
}

/// True if the host is a guest. On x86, a flag of the processor shows this; Arm has no such flag. On POWER, the name of
/// the platform shows it. On IBM Z, Linux always runs below a hypervisor.
fn is_guest(cpuinfo: &str) -> Fact<bool> {
    let value = |key: &str| {
        let pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        pairs.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).next()
    };
    match (value("platform"), value("vendor_id")) {
        (Some("pSeries"), _) | (_, Some("IBM/S390")) => return Fact::Known(true),
        (Some("PowerNV"), _) => return Fact::Known(false),
        _ => {}
    }
    match cpuinfo::flags(cpuinfo) {
        Some(cpuinfo::Flags::X86(flags)) => {
            Fact::Known(flags.split_whitespace().any(|flag| flag == "hypervisor"))
        }
        Some(cpuinfo::Flags::Arm(_)) => Fact::NotApplicable,
        None => Fact::Unreadable("/proc/cpuinfo holds no flags".into()),
    }
}

/// The container runtime, recognized by the files that systemd and container runtimes create, or by the secrets that
/// Kubernetes mounts.
fn container(root: &Root) -> Fact<String> {
    let named = root.text("run/systemd/container").known().cloned().filter(|name| !name.is_empty());
    let signs = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
    let sign = signs
        .into_iter()
        .find(|(file, _)| root.text(file).known().is_some())
        .map(|(_, name)| name.to_owned());
    let pod = root.names("run/secrets/kubernetes.io").known().map(|_| "kubernetes".to_owned());
    named.or(pod).or(sign).map_or(Fact::NotApplicable, Fact::Known)
}

/// The profile of tuned, if tuned is running. When tuned ends, it removes the file with its process ID, but
/// not the file with its profile's name.
fn tuned_profile(root: &Root) -> Fact<String> {
    root.text("run/tuned/tuned.pid").and_then(|_| root.text("etc/tuned/active_profile"))
}

fn there(root: &Root, device: &str) -> Fact<bool> {
    let ask = || std::path::Path::new("/dev").join(device).try_exists();
    root.answer(&format!("live/dev/{device}"), || ask().map(|is| u8::from(is).to_string()))
        .map(|text| text == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_recognised_by_its_processors() {
        assert_eq!(is_guest("flags : fpu hypervisor aes\n"), Fact::Known(true));
        assert_eq!(is_guest("flags : fpu aes\n"), Fact::Known(false));
        assert_eq!(is_guest("Features : fp asimd aes\n"), Fact::NotApplicable);
        assert_eq!(is_guest("cpu : POWER9\nplatform\t: pSeries\nmodel : IBM\n"), Fact::Known(true));
        assert_eq!(is_guest("cpu : POWER9\nplatform\t: PowerNV\n"), Fact::Known(false));
        assert_eq!(is_guest("vendor_id       : IBM/S390\n"), Fact::Known(true));
        assert!(matches!(is_guest("processor : 0\n"), Fact::Unreadable(_)));
    }
}
