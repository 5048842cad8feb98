//! Columns that stand in line.

use crate::human::excerpt;

/// A cell is cut here: one long value must not push all others off the screen.
const CELL_MAX: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

#[derive(Debug)]
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

    fn line(&self, row: &[String]) -> String {
        let mut line = String::new();
        for (index, cell) in row.iter().enumerate() {
            let gap = if index == 0 { "" } else { "  " };
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
