//! Counts the streams on each link, so that no link is left without a stream.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;

use crate::base::lock::lock;

/// The number of workers on each link, by this host's address on it; `None` is through ssh.
#[derive(Default)]
pub struct WorkerLinks(Mutex<HashMap<Option<IpAddr>, u32>>);

impl WorkerLinks {
    /// Removes all workers.
    pub fn clear(&self) {
        lock(&self.0).clear();
    }

    /// Adds a worker on this link; true if it is the first one there.
    pub fn add(&self, link: Option<IpAddr>) -> bool {
        let mut links = lock(&self.0);
        let workers = links.entry(link).or_default();
        *workers += 1;
        *workers == 1
    }

    /// Removes a worker from a link, unless it is the last one there; true if it may leave.
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
