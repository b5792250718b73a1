//! Prints text in aligned columns.

use linerate_wire::path::printable;
use std::collections::BTreeMap;

/// The greatest width of a line, in characters.
pub(crate) const WIDTH: usize = 100;

/// The least width of the first column, as long as other columns can be removed.
const LEAST_NAME: usize = 16;

/// A table: a heading, and rows of cells. In a row, a note may take the place of the last cells.
pub(crate) struct Grid {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Grid {
    /// A table with these headings. The first `left` columns are aligned to the left, the others to the
    /// right.
    pub fn new(heading: &[&str], left: usize) -> Grid {
        let heading = heading.iter().map(|text| printable(text.as_bytes())).collect();
        Grid { heading, rows: Vec::new(), left }
    }

    /// Adds a row. If it has fewer cells than there are columns, its last cell is a note that extends over the missing
    /// columns. Control characters in cells are escaped, because a record's texts may contain any characters.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| printable(cell.as_bytes())).collect());
    }

    /// Removes columns, in the order of the headings in `order`, until the first column has enough space for
    /// a name. Returns the headings of the removed columns.
    pub fn make_room<'h>(&mut self, order: &[&'h str]) -> Vec<&'h str> {
        let mut left_out = Vec::new();
        for heading in order {
            let widths = self.widths();
            let name = widths.first().copied().unwrap_or(0).min(LEAST_NAME);
            let others: usize = widths.iter().skip(1).map(|width| width + 1).sum();
            if name + others <= WIDTH {
                break;
            }
            let Some(column) = self.heading.iter().position(|known| known == heading) else { continue };
            let whole = self.heading.len();
            // A note takes the place of the columns that its row lacks.
            let holds = |row: &&mut Vec<String>| row.len() == whole || column + 1 < row.len();
            self.rows.iter_mut().filter(holds).for_each(|row| drop(row.remove(column)));
            self.heading.remove(column);
            left_out.push(*heading);
        }
        left_out
    }

    /// The lines of the table. If the columns are too wide, the gaps between them are reduced. If that isn't
    /// enough, the texts of the first column are broken into several lines or shortened, such that no two
    /// rows look the same.
    pub fn lines(&self) -> Vec<String> {
        let mut widths = self.widths();
        let gaps = widths.len().saturating_sub(1);
        let sum: usize = widths.iter().sum();
        let gap = if sum + 2 * gaps > WIDTH { 1 } else { 2 };
        let over = (sum + gap * gaps).saturating_sub(WIDTH);
        if let Some(first) = widths.first_mut().filter(|_| over > 0) {
            *first = first.saturating_sub(over).max(8);
        }
        let names: Vec<&str> = self.rows().filter_map(|row| row.first()).map(String::as_str).collect();
        let width = widths.first().copied().unwrap_or(0);
        let names = in_lines(&names, width)
            .unwrap_or_else(|| fit(&names, width).into_iter().map(|name| vec![name]).collect());
        let rows = self.rows().zip(names).map(|(row, name)| {
            let later = name[1..].to_vec();
            std::iter::once(self.line(&name[0], row, &widths, gap)).chain(later)
        });
        rows.flatten().collect()
    }

    fn rows(&self) -> impl Iterator<Item = &Vec<String>> {
        std::iter::once(&self.heading).chain(&self.rows)
    }

    fn widths(&self) -> Vec<usize> {
        let whole = |row: &&Vec<String>| row.len() == self.heading.len();
        let width = |column: usize| {
            // A note doesn't widen the column in which it begins.
            let cells = self.rows().filter(|row| whole(row) || column + 1 < row.len());
            cells.filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        (0..self.heading.len()).map(width).collect()
    }

    /// The line of a row, with `name` as its first cell.
    fn line(&self, name: &String, row: &[String], widths: &[usize], gap: usize) -> String {
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(widths).enumerate() {
            if i > 0 {
                line.push_str(&" ".repeat(gap));
            }
            let is_note = row.len() < self.heading.len() && i + 1 == row.len();
            let cell = if i == 0 { name } else { cell };
            let fill = " ".repeat(width.saturating_sub(cell.chars().count()));
            match () {
                () if is_note => line.push_str(cell),
                () if i < self.left => line.extend([cell.as_str(), &fill]),
                () => line.extend([&fill, cell.as_str()]),
            }
        }
        shorten(line.trim_end(), WIDTH)
    }
}

/// The text; if it is too wide, its beginning with an ellipsis.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(3)).chain("...".chars()).collect()
}

/// The names, broken between words into lines no wider than `width`; `None` if a word is wider, or if a name
/// needs more than three lines.
fn in_lines(names: &[&str], width: usize) -> Option<Vec<Vec<String>>> {
    let lines = names.iter().map(|name| wrap_to(name, 2, width));
    let fits =
        |lines: &Vec<String>| lines.len() <= 3 && lines.iter().all(|line| line.chars().count() <= width);
    lines.map(|lines| Some(lines).filter(fits)).collect()
}

/// The names, shortened to `width` at the end. If that makes two names equal, they are shortened in the
/// middle or at the start. If they are still equal, they are numbered.
fn fit(names: &[&str], width: usize) -> Vec<String> {
    let ways: [fn(&str, usize) -> String; 3] = [shorten, without_middle, without_start];
    for way in ways {
        let cut: Vec<String> = names.iter().map(|name| way(name, width)).collect();
        if are_apart(names, &cut) {
            return cut;
        }
    }
    let numbered = |(number, name): (usize, &&str)| {
        let number = format!(" #{number}");
        if name.chars().count() <= width {
            return (*name).to_owned();
        }
        shorten(name, width.saturating_sub(number.len())) + &number
    };
    names.iter().enumerate().map(numbered).collect()
}

/// True if names that are different are still different after shortening.
fn are_apart(names: &[&str], cut: &[String]) -> bool {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    cut.iter().zip(names).all(|(cut, name)| seen.insert(cut, name).is_none_or(|other| other == *name))
}

fn without_middle(text: &str, width: usize) -> String {
    let kept = width.saturating_sub(3);
    let end = kept / 2;
    let all = text.chars().count();
    if all <= width {
        return text.to_owned();
    }
    text.chars().take(kept - end).chain("...".chars()).chain(text.chars().skip(all - end)).collect()
}

fn without_start(text: &str, width: usize) -> String {
    let all = text.chars().count();
    if all <= width {
        return text.to_owned();
    }
    "...".chars().chain(text.chars().skip(all - width.saturating_sub(3).min(all))).collect()
}

/// The text, broken into lines no wider than `WIDTH`. All lines except the first are indented by `indent`
/// spaces.
pub(crate) fn wrap(text: &str, indent: usize) -> Vec<String> {
    wrap_to(text, indent, WIDTH)
}

fn wrap_to(text: &str, indent: usize, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        let empty = line.trim().is_empty();
        if empty || line.chars().count() + 1 + word.chars().count() <= width {
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
        } else {
            lines.push(format!("{}{word}", " ".repeat(indent)));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_give_way_to_names() {
        let wide = "9".repeat(40);
        let mut grid = Grid::new(&["case", "a", "b", "c"], 1);
        grid.row(vec!["a name of some length".into(), wide.clone(), wide.clone(), wide.clone()]);
        grid.row(vec!["another".into(), "why there is nothing".into()]);
        assert_eq!(grid.make_room(&["x", "b", "c"]), ["b"]);
        let lines = grid.lines();
        assert!(lines[0].starts_with("case") && !lines[0].contains('b'), "{lines:?}");
        assert!(lines[1].starts_with("a name of some ") && lines[1].matches(&wide).count() == 2, "{lines:?}");
        assert!(lines.last().unwrap().contains("why there is nothing"), "{lines:?}");
        assert!(
            grid.make_room(&["c"]).is_empty() && lines.iter().all(|line| line.len() <= WIDTH),
            "{lines:?}"
        );
    }

    #[test]
    fn columns_are_aligned_and_a_note_runs_over() {
        let mut grid = Grid::new(&["case", "n", "rate"], 1);
        grid.row(vec!["copy".into(), "8".into(), "9.41".into()]);
        grid.row(vec!["a longer one".into(), "not installed, and more".into()]);
        assert_eq!(
            grid.lines(),
            ["case          n  rate", "copy          8  9.41", "a longer one  not installed, and more"]
        );
    }

    #[test]
    fn columns_that_are_too_wide_stand_closer_and_the_first_gives_way() {
        let mut grid = Grid::new(&["a", "b", "c"], 1);
        grid.row(vec!["x".repeat(60), "y".repeat(30), "z".repeat(30)]);
        let line = &grid.lines()[1];
        assert_eq!(line.chars().count(), WIDTH);
        assert!(
            line.ends_with(&"z".repeat(30)) && line.contains(&format!("... {}", "y".repeat(30))),
            "{line}"
        );
    }

    #[test]
    fn a_name_of_words_is_broken_and_not_cut() {
        let mut grid = Grid::new(&["case", "y"], 1);
        grid.row(vec!["8 pairs, 16 queues, ports: 2".into(), "y".repeat(80)]);
        grid.row(vec!["scp".into(), "z".into()]);
        let lines = grid.lines();
        assert_eq!(lines[1], format!("8 pairs, 16 queues, {}", "y".repeat(80)));
        assert_eq!((lines[2].as_str(), lines.len()), ("  ports: 2", 4));
    }

    #[test]
    fn names_that_are_cut_stay_apart() {
        let cut = |names: &[&str]| fit(names, 16);
        assert_eq!(cut(&["short", "a long name, first"]), ["short", "a long name, ..."]);
        let queues =
            ["8 streams of files, 1 queue", "8 streams of files, 8 queues", "8 streams of files, 1 queue"];
        assert_eq!(cut(&queues), ["8 strea... queue", "8 strea...queues", "8 strea... queue"]);
        let late = ["pairs, ports: 12, clear x", "pairs, ports: 18, clear x"];
        assert_eq!(cut(&late), ["...: 12, clear x", "...: 18, clear x"]);
        let nowhere = ["a long name, of 1, and so it goes on", "a long name, of 2, and so it goes on"];
        assert_eq!(cut(&nowhere), ["a long nam... #0", "a long nam... #1"]);
    }

    #[test]
    fn nothing_is_wider_than_the_width() {
        let mut grid = Grid::new(&["case", "note"], 1);
        grid.row(vec!["x".into(), "long ".repeat(40)]);
        assert!(grid.lines().iter().all(|line| line.chars().count() <= WIDTH));
        let lines = wrap(&"some words ".repeat(30), 2);
        assert!(lines.len() > 2 && lines.iter().all(|line| line.chars().count() <= WIDTH));
        assert!(lines[1].starts_with("  some") || lines[1].starts_with("  words"));
    }
}
