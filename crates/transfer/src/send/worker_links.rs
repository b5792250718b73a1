//! Counts the streams on each link, so that no link is left without a stream.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use crate::base::lock::lock;

/// The number of workers on each link. A link is identified by this host's address on it; `None` is the
/// connection through ssh.
#[derive(Default)]
pub struct WorkerLinks(Mutex<HashMap<Option<IpAddr>, u32>>);

impl WorkerLinks {
    /// Removes all workers from the counts.
    pub fn clear(&self) {
        lock(&self.0).clear();
    }

    /// Counts a worker on this link; true if it is the first worker on the link.
    pub fn add(&self, link: Option<IpAddr>) -> bool {
        let mut links = lock(&self.0);
        let workers = links.entry(link).or_default();
        *workers += 1;
        *workers == 1
    }

    /// If the link has other workers too, removes one worker from the count and returns true: the worker may
    /// leave. Otherwise false.
    pub fn take(&self, link: Option<IpAddr>) -> bool {
        let mut links = lock(&self.0);
        let workers = links.entry(link).or_default();
        let is_spare = *workers > 1;
        *workers -= u32::from(is_spare);
        is_spare
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_one_on_a_link_stays() {
        let (links, a, b) = (WorkerLinks::default(), Some([10, 0, 0, 1].into()), Some([10, 0, 1, 1].into()));
        assert_eq!([a, a, b].map(|link| links.add(link)), [true, false, true]);
        assert!(!links.take(b) && links.take(a) && !links.take(a));
        links.clear();
        assert!(!links.take(None));
    }
}
