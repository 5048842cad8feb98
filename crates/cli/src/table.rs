//! Columns that stand in line.

use crate::human::{self, excerpt};

/// A cell is cut here: one long value must not push all others off the screen.
const CELL_MAX: usize = 200;

/// Between two columns.
const GAP: &str = "  ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| excerpt(&cell, CELL_MAX)).collect());
    }

    /// With its headings, and a line end after each line.
    pub(crate) fn show(&self) -> String {
        let headings: Vec<String> = self.columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        let widths = self.widths();
        std::iter::once(&headings).chain(&self.rows).map(|row| self.line(row, &widths)).collect()
    }

    /// Like [`Table::show`], made to fit `width`, if there is one. Columns in `dropped` are left out, the first of them first, until
    /// those in `cut` can have their least widths (or what they need, if that is less). Then the widest of those in `cut` is
    /// narrowed, below its least width only if no other column is left to drop. No column becomes narrower than its heading: the
    /// lines break instead.
    pub(crate) fn show_within(
        mut self,
        width: Option<usize>,
        cut: &[(&str, usize)],
        dropped: &[&str],
    ) -> String {
        let Some(width) = width else { return self.show() };
        for name in dropped {
            if total(&self.floors(cut)) <= width {
                break;
            }
            self.leave_out(name);
        }
        let mut widths = self.widths();
        narrow(&mut widths, &self.floors(cut), width);
        narrow(&mut widths, &self.floors(&without_least(cut)), width);
        for (cell, most) in self.rows.iter_mut().flat_map(|row| row.iter_mut().zip(&widths)) {
            if human::width(cell) > *most {
                // `…` takes one column.
                *cell = excerpt(cell, most - 1);
            }
        }
        self.show()
    }

    fn leave_out(&mut self, name: &str) {
        let Some(index) = self.columns.iter().position(|(column, _)| *column == name) else { return };
        self.columns.remove(index);
        for row in &mut self.rows {
            row.remove(index);
        }
    }

    /// The least width of each column: what it needs, unless it can be cut.
    fn floors(&self, cut: &[(&str, usize)]) -> Vec<usize> {
        let floor = |((name, _), needed): (&(&str, Align), usize)| {
            let least = cut.iter().find(|(column, _)| column == name).map(|(_, least)| *least);
            least.map_or(needed, |least| needed.min(least.max(name.len())))
        };
        self.columns.iter().zip(self.widths()).map(floor).collect()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (index, cell) in row.iter().enumerate() {
            let gap = if index == 0 { "" } else { GAP };
            let fill = " ".repeat(widths[index] - human::width(cell));
            match self.columns[index].1 {
                Align::Left => line.extend([gap, cell, &fill]),
                Align::Right => line.extend([gap, &fill, cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }

    /// Of each column: its longest cell or its heading.
    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|(name, _)| name.len()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = human::width(cell).max(*width);
            }
        }
        widths
    }
}

/// Takes columns from the widest that is above its floor, until a line fits.
fn narrow(widths: &mut [usize], floors: &[usize], fit: usize) {
    while total(widths) > fit {
        let above = widths.iter_mut().zip(floors).filter(|(width, floor)| **width > **floor);
        let Some((widest, _)) = above.max_by_key(|(width, _)| **width) else { break };
        *widest -= 1;
    }
}

/// The columns and what is between them.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1)
}

fn without_least<'a>(cut: &[(&'a str, usize)]) -> Vec<(&'a str, usize)> {
    cut.iter().map(|(name, _)| (*name, 0)).collect()
}

/// One fact to a line, their names in line: what there is to say of one thing.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |(name, value): &(&str, String)| format!("{name:width$}  {}\n", excerpt(value, usize::MAX));
    facts.iter().map(line).collect()
}
