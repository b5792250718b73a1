//! How deeply idle processors sleep: /sys/devices/system/cpu (the kernel's Documentation/admin-guide/pm/cpuidle.rst).

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::{all, flag, number};
use crate::root::Root;

const CPUS: &str = "sys/devices/system/cpu";

/// What processors do while they have nothing to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Idle {
    /// What puts them to sleep: `intel_idle`, `acpi_idle`, `haltpoll`; `none` where nothing does.
    pub driver: Fact<String>,
    /// What chooses the state: `menu`, `teo`, `haltpoll`.
    pub governor: Fact<String>,
    /// The states of the first processor on line, the lightest first.
    pub states: Fact<Vec<IdleState>>,
}

/// One state (C-state).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleState {
    /// Its number: the place among the states.
    pub number: u32,
    /// `POLL`, `C1`, `C1E`, `C6`.
    pub name: Fact<String>,
    /// Microseconds until a processor works again, at most.
    pub latency_us: Fact<u32>,
    /// Microseconds that it must last to save anything.
    pub residency_us: Fact<u32>,
    /// Processors on line that may not enter it (`disable`).
    pub disabled: Fact<u32>,
}

impl Idle {
    pub(super) fn read(root: &Root, online: &Fact<Vec<u32>>) -> Self {
        let dir = format!("{CPUS}/cpuidle");
        Self {
            driver: root.text(&format!("{dir}/current_driver")),
            // Before Linux 5.8 only who can change it sees it under its name.
            governor: root
                .text(&format!("{dir}/current_governor"))
                .or_else(|| root.text(&format!("{dir}/current_governor_ro"))),
            states: online.as_ref().and_then(|cpus| states(root, cpus)),
        }
    }

    /// The deepest state that some of so many processors may enter, and its microseconds; none where that isn't known.
    pub fn deepest(&self, processors: u32) -> Option<(&IdleState, u32)> {
        let latency = |state| IdleState::latency(state, processors);
        let all: Option<Vec<_>> =
            self.states.known()?.iter().map(|state| Some((state, latency(state)?))).collect();
        all?.into_iter().max_by_key(|(_, latency)| *latency)
    }
}

impl IdleState {
    /// Microseconds, 0 where no processor may enter it.
    fn latency(&self, processors: u32) -> Option<u32> {
        if self.disabled.get()? >= processors { Some(0) } else { self.latency_us.get() }
    }
}

fn states(root: &Root, cpus: &[u32]) -> Fact<Vec<IdleState>> {
    let Some(first) = cpus.first() else { return Fact::NotApplicable };
    root.names(&format!("{CPUS}/cpu{first}/cpuidle")).map(|names| {
        let number = |name: &String| name.strip_prefix("state")?.parse().ok();
        let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers.into_iter().map(|number| state(root, cpus, *first, number)).collect()
    })
}

fn state(root: &Root, cpus: &[u32], first: u32, at: u32) -> IdleState {
    let path = |cpu: u32, file: &str| format!("{CPUS}/cpu{cpu}/cpuidle/state{at}/{file}");
    let disabled = all(cpus.iter().map(|cpu| flag(root, &path(*cpu, "disable"))));
    let count = |of: Vec<bool>| u32::try_from(of.into_iter().filter(|is| *is).count()).unwrap_or(u32::MAX);
    IdleState {
        number: at,
        name: root.text(&path(first, "name")),
        latency_us: number(root, &path(first, "latency")),
        residency_us: number(root, &path(first, "residency")),
        disabled: disabled.map(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: u32, latency_us: u32, disabled: u32) -> IdleState {
        let (latency_us, disabled) = (Fact::Known(latency_us), Fact::Known(disabled));
        IdleState { number, latency_us, disabled, ..IdleState::default() }
    }

    #[test]
    fn the_deepest_is_one_that_may_be_entered() {
        let states = vec![state(0, 0, 0), state(1, 2, 0), state(2, 133, 3), state(3, 200, 4)];
        let idle = Idle { states: Fact::Known(states.clone()), ..Idle::default() };
        assert_eq!(idle.deepest(4).map(|(state, latency)| (state.number, latency)), Some((2, 133)));
        let mut unknown = states;
        unknown[1].disabled = Fact::default();
        assert_eq!(Idle { states: Fact::Known(unknown), ..Idle::default() }.deepest(4), None);
    }
}
