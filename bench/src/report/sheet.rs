//! [`Sheet`]: the figures of all contenders at one load.

use crate::peers::Contender;
use crate::stats::{Better, Spread, leaders};

/// A figure of every run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Its name in JSON.
    pub(crate) key: &'static str,
    /// Its name in a table, with the unit.
    pub(crate) head: &'static str,
    pub(crate) better: Better,
}

#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    pub(crate) scenario: &'static str,
    pub(crate) title: String,
    /// Short, for a plot.
    pub(crate) label: String,
    /// The first column decides who is first.
    pub(crate) columns: &'static [Column],
    pub(crate) rows: Vec<Row>,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) contender: Contender,
    /// Figures of each run, one per column.
    pub(crate) runs: Vec<Vec<f64>>,
    /// Why there are no figures, or no further ones.
    pub(crate) left_out: Option<String>,
    /// What a reader must know to compare the row with others.
    pub(crate) marks: Vec<String>,
}

impl Row {
    pub(crate) fn new(contender: Contender) -> Self {
        Self { contender, runs: Vec::new(), left_out: None, marks: Vec::new() }
    }

    pub(crate) fn spread(&self, column: usize) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(|run| run.get(column).copied()))
    }

    fn competes(&self) -> bool {
        self.contender != Contender::Bare && self.left_out.is_none() && !self.runs.is_empty()
    }
}

impl Sheet {
    /// Who is best by the first column, or who ties: nobody if fewer than two compete.
    pub(crate) fn verdict(&self) -> Option<String> {
        let rows: Vec<&Row> = self.rows.iter().filter(|row| row.competes()).collect();
        let medians: Vec<f64> = rows.iter().filter_map(|row| Some(row.spread(0)?.median)).collect();
        if medians.len() < 2 || self.columns[0].better == Better::Neither {
            return None;
        }
        let first = leaders(&medians, self.columns[0].better);
        let names: Vec<&str> = first.iter().map(|index| rows[*index].contender.name()).collect();
        Some(match names.as_slice() {
            [only] => format!("First: {only}."),
            several => format!("A tie (within 5 %): {}.", several.join(", ")),
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const COLUMNS: &[Column] = &[
        Column { key: "items_per_second", head: "items/s", better: Better::Higher },
        Column { key: "server_cpu", head: "CPU", better: Better::Lower },
    ];

    pub(crate) fn row(contender: Contender, rates: &[f64]) -> Row {
        Row { runs: rates.iter().map(|rate| vec![*rate, 1.5]).collect(), ..Row::new(contender) }
    }

    pub(crate) fn sheet(rows: Vec<Row>) -> Sheet {
        Sheet {
            scenario: "cycles",
            title: "Full cycles".into(),
            label: "1 × 1".into(),
            columns: COLUMNS,
            rows,
        }
    }

    #[test]
    fn the_first_is_named_and_the_bare_loop_never_is() {
        let rows = vec![
            row(Contender::Bare, &[9000.0]),
            row(Contender::Redis, &[100.0, 300.0, 200.0]),
            row(Contender::Windlass, &[250.0]),
        ];
        assert_eq!(sheet(rows).verdict().unwrap(), "First: windlass.");
    }

    #[test]
    fn a_tie_is_told_as_one() {
        let rows = vec![row(Contender::Redis, &[98.0]), row(Contender::Windlass, &[100.0])];
        assert_eq!(sheet(rows).verdict().unwrap(), "A tie (within 5 %): windlass, redis.");
    }

    #[test]
    fn a_contender_that_was_left_out_cannot_be_first() {
        let mut refused = row(Contender::Nats, &[900.0]);
        refused.left_out = Some("does not sync".into());
        let rows = vec![refused, row(Contender::Redis, &[98.0])];
        assert_eq!(sheet(rows).verdict(), None);
    }
}
