//! Columns that stand in line.

use crate::human::excerpt;

/// A cell is cut here: one long value must not push all others off the screen.
const CELL_MAX: usize = 200;
/// The last column is not cut below this to make a table fit: the lines break instead.
const LAST_CELL_MIN: usize = 10;

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
        std::iter::once(&headings).chain(&self.rows).map(|row| self.line(row)).collect()
    }

    /// Like [`Table::show`], the cells of the last column cut so that lines are no longer than `width`, if there is one.
    pub(crate) fn show_within(mut self, width: Option<usize>) -> String {
        let last = self.columns.len() - 1;
        let before: usize = (0..last).map(|column| self.width(column) + GAP.len()).sum();
        if let Some(width) = width {
            // The mark of a cut takes a place too.
            let most = width.saturating_sub(before).max(LAST_CELL_MIN) - 1;
            let is_long = |cell: &&mut String| cell.chars().count() > most + 1;
            let cells = self.rows.iter_mut().map(|row| &mut row[last]);
            cells.filter(is_long).for_each(|cell| *cell = excerpt(cell, most));
        }
        self.show()
    }

    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (index, cell) in row.iter().enumerate() {
            let gap = if index == 0 { "" } else { GAP };
            let fill = " ".repeat(self.width(index) - cell.chars().count());
            match self.columns[index].1 {
                Align::Left => line.extend([gap, cell, &fill]),
                Align::Right => line.extend([gap, &fill, cell]),
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].chars().count());
        cells.chain([self.columns[column].0.len()]).max().unwrap_or_default()
    }
}

/// One fact to a line, their names in line: what there is to say of one thing.
pub(crate) fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let line = |(name, value): &(&str, String)| format!("{name:width$}  {}\n", excerpt(value, usize::MAX));
    facts.iter().map(line).collect()
}
