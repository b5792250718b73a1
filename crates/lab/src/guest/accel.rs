//! Finds out if a guest boots under KVM on this host.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use crate::error::LabError;
use crate::state::{StateRoot, write_private};

use super::spec::Accel;

/// The longest time to wait until a guest boots under KVM. Normally that takes about one second.
pub(super) const KVM_BOOT_TIMEOUT: Duration = Duration::from_secs(5);

/// The file with the result of the last trial since this host was booted.
const REMEMBERED: &str = "kvm";

/// The way in which the guests' processors run: `Kvm` or `Tcg`. `boots` boots a guest under KVM; it is called once
/// after each boot of this host.
///
/// # Errors
/// [`LabError::Kvm`] if KVM was requested, and no guest boots under it.
pub(super) fn choose(asked: Accel, boots: impl FnOnce() -> Result<(), String>) -> Result<Accel, LabError> {
    let reason = match asked {
        Accel::Tcg => return Ok(Accel::Tcg),
        Accel::Auto | Accel::Kvm => match opens().and_then(|()| remembered(boots)) {
            Ok(()) => return Ok(Accel::Kvm),
            Err(reason) => reason,
        },
    };
    if asked == Accel::Kvm { Err(LabError::Kvm { reason }) } else { Ok(Accel::Tcg) }
}

fn opens() -> Result<(), String> {
    let path = Path::new("/dev/kvm");
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map(drop)
        .map_err(|error| format!("/dev/kvm: {error}"))
}

fn remembered(boots: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    let path = StateRoot::open().map_err(|error| error.to_string())?.file(REMEMBERED);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some(result) = known.strip_prefix(&boot).filter(|_| !boot.is_empty()) {
        return if result.is_empty() { Ok(()) } else { Err(result.to_owned()) };
    }
    let result = boots();
    let text = format!("{boot}{}", result.as_ref().err().map_or("", String::as_str));
    // Without the file, the next lab tries once more.
    let _ = write_private(&path, text.as_bytes());
    result
}
