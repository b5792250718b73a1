//! Determines the hypervisor on which the host runs.

use std::io;
use std::path::Path;

use crate::Fact;
use crate::facts::Machine;

/// Parts of the vendor and product strings in DMI, each with the name of the hypervisor or cloud to which it belongs.
const DMI: [(&str, &str); 13] = [
    ("QEMU", "QEMU"),
    ("KVM", "KVM"),
    ("VMware", "VMware"),
    ("Microsoft Corporation", "Hyper-V"),
    ("Xen", "Xen"),
    ("innotek", "VirtualBox"),
    ("Amazon EC2", "Amazon EC2"),
    ("Google", "Google Compute Engine"),
    ("Parallels", "Parallels"),
    ("DigitalOcean", "KVM"),
    ("Hetzner", "KVM"),
    ("Alibaba Cloud", "KVM"),
    ("OpenStack", "KVM"),
];

/// A part of the names of Amazon's machines that are rented without a hypervisor, such as m7g.metal.
const METAL: &str = ".metal";

/// The beginnings of the names of programs that run guests. The kernel shortens names to 15 bytes.
const MONITORS: [&str; 6] =
    ["qemu-system-", "qemu-kvm", "cloud-hyperviso", "firecracker", "crosvm", "vmware-vmx"];

/// The hypervisor's name, from `/sys/hypervisor` or DMI; if these have no name (Firecracker has no DMI), from the
/// processor's signature. The processor's "hypervisor" flag decides whether the host is a guest or a physical machine.
/// On Arm, which has no such flag, a host counts as a guest if DMI names a hypervisor and the product's name doesn't
/// contain [`METAL`].
pub(crate) fn name(machine: &Machine) -> Fact<String> {
    if let Fact::Known(name) = &machine.hypervisor_type {
        return Fact::Known(name.clone());
    }
    if let Some(name) = from_dmi(machine) {
        return Fact::Known(name);
    }
    let signature = || machine.signature.known().map_or("unnamed".into(), |text| from_signature(text));
    let named = |guest: bool| if guest { Fact::Known(signature()) } else { Fact::NotApplicable };
    machine.guest.clone().and_then(named)
}

fn from_dmi(machine: &Machine) -> Option<String> {
    // Microsoft also makes physical machines, so DMI alone doesn't show that the host is a guest.
    let is_metal = machine.product.known().is_some_and(|name| name.contains(METAL));
    let is_guest = machine.guest.get().unwrap_or(!is_metal);
    let texts = [&machine.vendor, &machine.product, &machine.bios_vendor];
    texts.iter().filter(|_| is_guest).find_map(|text| {
        let text = text.known()?;
        DMI.iter().find(|(part, _)| text.contains(part)).map(|(_, name)| (*name).to_owned())
    })
}

/// The signature in CPUID leaf 0x4000_0000, which exists only if the "hypervisor" flag (leaf 1, ECX bit 31)
/// is set.
#[cfg(target_arch = "x86_64")]
pub(crate) fn signature() -> io::Result<String> {
    if std::arch::x86_64::__cpuid(1).ecx >> 31 == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let leaf = std::arch::x86_64::__cpuid(0x4000_0000);
    let bytes = [leaf.ebx, leaf.ecx, leaf.edx].into_iter().flat_map(u32::to_le_bytes);
    Ok(bytes.filter(|b| b.is_ascii_graphic() || *b == b' ').map(char::from).collect())
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn signature() -> io::Result<String> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The number of guests on this host, and the number of kernel threads that move the guests' packets, as
/// text.
pub(crate) fn guests() -> io::Result<String> {
    guests_below(Path::new("/proc"))
}

fn guests_below(proc: &Path) -> io::Result<String> {
    // Process 1 always exists and belongs to root, so if it can't be read, other users' processes are hidden.
    if std::fs::read(proc.join("1/comm")).is_err() {
        return Err(io::Error::other("/proc hides the processes of others (hidepid)"));
    }
    let (mut guests, mut threads) = (0, 0);
    for entry in std::fs::read_dir(proc)?.flatten() {
        if !entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let Ok(name) = std::fs::read_to_string(entry.path().join("comm")) else { continue };
        if MONITORS.iter().any(|monitor| name.starts_with(monitor)) {
            guests += 1;
            threads += threads_of(&entry.path());
        } else if is_vhost(&name) {
            threads += 1;
        }
    }
    Ok(format!("guests {guests}\nvhost_threads {threads}"))
}

/// The number of a process's vhost threads. Since Linux 6.4, these are threads of the program that requested
/// them.
fn threads_of(process: &Path) -> usize {
    let tasks = std::fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| is_vhost(name)).count()
}

fn is_vhost(name: &str) -> bool {
    let number = name.trim().strip_prefix("vhost-").unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// The name of the hypervisor to which a signature belongs. An unknown signature is returned unchanged.
fn from_signature(text: &str) -> String {
    match text.trim() {
        "KVMKVMKVM" => "KVM".into(),
        "VMwareVMware" => "VMware".into(),
        "Microsoft Hv" => "Hyper-V".into(),
        "XenVMMXenVMM" => "Xen".into(),
        "TCGTCGTCGTCG" => "QEMU TCG".into(),
        "" => "unnamed".into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_signatures() {
        assert_eq!(from_signature("KVMKVMKVM"), "KVM");
        assert_eq!(from_signature("Microsoft Hv"), "Hyper-V");
        assert_eq!(from_signature(""), "unnamed");
        assert_eq!(from_signature("NewVisor"), "NewVisor");
    }

    #[test]
    fn a_real_machine_of_a_maker_of_hypervisors_is_no_guest() {
        let vendor = Fact::Known("Microsoft Corporation".into());
        let mut machine = Machine { guest: Fact::Known(false), vendor, ..Machine::default() };
        assert_eq!(name(&machine), Fact::NotApplicable);
        machine.guest = Fact::Known(true);
        assert_eq!(name(&machine), Fact::Known("Hyper-V".into()));
    }

    #[test]
    fn a_rented_machine_of_arm_is_a_guest_unless_its_name_says_metal() {
        let of = |vendor: &str, product: &str| {
            let [vendor, product] = [vendor, product].map(|text| Fact::Known(text.into()));
            name(&Machine { guest: Fact::NotApplicable, vendor, product, ..Machine::default() })
        };
        assert_eq!(of("Amazon EC2", "m7g.large"), Fact::Known("Amazon EC2".into()));
        assert_eq!(of("Amazon EC2", "m7g.metal"), Fact::NotApplicable);
        assert_eq!(of("Hetzner", "vServer"), Fact::Known("KVM".into()));
        assert_eq!(of("Supermicro", "ARS-211ME-FNR"), Fact::NotApplicable);
    }

    #[test]
    fn guests_are_counted_where_all_processes_are_seen() {
        let proc = tempfile::TempDir::new().unwrap();
        let put = |pid: &str, name: &str| {
            std::fs::create_dir_all(proc.path().join(pid)).unwrap();
            std::fs::write(proc.path().join(pid).join("comm"), name).unwrap();
        };
        put("70", "qemu-system-x86\n");
        put("71", "vhost-70\n");
        assert!(guests_below(proc.path()).is_err(), "the first process is hidden");
        put("1", "systemd\n");
        assert_eq!(guests_below(proc.path()).unwrap(), "guests 1\nvhost_threads 1");
    }

    #[test]
    fn threads_of_vhost_bear_the_number_of_their_process() {
        assert!(is_vhost("vhost-1234\n"));
        assert!(!is_vhost("vhost-\n") && !is_vhost("vhost-user\n") && !is_vhost("kvhost\n"));
    }
}
