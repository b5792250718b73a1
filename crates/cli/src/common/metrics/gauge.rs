//! The metrics by name. All are gauges that describe the last run, because a file isn't a process whose
//! counters could grow.

/// Defines a gauge for each line, which consists of its variant, its name and its help text.
macro_rules! gauges {
    ($($variant:ident $name:literal $help:literal;)*) => {
        /// A metric of a run.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Gauge {
            $(#[doc = $help] $variant,)*
        }

        impl Gauge {
            /// All metrics.
            #[cfg(test)]
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The metric's name, with its unit at the end.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// The metric's help text, a sentence.
            pub fn help(self) -> &'static str {
                match self { $(Self::$variant => $help),* }
            }
        }
    };
}

gauges! {
    RunInfo "linerate_run_info" "The command and the version of linerate; always 1.";
    RunExitCode "linerate_run_exit_code" "Exit code of the last run.";
    RunStart "linerate_run_start_timestamp_seconds" "Start of the last run, in Unix time.";
    RunEnd "linerate_run_end_timestamp_seconds" "End of the last run, in Unix time.";
    RunDuration "linerate_run_duration_seconds" "Duration of the last run, logins included.";
    RunLastSuccess "linerate_run_last_success_timestamp_seconds" "End of the last run with exit code 0 or 4, in Unix time.";
    TransferBytes "linerate_transfer_bytes" "Bytes of file contents that the last run moved.";
    TransferFiles "linerate_transfer_files" "Files that the last run moved.";
    TransferWireBytes "linerate_transfer_wire_bytes" "Bytes that the data connections carried; 0 within one host.";
    TransferPlaceBytes "linerate_transfer_in_place_bytes" "Bytes of files in place after the last run, moved by it or there before.";
    TransferPlaceEntries "linerate_transfer_in_place_entries" "Entries in place after the last run, by kind.";
    TransferDeleted "linerate_transfer_deleted_entries" "Entries that sync --delete removed.";
    TransferPayload "linerate_transfer_payload_seconds" "Time from the first data connection to the last message.";
    TransferStreams "linerate_transfer_streams" "Streams that carried data, or workers within one host.";
    TransferEncrypted "linerate_transfer_encrypted" "1 if the data was encrypted on its way, 0 if it was sent in clear.";
    TransferCpu "linerate_transfer_cpu_seconds" "Processor time of linerate and its ssh, by end.";
    TransferPeakMemory "linerate_transfer_peak_memory_bytes" "Largest resident memory of linerate, by end.";
    TransferLimiter "linerate_transfer_limiter_ratio" "Share of the time for which the limiter holds the transfer back, 0 to 1.";
    TransferProblems "linerate_transfer_problems" "Entries that failed, changed or lost something, by kind.";
    VerifyCompared "linerate_verify_compared_entries" "Entries at both ends.";
    VerifySameBytes "linerate_verify_same_bytes" "Bytes of files that are the same at both ends.";
    VerifyDifferences "linerate_verify_differences" "Entries that differ, are missing or are extra, by kind.";
    VerifyProblems "linerate_verify_problems" "Entries that could not be read, or changed, by kind.";
    MeasureSeconds "linerate_measure_command_seconds" "Wall time of the measured command.";
    MeasureCpu "linerate_measure_command_cpu_seconds" "Processor time of the measured command and its descendants.";
    MeasureLimiter "linerate_measure_limiter_ratio" "Share of the time for which the limiter holds the command back, 0 to 1.";
    MeasureHostSeconds "linerate_measure_host_seconds" "Time for which the host was sampled.";
    MeasureHostCpu "linerate_measure_host_cpu_seconds" "Processor time of the whole host, by mode.";
    MeasureHostCarried "linerate_measure_host_carried_bytes" "Bytes of all interfaces except loopback, in the busier direction.";
    DoctorFindings "linerate_doctor_findings" "Findings, by host and severity.";
    DoctorLost "linerate_doctor_lost_ratio" "Share of the needed rate that the costliest finding takes, 0 to 1.";
    DoctorNeeded "linerate_doctor_needed_bytes_per_second" "The rate that the host needs.";
    DoctorUnreadable "linerate_doctor_unreadable_facts" "Facts of the host that can't be read.";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const FORMATS: &str = include_str!("../../../../../docs/formats.md");
    const DASHBOARD: &str = include_str!("../../../../../contrib/grafana/linerate.json");

    /// The names of all metrics in a text.
    fn named(text: &str) -> BTreeSet<&str> {
        let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        words.filter(|word| word.starts_with("linerate_") && *word != "linerate_").collect()
    }

    fn all() -> BTreeSet<&'static str> {
        Gauge::ALL.iter().map(|gauge| gauge.name()).collect()
    }

    #[test]
    fn every_gauge_is_documented_and_no_other() {
        let (_, section) = FORMATS.split_once("\n## Metrics\n").expect("the heading is there");
        let section = section.split("\n## ").next().unwrap_or(section);
        assert_eq!(named(section), all());
    }

    #[test]
    fn the_dashboard_shows_gauges_that_are_there() {
        let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).expect("JSON");
        let shown = named(DASHBOARD);
        assert!(shown.is_subset(&all()), "{:?}", shown.difference(&all()).collect::<Vec<_>>());
        for command in ["run", "transfer", "verify", "doctor"] {
            assert!(shown.iter().any(|name| name.starts_with(&format!("linerate_{command}_"))), "{command}");
        }
        let panels = dashboard["panels"].as_array().expect("panels");
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().expect("an id")).collect();
        assert_eq!(ids.len(), panels.len());
        for panel in panels.iter().filter(|panel| panel["type"] != "row") {
            for target in panel["targets"].as_array().expect("targets") {
                let query = target["expr"].as_str().expect("a query");
                assert!(named(query).len() == 1 || query.contains("linerate_run_"), "{query}");
                assert!(query.contains("task=~\"$task\""), "{query}");
            }
        }
    }

    #[test]
    fn no_gauge_pretends_to_count() {
        for gauge in Gauge::ALL {
            assert!(!gauge.name().ends_with("_total") && !gauge.name().ends_with("_count"), "{gauge:?}");
            assert!(gauge.help().ends_with('.') && !gauge.help().contains(['\\', '\n']), "{gauge:?}");
        }
    }
}
