//! Widths and line breaks of text. The layout needs both before a renderer draws the text.

/// Advance widths of Helvetica and the fonts that are metrically like it (Arial, Liberation Sans), for U+0020
/// to U+007E, in thousandths of the font size.
const ADVANCE: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, // space to /
    556, 556, 556, 556, 556, 556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, // 0 to ?
    1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833, 722, 778, // @ to O
    667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, // P to _
    333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, // ` to o
    556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584, // p to ~
];

/// The width of a text in regular weight, in the units of `size`. Bold text is about 6 % wider.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size / 1000.0
}

/// Breaks a text into lines no wider than `limit`: at spaces if possible, otherwise inside words. A text that
/// needs more than `lines` lines is cut off with an ellipsis.
pub(crate) fn wrap(text: &str, size: f64, limit: f64, lines: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let joined =
            out.last().map(|line| format!("{line} {word}")).filter(|line| width(line, size) <= limit);
        match (joined, out.last_mut()) {
            (Some(joined), Some(line)) => *line = joined,
            _ => out.push(word.to_owned()),
        }
        if out.len() > lines {
            break;
        }
    }
    if out.len() > lines {
        let rest = out.split_off(lines.max(1) - 1).join(" ");
        out.push(format!("{rest}…"));
    }
    out.into_iter().map(|line| fit(&line, size, limit)).collect()
}

/// The text, cut off with an ellipsis if it is wider than `limit`.
pub(crate) fn fit(text: &str, size: f64, limit: f64) -> String {
    if width(text, size) <= limit {
        return text.to_owned();
    }
    let room = limit - width("…", size);
    let mut used = 0.0;
    let fits = |c: &char| {
        used += advance(*c) * size / 1000.0;
        used <= room
    };
    let kept: String = text.trim_end_matches('…').chars().take_while(fits).collect();
    format!("{}…", kept.trim_end())
}

fn advance(c: char) -> f64 {
    match c {
        ' '..='~' => f64::from(ADVANCE[c as usize - 0x20]),
        '…' => 1000.0,
        '\u{1100}'.. => 1000.0,
        _ => 600.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_those_of_the_font() {
        assert_eq!(width("0.00", 10.0), 5.56 * 3.0 + 2.78);
        assert!(width("Wide", 10.0) > width("thin", 10.0));
    }

    #[test]
    fn lines_break_at_spaces() {
        assert_eq!(wrap("rsync over ssh", 10.0, 50.0, 3), ["rsync over", "ssh"]);
        assert_eq!(wrap("", 10.0, 50.0, 3), Vec::<String>::new());
    }

    #[test]
    fn what_does_not_fit_is_cut_with_an_ellipsis() {
        let lines = wrap("one two three four five six seven", 10.0, 40.0, 2);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].ends_with('…'));
        assert!(lines.iter().all(|line| width(line, 10.0) <= 40.0), "{lines:?}");
        assert!(width(&fit(&"w".repeat(100), 10.0, 40.0), 10.0) <= 40.0);
    }
}
