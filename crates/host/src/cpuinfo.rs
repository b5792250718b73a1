//! What /proc/cpuinfo and /sys say about the processors.

use crate::Fact;
use crate::root::Root;

/// The instruction sets that set the speed of AES-GCM and BLAKE3, by their names in /proc/cpuinfo (x86, then Arm).
const INTERESTING: [&str; 9] =
    ["aes", "pclmulqdq", "vaes", "vpclmulqdq", "avx2", "avx512f", "sha_ni", "pmull", "sve2"];

/// The processor's name: "model name" on x86, "Hardware" or the implementer's number on Arm.
pub(crate) fn model(cpuinfo: &str) -> Fact<String> {
    ["model name", "Hardware", "cpu model", "CPU implementer"]
        .iter()
        .find_map(|key| value(cpuinfo, key))
        .filter(|name| !name.is_empty())
        .map_or(Fact::NotApplicable, |name| Fact::Known(name.to_owned()))
}

/// Those of the interesting instruction sets that the first processor has.
pub(crate) fn features(cpuinfo: &str) -> Fact<Vec<String>> {
    let Some(flags) = flags(cpuinfo) else {
        return Fact::NotApplicable;
    };
    let has = |name: &&str| flags.split_whitespace().any(|flag| flag == *name);
    Fact::Known(INTERESTING.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect())
}

/// The flags of the first processor, separated by spaces.
pub(crate) fn flags(cpuinfo: &str) -> Option<&str> {
    value(cpuinfo, "flags").or_else(|| value(cpuinfo, "Features"))
}

/// Logical processors on line, from the kernel's list ("0-3,8").
pub(crate) fn processors(root: &Root) -> Fact<u32> {
    root.needed("sys/devices/system/cpu/online").and_then(|text| match count(&text) {
        Some(n) => Fact::Known(n),
        None => Fact::Unreadable(format!("/sys/devices/system/cpu/online holds {text:?}")),
    })
}

fn value<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

fn count(list: &str) -> Option<u32> {
    list.split(',').try_fold(0_u32, |sum, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        sum.checked_add(last.checked_sub(first)?.checked_add(1)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_processors_of_a_list() {
        assert_eq!(count("0-1"), Some(2));
        assert_eq!(count("0"), Some(1));
        assert_eq!(count("0-3,8,10-11"), Some(7));
        assert_eq!(count(""), None);
        assert_eq!(count("3-0"), None);
        assert_eq!(count("0-4294967295"), None);
    }

    #[test]
    fn tells_whole_flags_from_parts_of_them() {
        let text = "model name : X\nflags : fpu aes avx512fp16 vaes\n";
        assert_eq!(features(text), Fact::Known(vec!["aes".into(), "vaes".into()]));
        assert_eq!(features("model name: X"), Fact::NotApplicable);
        assert_eq!(model("processor : 0\nmodel name\t: AMD EPYC\n"), Fact::Known("AMD EPYC".into()));
    }
}
