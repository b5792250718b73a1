//! Changes settings of network drivers. All changes need CAP_NET_ADMIN.

use std::io;

use super::settings::{FEATURE_NAMES, MOST_SLOTS};
use super::{Ethtool, Question};

/// The commands ETHTOOL_SFEATURES and ETHTOOL_SRXFHINDIR.
const SET_FEATURES: u32 = 0x3b;
const SET_INDIRECTION: u32 = 0x39;

impl Ethtool {
    /// Changes the named numbers of a group; the group's other numbers stay unchanged.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if the driver can't change them, `EINVAL` if it refuses a value, `InvalidInput` for a
    /// name that the group lacks.
    pub fn set_numbers(
        &mut self,
        interface: &str,
        question: Question,
        values: &[(&str, u32)],
    ) -> io::Result<()> {
        // The request that changes the numbers has the same structure as the answer, and the next higher command
        // number.
        self.numbers(interface, question)?;
        for (name, value) in values {
            let field = question.fields.iter().find(|(known, _)| known == name);
            let (_, at) = field.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
            self.set_word(at * 4, *value);
        }
        self.set_word(0, question.command + 1);
        self.ask(interface)
    }

    /// Requests that a feature is switched on or off. The kernel may not switch the feature even if this call succeeds;
    /// [`Ethtool::features`] shows the result.
    ///
    /// # Errors
    /// `InvalidInput` if the interface has no such feature; the errors of [`Ethtool::numbers`].
    pub fn set_feature(&mut self, interface: &str, feature: &str, on: bool) -> io::Result<()> {
        let names = self.set(interface, FEATURE_NAMES)?;
        let bit = names.iter().position(|name| name == feature);
        let bit = bit.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        self.clear();
        self.put([SET_FEATURES, u32::try_from(names.len().div_ceil(32)).unwrap_or(0), 0]);
        // For each word of features, the request has a mask of the bits to change, and the new values of these bits.
        let (at, mask) = (8 + bit / 32 * 8, 1 << (bit % 32));
        self.set_word(at, mask);
        self.set_word(at + 4, if on { mask } else { 0 });
        self.ask(interface)
    }

    /// Sets the ring of each slot of the indirection table, which distributes received packets over queues.
    /// If `slots` is empty, restores the driver's default distribution, which adapts to the number of queues.
    ///
    /// # Errors
    /// `EINVAL` if the driver has another number of slots or no such ring; the errors of
    /// [`Ethtool::numbers`].
    pub fn set_slots(&mut self, interface: &str, slots: &[u32]) -> io::Result<()> {
        if slots.len() > MOST_SLOTS as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        self.clear();
        self.put([SET_INDIRECTION, slots.len() as u32, 0]);
        for (i, ring) in slots.iter().enumerate() {
            self.set_word(8 + i * 4, *ring);
        }
        self.ask(interface)
    }

    fn set_word(&mut self, at: usize, word: u32) {
        self.buffer[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::super::RINGS;
    use super::*;

    #[test]
    fn what_is_not_there_is_not_changed() {
        let mut ethtool = Ethtool::open().unwrap();
        let refused = ethtool.set_numbers("lo", RINGS, &[("rx", 1)]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EOPNOTSUPP));
        let refused = ethtool.set_slots("lo", &[0, 0]).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EOPNOTSUPP));
        assert_eq!(ethtool.set_slots("lo", &[0; 65_537]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let refused = ethtool.set_feature("lo", "no-such-feature", true).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
}
