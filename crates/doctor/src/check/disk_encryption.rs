//! Disks that the kernel encrypts (dm-crypt): the rate at which all cores encrypt, and the queues in which requests
//! wait.

use linerate_host::facts::{BlockDevice, FileSystem};

use super::disk_slower_than_link::file_systems;
use super::{Check, CheckRun, shell};
use crate::formula::buffer::kernel;
use crate::formula::gbit;
use crate::{Citation, Finding, Host, Severity};

/// The first kernel whose dm-crypt can handle requests without queues.
const WITHOUT_QUEUES: (u32, u32) = (5, 9);

pub(super) const CHECK: Check = Check {
    name: "disk-encryption",
    about: "a path on an encrypted disk (dm-crypt)",
    sources: &[
        Citation {
            name: "Linux, Documentation/admin-guide/device-mapper/dm-crypt.rst",
            url: "https://docs.kernel.org/admin-guide/device-mapper/dm-crypt.html",
        },
        Citation {
            name: "Korchagin, Speeding up Linux disk encryption, Cloudflare 2020",
            url: "https://blog.cloudflare.com/speeding-up-linux-disk-encryption/",
        },
    ],
    run: CheckRun::Host(|host| file_systems(host).filter_map(|fs| of(host, fs)).collect()),
};

fn of(host: &Host<'_>, fs: &FileSystem) -> Option<Finding> {
    let device = fs.device.known()?;
    let encrypted = device.encrypted.known()?;
    let finding = by_rate(host, fs)
        .unwrap_or_else(|| Finding::new(Severity::Note, format!("{} is on an encrypted disk", fs.path)))
        .at(&fs.path)
        .evidence(format!(
            "{} is encrypted by dm-crypt ({}): the kernel encrypts each byte that is written, and decrypts each that is read",
            encrypted.mapping, encrypted.format
        ));
    if !has_queues(host, device) {
        return Some(finding);
    }
    let mapping = shell::word(&encrypted.mapping);
    let finding = finding
        .fix(format!(
            "note the flags that cryptsetup status {mapping} shows, and give all of them again (--allow-discards for discards), \
             because others are switched off: cryptsetup refresh --perf-no_read_workqueue --perf-no_write_workqueue FLAGS {mapping}"
        ))
        .fix_words("then no request waits in dm-crypt's queues; --persistent stores these flags in the LUKS2 header")
        .undo(format!("cryptsetup refresh with the noted flags alone, for {mapping}"))
        .conflict(
            "only root sees whether this is set already (cryptsetup status); the change slows a single program that writes through one core",
        );
    Some(finding)
}

/// The finding if all cores together encrypt less than is needed, because dm-crypt encrypts on all cores. AES-XTS with
/// its longer key isn't faster than AES-128-GCM.
fn by_rate(host: &Host<'_>, fs: &FileSystem) -> Option<Finding> {
    let cpu = &host.facts.cpu;
    let one = cpu.aes_128_gcm.get().filter(|bytes| *bytes > 0.0)? * 8.0;
    let cores = cpu.cores_at_most()?;
    let all = one * f64::from(cores);
    let title = format!("all cores together encrypt at most {} for {}", gbit(all), fs.path);
    (all < host.rate()).then(|| {
        Finding::leaves(all, host.rate(), title).evidence(format!(
            "AES-128-GCM on one thread: {}; {cores} cores; needed: {}",
            gbit(one),
            gbit(host.rate())
        ))
    })
}

/// True if the queues cost more than they gain. On rotating disks, the write queue sorts the requests.
fn has_queues(host: &Host<'_>, device: &BlockDevice) -> bool {
    let version = kernel(host.facts);
    device.rotational.get() == Some(false) && version.is_some_and(|version| version >= WITHOUT_QUEUES)
}

#[cfg(test)]
mod tests {
    use super::super::disk_slower_than_link::tests::with_device;
    use super::*;
    use crate::Need;
    use crate::testing::{fixture, found, found_for, lines};
    use linerate_host::facts::EncryptedDevice;
    use linerate_host::{Fact, Facts};

    fn encrypted(turns: bool) -> Facts {
        with_device("stock-10g", |device| {
            device.rotational = Fact::Known(turns);
            device.encrypted =
                Fact::Known(EncryptedDevice { mapping: "luks data".into(), format: "LUKS2".into() });
        })
    }

    #[test]
    fn an_encrypted_disk_is_noted_and_its_queues_are_avoided() {
        let found = found(&CHECK, &encrypted(false));
        assert_eq!(lines(&found), ["disk-encryption / note -"]);
        let fix = found[0].fix.as_deref().unwrap();
        assert!(fix.contains("--perf-no_write_workqueue FLAGS 'luks data'; "), "{fix}");
    }

    #[test]
    fn a_rotating_disk_and_an_old_kernel_keep_their_queues() {
        assert_eq!(found(&CHECK, &encrypted(true))[0].fix, None);
        let mut old = encrypted(false);
        old.kernel = Fact::Known("5.4.0-150-generic".into());
        assert_eq!(found(&CHECK, &old)[0].fix, None);
    }

    #[test]
    fn too_few_cores_limit() {
        let found = found_for(&CHECK, &encrypted(false), Need::Target(1e12));
        assert!(lines(&found)[0].starts_with("disk-encryption / critical "), "{:?}", lines(&found));
    }

    #[test]
    fn other_disks_are_not_found() {
        assert!(found(&CHECK, &fixture("stock-10g")).is_empty());
    }
}
