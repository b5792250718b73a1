//! The direction of a copy, by its arguments.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::common::spec::Spec;

/// Which way the data goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// From here to the host.
    Push {
        /// Local sources.
        sources: Vec<OsString>,
        /// The far host.
        host: OsString,
        /// The destination.
        destination: Vec<u8>,
    },
    /// From the host to here.
    Pull {
        /// The far host.
        host: OsString,
        /// Sources there.
        sources: Vec<Vec<u8>>,
        /// The destination.
        destination: OsString,
    },
    /// Within this host.
    Within {
        /// The sources.
        sources: Vec<OsString>,
        /// The destination.
        destination: OsString,
    },
}

impl Route {
    /// Decides by all arguments; the last one is the destination.
    ///
    /// # Errors
    /// A message if they can't be served together.
    pub fn find(sources: &[OsString], destination: &OsStr) -> Result<Self, String> {
        let specs: Vec<Spec> = sources.iter().map(|source| Spec::parse(source)).collect();
        match Spec::parse(destination) {
            Spec::Remote(host, path) => Self::push(&specs, host, path),
            Spec::Local(path) if specs.iter().all(|spec| matches!(spec, Spec::Local(_))) => {
                Ok(Self::Within { sources: sources.to_vec(), destination: path })
            }
            Spec::Local(path) => Self::pull(specs, path),
        }
    }

    fn push(specs: &[Spec], host: OsString, destination: Vec<u8>) -> Result<Self, String> {
        let local = |spec: &Spec| match spec {
            Spec::Local(path) => Ok(path.clone()),
            Spec::Remote(..) => {
                Err("copying from one far host to another is not possible: run linerate on one of \
                                     the two"
                    .to_owned())
            }
        };
        let sources = specs.iter().map(local).collect::<Result<_, _>>()?;
        Ok(Self::Push { sources, host, destination })
    }

    fn pull(specs: Vec<Spec>, destination: OsString) -> Result<Self, String> {
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
            Ok([host]) => Ok(Self::Pull { host, sources, destination }),
            Err(_) => Err("the sources are on several hosts: copy from one at a time".into()),
        }
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
        assert!(matches!(route(&["a", "./c:d"], "b"), Ok(Route::Within { .. })));
        assert!(route(&["a", "h:a"], "b").is_err());
        assert!(route(&["h:a"], "g:b").is_err());
        assert!(route(&["h:a", "g:b"], ".").is_err());
    }
}
