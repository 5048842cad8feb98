//! Columns that stand in line.

use crate::human::excerpt;

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

    /// Like [`Table::show`], with the widest of the columns named in `cut` narrowed until a line has at most `width` columns,
    /// if there is a width. No column becomes narrower than its heading: the lines break instead.
    pub(crate) fn show_within(mut self, width: Option<usize>, cut: &[&str]) -> String {
        let Some(width) = width else { return self.show() };
        let mut widths = self.widths();
        while widths.iter().sum::<usize>() + GAP.len() * (widths.len() - 1) > width {
            let can_be_cut =
                |(name, _): &(&str, Align), width: usize| cut.contains(name) && width > name.len();
            let columns = self.columns.iter().zip(&mut widths);
            let widest = columns
                .filter(|(column, width)| can_be_cut(column, **width))
                .max_by_key(|(_, width)| **width);
            let Some((_, widest)) = widest else { break };
            *widest -= 1;
        }
        for (cell, most) in self.rows.iter_mut().flat_map(|row| row.iter_mut().zip(&widths)) {
            if cell.chars().count() > *most {
                // `…` takes one column.
                *cell = excerpt(cell, most - 1);
            }
        }
        self.show()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (index, cell) in row.iter().enumerate() {
            let gap = if index == 0 { "" } else { GAP };
            let fill = " ".repeat(widths[index] - cell.chars().count());
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
                *width = cell.chars().count().max(*width);
            }
        }
        widths
    }
}

/// One fact to a line, their names in line: what there is to say of one thing.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |(name, value): &(&str, String)| format!("{name:width$}  {}\n", excerpt(value, usize::MAX));
    facts.iter().map(line).collect()
}
