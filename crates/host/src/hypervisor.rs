//! Which hypervisor the host is a guest of.

use crate::Fact;
use crate::cpuinfo;
use crate::root::Root;

/// Vendor or product strings of DMI, and the hypervisor that each stands for.
const DMI: [(&str, &str); 10] = [
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
];

/// The hypervisor's name. `/sys/hypervisor` and DMI name it; where neither does (Firecracker has no DMI), the
/// processor's "hypervisor" flag still tells a guest from a real machine.
pub(crate) fn read(root: &Root, cpuinfo: &Fact<String>) -> Fact<String> {
    if let Fact::Known(name) = root.text("sys/hypervisor/type") {
        return Fact::Known(name);
    }
    if let Some(name) = from_dmi(root) {
        return Fact::Known(name);
    }
    cpuinfo.clone().and_then(|text| {
        let guest =
            cpuinfo::flags(&text).is_some_and(|flags| flags.split_whitespace().any(|f| f == "hypervisor"));
        if !guest {
            return Fact::NotApplicable;
        }
        Fact::Known(from_processor(root).unwrap_or_else(|| "unnamed".into()))
    })
}

fn from_dmi(root: &Root) -> Option<String> {
    let files = ["sys_vendor", "product_name", "bios_vendor", "chassis_vendor"];
    files.iter().find_map(|file| {
        let text = root.text(&format!("sys/class/dmi/id/{file}"));
        let text = text.known()?;
        DMI.iter().find(|(part, _)| text.contains(part)).map(|(_, name)| (*name).to_owned())
    })
}

/// The signature in CPUID leaf 0x4000_0000, which exists only where the "hypervisor" flag is set. It is the running
/// machine's, so it is asked only when the facts are read from the running machine.
#[cfg(target_arch = "x86_64")]
fn from_processor(root: &Root) -> Option<String> {
    if root.0 != std::path::Path::new("/") {
        return None;
    }
    let leaf = std::arch::x86_64::__cpuid(0x4000_0000);
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|r| r.to_le_bytes()).collect();
    Some(from_signature(&bytes))
}

#[cfg(not(target_arch = "x86_64"))]
fn from_processor(_root: &Root) -> Option<String> {
    None
}

/// Names a signature; one that isn't known is given as it stands.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
fn from_signature(bytes: &[u8]) -> String {
    let text: String =
        bytes.iter().filter(|b| b.is_ascii_graphic() || **b == b' ').map(|b| *b as char).collect();
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
        assert_eq!(from_signature(b"KVMKVMKVM\0\0\0"), "KVM");
        assert_eq!(from_signature(b"Microsoft Hv"), "Hyper-V");
        assert_eq!(from_signature(b"\0\0\0\0\0\0\0\0\0\0\0\0"), "unnamed");
        assert_eq!(from_signature(b"NewVisor\xff\x01\0\0"), "NewVisor");
    }
}
