//! `--append`: a file that is shorter here gets the missing bytes appended, and its existing bytes stay
//! unchanged.

use linerate_wire::control::{Appending, Want};
use linerate_wire::entry::Kind;

use super::decide::Decision;
use super::delta::CHUNK_LEAST;
use super::existing::open_existing;
use super::view::Occupant;
use super::{Comparer, name};
use crate::receive::admission::Admitted;
use crate::tree::reading::hash;

impl Comparer<'_, '_> {
    /// With `--append`, the answer for a file that would be sent although the file `there` exists. `None` if `--append`
    /// doesn't determine the answer.
    pub(super) fn appended(
        &mut self,
        admitted: &Admitted<'_>,
        there: Option<&Occupant>,
        decision: &Decision,
    ) -> Option<Want> {
        let append = self.shared.settings.append;
        let (entry, place) = (admitted.entry(), admitted.place());
        let (Kind::File { size }, Some(there), Decision::Contents(_)) = (&entry.kind, there, decision) else {
            return None;
        };
        let from = u64::try_from(there.stat.st_size).ok().filter(|_| append != Appending::Never)?;
        if from >= *size {
            self.count(entry, &Want::LeftAlone, self.rules.sync.dry_run);
            return Some(Want::LeftAlone);
        }
        let dry_run = self.rules.sync.dry_run;
        let grows = !dry_run && may_grow(from, append);
        let digest = match append {
            Appending::Comparing if grows => {
                let file = open_existing(&there.parent, name(place), &there.stat).ok()?;
                Some(hash(std::os::fd::AsFd::as_fd(&file), 0, from, &mut self.buffer).ok()??)
            }
            _ => None,
        };
        let has_rest = grows && self.shared.notes.shorter.insert(place, there.stat);
        let want = if has_rest { Want::Rest { from, digest } } else { Want::Whole };
        self.itemize(entry, decision);
        self.count(entry, &want, dry_run);
        Some(want)
    }
}

/// True if bytes are appended after the first `from` bytes; otherwise the whole file is requested. With
/// digests, `from` must be at least the smallest chunk: from digests of fewer bytes, the sender could find
/// out the contents by trial.
fn may_grow(from: u64, append: Appending) -> bool {
    let least = if append == Appending::Comparing { CHUNK_LEAST } else { 1 };
    from >= least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_a_short_file_s_contents() {
        assert!(!may_grow(4, Appending::Comparing) && !may_grow(CHUNK_LEAST - 1, Appending::Comparing));
        assert!(may_grow(CHUNK_LEAST, Appending::Comparing));
        assert!(may_grow(4, Appending::Trusting) && !may_grow(0, Appending::Trusting));
    }
}
