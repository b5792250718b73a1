//! Data in the messages of a transfer that continues without its client, and of later commands that report about such a
//! transfer.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A transfer that continues without its client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DetachedJob {
    /// The job's name at both hosts.
    pub id: JobId,
    /// The host of the sources as the user wrote it, for display.
    pub from: String,
    /// The host of the destination as the user wrote it, for display.
    pub to: String,
}

/// The name of a detached job, which the job's client chooses at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct JobId(pub [u8; 4]);

impl JobId {
    /// Parses a name in the form in which users see it: eight lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let number = u32::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()));
        number.filter(|id| id.to_string() == text)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:08x}", u32::from_be_bytes(self.0))
    }
}

/// A client's request about a detached job: which job the agent reports about, and whether the agent cancels this job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobAttention {
    /// The job's name, or the first digits of the name. Empty means the only running job or, if no job is running, the
    /// newest job.
    pub id: String,
    /// True if the agent must cancel the job, as an interrupt of the job's client would.
    pub cancel: bool,
}

/// The most bytes of one [`super::Message::JobRecord`] or [`super::Message::JobEvents`].
pub const MAX_JOB_RECORD: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::JobId;

    #[test]
    fn a_jobs_name_is_read_as_it_is_shown_and_in_no_other_way() {
        let id = JobId([0, 0xa1, 2, 0xff]);
        assert_eq!((id.to_string().as_str(), JobId::parse("00a102ff")), ("00a102ff", Some(id)));
        for wrong in ["", "0a102ff", "00A102FF", "00a102ff0", "+0a102ff", "../../x"] {
            assert_eq!(JobId::parse(wrong), None, "{wrong}");
        }
    }
}
