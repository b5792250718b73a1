//! Parses /proc/cpuinfo.

use crate::Fact;

/// The instruction sets that determine the speed of AES-GCM and BLAKE3, by their names in /proc/cpuinfo (x86,
/// then Arm).
const INTERESTING: [&str; 10] =
    ["aes", "pclmulqdq", "vaes", "vpclmulqdq", "avx2", "avx512f", "sha_ni", "pmull", "sha2", "sve2"];

/// The processor's name: "model name" on x86, "Model Name" on LoongArch, "cpu model" on MIPS, "Hardware" or the
/// implementer's number on Arm.
pub(crate) fn model(cpuinfo: &str) -> Fact<String> {
    ["model name", "Model Name", "Hardware", "cpu model", "CPU implementer"]
        .iter()
        .find_map(|key| value(cpuinfo, key))
        .filter(|name| !name.is_empty())
        .map_or(Fact::NotApplicable, |name| Fact::Known(name.to_owned()))
}

/// The instruction sets in [`INTERESTING`] that the first processor has.
pub(crate) fn features(cpuinfo: &str) -> Fact<Vec<String>> {
    let Some(Flags::X86(flags) | Flags::Arm(flags)) = flags(cpuinfo) else {
        return Fact::NotApplicable;
    };
    let has = |name: &&str| flags.split_whitespace().any(|flag| flag == *name);
    Fact::Known(INTERESTING.iter().filter(|name| has(name)).map(|name| (*name).to_owned()).collect())
}

/// The field that lists a processor's instruction sets, separated by spaces.
pub(crate) enum Flags<'a> {
    /// x86's "flags".
    X86(&'a str),
    /// Arm's "Features".
    Arm(&'a str),
}

/// The field that lists the instruction sets of the first processor.
pub(crate) fn flags(cpuinfo: &str) -> Option<Flags<'_>> {
    // LoongArch also has the field "Features". But it has the field "ISA", too, which Arm doesn't have.
    let arms = || value(cpuinfo, "Features").filter(|_| value(cpuinfo, "ISA").is_none()).map(Flags::Arm);
    value(cpuinfo, "flags").map(Flags::X86).or_else(arms)
}

fn value<'a>(cpuinfo: &'a str, key: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_of_other_processors_are_not_arms() {
        let loongson = "Model Name\t\t: Loongson-3A6000-HV\nISA\t\t\t: loongarch32 loongarch64\n\
                        Features\t\t: cpucfg lam ual fpu lsx lasx crc32 lvz lbt_x86 lbt_arm lbt_mips\n";
        assert_eq!(features(loongson), Fact::NotApplicable);
        assert_eq!(model(loongson), Fact::Known("Loongson-3A6000-HV".into()));
        for other in ["isa\t: rv64imafdc\n", "features\t: esan3 zarch stfle msa\n", "cpu\t: POWER9\n"] {
            assert_eq!(features(other), Fact::NotApplicable, "{other}");
        }
        assert_eq!(
            features("Features\t: fp asimd aes pmull\n"),
            Fact::Known(vec!["aes".into(), "pmull".into()])
        );
    }

    #[test]
    fn tells_whole_flags_from_parts_of_them() {
        let text = "model name : X\nflags : fpu aes avx512fp16 vaes\n";
        assert_eq!(features(text), Fact::Known(vec!["aes".into(), "vaes".into()]));
        assert_eq!(features("model name: X"), Fact::NotApplicable);
        assert_eq!(model("processor : 0\nmodel name\t: AMD EPYC\n"), Fact::Known("AMD EPYC".into()));
    }
}
