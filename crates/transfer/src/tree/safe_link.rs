//! Decides from the text of a symbolic link whether the link points outside its tree.

use linerate_wire::path::RelPath;

/// True if a link at `path`, relative to its source, with the text `target` may point outside the source. That is the
/// case if the text is absolute or empty, if it begins with more `..` than there are directories above the link, or if
/// it contains a `..` after a name, because the name may be a link.
pub fn leads_out(path: &RelPath, target: &[u8]) -> bool {
    if target.is_empty() || target.starts_with(b"/") {
        return true;
    }
    let mut left = path.components().count().saturating_sub(1);
    let mut names = false;
    for part in target.split(|&b| b == b'/') {
        match part {
            b"" | b"." => {}
            b".." if names || left == 0 => return true,
            b".." => left -= 1,
            _ => names = true,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_stay_are_distinguished_from_those_that_lead_out() {
        let out = |path: &str, target: &str| leads_out(&RelPath::new(path).unwrap(), target.as_bytes());
        for (path, target) in
            [("l", "x"), ("l", "./x/y"), ("a/l", "../x"), ("a/b/l", "../../x"), ("a/l", "..")]
        {
            assert!(!out(path, target), "{path} -> {target}");
        }
        for (path, target) in [
            ("l", "/etc"),
            ("l", ""),
            ("l", ".."),
            ("l", "../x"),
            ("a/l", "../../x"),
            ("a/l", "x/../../.."),
            ("a/b/l", "x/.."),
            ("a/l", "./../../x"),
        ] {
            assert!(out(path, target), "{path} -> {target}");
        }
    }
}
