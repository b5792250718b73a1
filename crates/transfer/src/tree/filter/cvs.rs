//! The names that cvs ignores, for `--cvs-exclude` and the rules with `C`.

/// The file in each directory that contains further names.
pub(super) const FILE: &[u8] = b".cvsignore";

/// Names that are ignored everywhere: rsync(1), `--cvs-exclude`.
pub(super) const PATTERNS: &[u8] = b"RCS SCCS CVS CVS.adm RCSLOG cvslog.* tags TAGS .make.state .nse_depinfo \
    *~ #* .#* ,* _$* *$ *.old *.bak *.BAK *.orig *.rej .del-* *.a *.olb *.o *.obj *.so *.exe *.Z *.elc *.ln core \
    .svn/ .git/ .hg/ .bzr/";

/// [`PATTERNS`] one by one.
pub(super) fn patterns() -> impl Iterator<Item = &'static [u8]> {
    PATTERNS.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}
