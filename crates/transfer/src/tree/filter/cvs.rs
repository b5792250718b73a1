//! The names that cvs ignores, for `--cvs-exclude` and for rules with the modifier `C`.

/// The name of the file with further patterns that a directory may contain.
pub(super) const FILE: &[u8] = b".cvsignore";

/// The patterns of names that are ignored everywhere: rsync(1), `--cvs-exclude`.
pub(super) const PATTERNS: &[u8] = b"RCS SCCS CVS CVS.adm RCSLOG cvslog.* tags TAGS .make.state .nse_depinfo \
    *~ #* .#* ,* _$* *$ *.old *.bak *.BAK *.orig *.rej .del-* *.a *.olb *.o *.obj *.so *.exe *.Z *.elc *.ln core \
    .svn/ .git/ .hg/ .bzr/";

/// The patterns in [`PATTERNS`], one by one.
pub(super) fn patterns() -> impl Iterator<Item = &'static [u8]> {
    PATTERNS.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}
