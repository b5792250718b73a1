//! CPU quotas of the control groups of this process and of the followed processes, and how often the quotas
//! stopped the groups.
//!
//! Each line of a group's file is recorded as `FILE LINE GROUP`. GROUP, the group's path, begins at the first slash of
//! the recorded line.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use super::source::TextSource;
use super::{Recording, SampleKind, SamplerOptions, TimeSeries};
use crate::Fact;
use crate::cgroup::{CpuQuota, Hierarchy, QUOTA_FILES, QuotaUse, STAT, Throttling, throttling};
use crate::root::Root;

const NAME: &str = "quotas";

pub(super) const KIND: SampleKind =
    SampleKind { name: NAME, open: |options| Box::new(QuotaSource::new(options)), series };

struct QuotaSource {
    root: PathBuf,
    /// The IDs of the followed processes, and `self`.
    processes: Vec<String>,
}

impl QuotaSource {
    fn new(options: &SamplerOptions) -> Self {
        let followed = options.processes.iter().map(u32::to_string);
        Self {
            root: options.root.clone(),
            processes: ["self".to_owned()].into_iter().chain(followed).collect(),
        }
    }
}

impl TextSource for QuotaSource {
    fn read(&mut self, text: &mut Vec<u8>) -> io::Result<()> {
        let root = Root::files(&self.root);
        // A followed process may end, or move to another group, so the groups are determined again for each
        // sample.
        let hierarchies: Vec<_> =
            self.processes.iter().map(|process| Hierarchy::of(&root, process, "cpu")).collect();
        if let Some(Fact::Unreadable(reason)) = hierarchies.first() {
            return Err(io::Error::other(reason.clone()));
        }
        let groups = hierarchies.iter().filter_map(Fact::known).flat_map(|hierarchy| &hierarchy.groups);
        let groups: BTreeMap<&str, &str> =
            groups.map(|group| (group.name.as_str(), group.dir.as_str())).collect();
        for (name, dir) in groups {
            for file in QUOTA_FILES.into_iter().chain([STAT]) {
                let Fact::Known(lines) = root.text(&format!("{dir}/{file}")) else { continue };
                lines
                    .lines()
                    .filter(|line| !line.contains("usec") || line.starts_with("throttled"))
                    .for_each(|line| {
                        text.extend_from_slice(
                            format!("{file} {line} {}\n", name.replace('\n', "?")).as_bytes(),
                        )
                    });
            }
        }
        Ok(())
    }
}

/// The quota that stopped a group most often between the first and the last sample; `None` if no group has a
/// quota.
pub fn quota_use(recording: &Recording) -> Option<QuotaUse> {
    let moments = moments(recording);
    let mut ends: BTreeMap<&str, (&GroupMoment, &GroupMoment)> = BTreeMap::new();
    for (name, moment) in moments.iter().flat_map(|(_, groups)| groups) {
        ends.entry(name).or_insert((moment, moment)).1 = moment;
    }
    let used = ends.into_values().filter_map(|(first, last)| {
        Some(QuotaUse { quota: last.quota.clone()?, throttling: last.throttling.since(&first.throttling) })
    });
    used.max_by(|a, b| a.stopped_seconds().total_cmp(&b.stopped_seconds()))
}

/// For each group with a quota, the total length of the periods in which the quota stopped the group, in percent of the
/// time.
fn series(recording: &Recording) -> Vec<TimeSeries> {
    let mut points: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for pair in moments(recording).windows(2) {
        let ((from, earlier), (to, later)) = (&pair[0], &pair[1]);
        for (name, now) in later.iter().filter(|_| to > from) {
            let (Some(before), Some(quota)) = (earlier.get(name), now.quota.clone()) else { continue };
            let used = QuotaUse { quota, throttling: now.throttling.since(&before.throttling) };
            points.entry(name.clone()).or_default().push((*to, 100.0 * used.stopped_seconds() / (to - from)));
        }
    }
    points.into_iter().map(|(name, points)| TimeSeries::new(NAME, &name, "%", points)).collect()
}

/// The values of one group in one sample.
#[derive(Default)]
struct GroupMoment {
    quota: Option<CpuQuota>,
    throttling: Throttling,
}

/// The time of each sample in seconds, and the groups in it by name.
fn moments(recording: &Recording) -> Vec<(f64, BTreeMap<String, GroupMoment>)> {
    recording.texts(NAME).map(|(seconds, text)| (seconds, parse(text))).collect()
}

fn parse(text: &str) -> BTreeMap<String, GroupMoment> {
    let mut files: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for line in text.lines() {
        let Some((rest, at)) = line.find(" /").map(|at| (&line[..at], at + 1)) else { continue };
        let Some((file, value)) = rest.split_once(' ') else { continue };
        let content = files.entry(&line[at..]).or_default().entry(file).or_default();
        content.push_str(value);
        content.push('\n');
    }
    files.into_iter().map(|(name, files)| (name.to_owned(), GroupMoment::of(name, &files))).collect()
}

impl GroupMoment {
    fn of(name: &str, files: &BTreeMap<&str, String>) -> Self {
        let file = |name: &str| files.get(name).map(|text| text.trim());
        let one = || Some(format!("{} {}", file("cpu.cfs_quota_us")?, file("cpu.cfs_period_us")?));
        let quota = file("cpu.max").map(str::to_owned).or_else(one);
        Self {
            quota: quota.and_then(|text| CpuQuota::parse(name, &text)).flatten(),
            throttling: file(STAT).and_then(throttling).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::recording_of;
    use std::fs;

    fn text(throttled: u64) -> String {
        format!(
            "cpu.max 200000 100000 /a\ncpu.stat nr_periods 10 /a\ncpu.stat nr_throttled 1 /a\n\
             cpu.stat throttled_usec 5 /a\ncpu.max 15000 100000 /a/b c\ncpu.stat nr_periods {} /a/b c\n\
             cpu.stat nr_throttled {throttled} /a/b c\ncpu.stat throttled_usec {} /a/b c\ncpu.stat odd\n",
            throttled + 1,
            throttled * 85_000
        )
    }

    #[test]
    fn the_quota_that_stops_most_often_is_found() {
        let used = quota_use(&recording_of(NAME, &[&text(20), &text(28), &text(37)])).unwrap();
        assert_eq!((used.quota.group.as_str(), used.quota.processors), ("/a/b c", 0.15));
        assert_eq!(used.throttling, Throttling { periods: 17, throttled: 17, throttled_us: 17 * 85_000 });
        let series = series(&recording_of(NAME, &[&text(20), &text(28)]));
        assert_eq!(series.iter().map(|of| of.name.as_str()).collect::<Vec<_>>(), ["/a", "/a/b c"]);
        assert!((series[1].points[0].1 - 80.0).abs() < 1e-9, "{series:?}");
        assert_eq!(quota_use(&recording_of(NAME, &["cpu.max max 100000 /a\n"])), None);
    }

    #[test]
    fn groups_of_version_1_and_of_a_followed_process_are_recorded() {
        let root = tempfile::TempDir::new().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("proc/self/mountinfo", "5 4 0:9 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
        put("proc/self/cgroup", "1:cpu:/\n");
        put("proc/77/cgroup", "1:cpu:/low\n");
        put("sys/fs/cgroup/cpu/low/cpu.cfs_quota_us", "10000\n");
        put("sys/fs/cgroup/cpu/low/cpu.cfs_period_us", "50000\n");
        put("sys/fs/cgroup/cpu/low/cpu.stat", "nr_periods 3\nnr_throttled 2\nthrottled_time 7000\n");
        let options = SamplerOptions {
            root: root.path().to_owned(),
            processes: vec![77, 78],
            ..SamplerOptions::default()
        };
        let mut text = Vec::new();
        QuotaSource::new(&options).read(&mut text).unwrap();
        let group = &parse(&String::from_utf8(text).unwrap())["/low"];
        assert_eq!(group.quota.as_ref().map(|quota| quota.processors), Some(0.2));
        assert_eq!(group.throttling, Throttling { periods: 3, throttled: 2, throttled_us: 7 });
    }
}
