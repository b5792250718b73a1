//! Idle states of processors: /sys/devices/system/cpu (the kernel's
//! Documentation/admin-guide/pm/cpuidle.rst).

use serde::{Deserialize, Serialize};

use super::Fact;
use super::read::{all, flag, number};
use crate::root::Root;

const CPUS: &str = "sys/devices/system/cpu";

/// The idle states of the processors.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Idle {
    /// The driver for idle states, such as `intel_idle`, `acpi_idle` or `haltpoll`; `none` if there is no driver.
    pub driver: Fact<String>,
    /// The governor that chooses the idle state: `menu`, `teo`, `haltpoll`.
    pub governor: Fact<String>,
    /// The states of the first online processor, the lightest first.
    pub states: Fact<Vec<IdleState>>,
}

/// An idle state of processors (C-state).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleState {
    /// The state's number, counted from the lightest state.
    pub number: u32,
    /// The state's name: `POLL`, `C1`, `C1E`, `C6`.
    pub name: Fact<String>,
    /// The longest time, in microseconds, that waking from the state takes.
    pub latency_us: Fact<u32>,
    /// The time, in microseconds, that a processor must stay in the state to save energy.
    pub residency_us: Fact<u32>,
    /// The number of online processors that are forbidden to enter the state (`disable`).
    pub disabled: Fact<u32>,
}

impl Idle {
    pub(super) fn read(root: &Root, online: &Fact<Vec<u32>>) -> Self {
        let dir = format!("{CPUS}/cpuidle");
        Self {
            driver: root.text(&format!("{dir}/current_driver")),
            // Before Linux 5.8, this file exists only if the governor can be changed; otherwise `current_governor_ro`
            // exists.
            governor: root
                .text(&format!("{dir}/current_governor"))
                .or_else(|| root.text(&format!("{dir}/current_governor_ro"))),
            states: online.as_ref().and_then(|cpus| states(root, cpus)),
        }
    }

    /// The deepest state that at least one of the host's `processors` processors may enter, and the microseconds that
    /// waking from this state takes; `None` if the state or the time is unknown.
    pub fn deepest(&self, processors: u32) -> Option<(&IdleState, u32)> {
        let latency = |state| IdleState::latency(state, processors);
        let all: Option<Vec<_>> =
            self.states.known()?.iter().map(|state| Some((state, latency(state)?))).collect();
        all?.into_iter().max_by_key(|(_, latency)| *latency)
    }
}

impl IdleState {
    /// The microseconds that waking from the state takes; 0 if no processor may enter the state.
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
