//! The name that the bars of a category share.

/// The common beginning of all labels, without prepositions or punctuation at its end, for example "scp" for
/// "scp, 1 copy" and "scp, 8 copies". `None` if the labels begin differently; a single label is returned
/// unchanged.
pub(crate) fn common_name(labels: &[&str]) -> Option<String> {
    let (first, rest) = labels.split_first()?;
    let words: Vec<&str> = first.split_whitespace().collect();
    let shared = |label: &&str| label.split_whitespace().zip(&words).take_while(|(a, b)| a == *b).count();
    let length = rest.iter().map(shared).fold(words.len(), usize::min);
    let name = if rest.is_empty() { words.join(" ") } else { without_tail(&words[..length]) };
    (!name.is_empty()).then_some(name)
}

/// Joins the words, without a preposition, a sign or punctuation at their end.
fn without_tail(words: &[&str]) -> String {
    let name = words.join(" ");
    let mut name = name.as_str();
    loop {
        let cut = name.trim_end_matches([' ', ',', ';', ':', '-', '–', '—', '×', '(', '·', '/']);
        let cut = [" with", " at", " x", " by"].iter().find_map(|tail| cut.strip_suffix(tail)).unwrap_or(cut);
        if cut.len() == name.len() {
            return name.to_owned();
        }
        name = cut;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_beginning_is_the_name() {
        let name = |labels: &[&str]| common_name(labels);
        assert_eq!(
            name(&["linerate cp, 1 stream", "linerate cp, 8 streams"]).as_deref(),
            Some("linerate cp")
        );
        assert_eq!(name(&["scp", "scp × 8"]).as_deref(), Some("scp"));
        assert_eq!(
            name(&["rsync over ssh with 1 copy", "rsync over ssh with 8"]).as_deref(),
            Some("rsync over ssh")
        );
        assert_eq!(name(&["iperf3, 8 streams"]).as_deref(), Some("iperf3, 8 streams"));
        assert_eq!(name(&["a", "b"]), None);
        assert_eq!(name(&[]), None);
    }
}
