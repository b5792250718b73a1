//! The route of a copy, as its arguments determine it.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::common::spec::Spec;

/// The route of the data: from which host to which host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// From this host to a far host.
    Push {
        /// Local sources.
        sources: Vec<OsString>,
        /// The far host.
        host: OsString,
        /// The destination.
        destination: Vec<u8>,
    },
    /// From a far host to this host.
    Pull {
        /// The far host.
        host: OsString,
        /// The sources on the far host.
        sources: Vec<Vec<u8>>,
        /// The destination.
        destination: OsString,
    },
    /// From one far host to another.
    Between {
        /// The host of the sources.
        from: OsString,
        /// The sources on that host.
        sources: Vec<Vec<u8>>,
        /// The host of the destination.
        to: OsString,
        /// The destination on that host.
        destination: Vec<u8>,
    },
    /// Within this host: both sources and destination are here.
    Within {
        /// The sources.
        sources: Vec<OsString>,
        /// The destination.
        destination: OsString,
    },
}

impl Route {
    /// Determines the route from the sources and the destination.
    ///
    /// # Errors
    /// A message if the arguments can't be combined.
    pub fn find(sources: &[OsString], destination: &OsStr) -> Result<Self, String> {
        let specs: Vec<Spec> = sources.iter().map(|source| Spec::parse(source)).collect();
        match Spec::parse(destination) {
            Spec::Remote(host, path) if specs.iter().any(is_remote) => Self::between(specs, host, path),
            Spec::Remote(host, path) => Ok(Self::Push { sources: sources.to_vec(), host, destination: path }),
            Spec::Local(path) if specs.iter().all(|spec| matches!(spec, Spec::Local(_))) => {
                Ok(Self::Within { sources: sources.to_vec(), destination: path })
            }
            Spec::Local(path) => Self::pull(specs, path),
        }
    }

    fn between(specs: Vec<Spec>, to: OsString, destination: Vec<u8>) -> Result<Self, String> {
        let (from, sources) = of_one_host(specs)?;
        Ok(Self::Between { from, sources, to, destination })
    }

    fn pull(specs: Vec<Spec>, destination: OsString) -> Result<Self, String> {
        let (host, sources) = of_one_host(specs)?;
        Ok(Self::Pull { host, sources, destination })
    }
}

fn is_remote(spec: &Spec) -> bool {
    matches!(spec, Spec::Remote(..))
}

/// The host of far sources, which must be the same for all, and the sources' paths there.
fn of_one_host(specs: Vec<Spec>) -> Result<(OsString, Vec<Vec<u8>>), String> {
    let (mut hosts, mut sources) = (Vec::new(), Vec::new());
    for spec in specs {
        match spec {
            Spec::Remote(host, path) => {
                hosts.push(host);
                sources.push(if path.is_empty() { b".".to_vec() } else { path });
            }
            Spec::Local(path) => return Err(also_here(&path)),
        }
    }
    hosts.dedup();
    match <[OsString; 1]>::try_from(hosts) {
        Ok([host]) => Ok((host, sources)),
        Err(_) => Err("the sources are on several hosts: copy from one at a time".into()),
    }
}

fn also_here(path: &OsStr) -> String {
    format!(
        "{} is on this host and other sources are on another: copy from one host at a time",
        linerate_wire::path::printable(path.as_bytes())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_that_have_no_one_far_end_are_refused() {
        let route = |sources: &[&str], destination: &str| {
            let sources: Vec<OsString> = sources.iter().map(OsString::from).collect();
            Route::find(&sources, OsStr::new(destination))
        };
        assert!(matches!(route(&["a", "b"], "h:"), Ok(Route::Push { .. })));
        assert!(matches!(route(&["h:a", "h:b"], "."), Ok(Route::Pull { .. })));
        assert!(route(&["a", "c:/b:d"], "h:").is_err());
        assert!(matches!(route(&["g:a", "g:b"], "h:"), Ok(Route::Between { .. })));
        assert!(route(&["g:a", "f:b"], "h:").is_err());
        assert!(matches!(route(&["a", "./c:d"], "b"), Ok(Route::Within { .. })));
        assert!(route(&["a", "h:a"], "b").is_err());
        assert!(route(&["h:a", "g:b"], ".").is_err());
    }
}
