//! [`Sheet`]: the figures of all contenders at one load.

use crate::peers::Contender;
use crate::stats::{Better, Spread, leaders};

/// A figure of every run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// The column's name in JSON.
    pub(crate) key: &'static str,
    /// The column's head in a table, with the unit.
    pub(crate) head: &'static str,
    pub(crate) better: Better,
}

#[derive(Clone, Debug)]
pub(crate) struct Sheet {
    pub(crate) scenario: &'static str,
    pub(crate) title: String,
    /// The load in a few words, for a plot.
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
    /// Why the contender has no figures, or none after a run that failed.
    pub(crate) left_out: Option<String>,
    /// Steps that are not durable when they are answered.
    pub(crate) not_durable: Vec<String>,
}

impl Row {
    pub(crate) fn new(contender: Contender) -> Self {
        Self { contender, runs: Vec::new(), left_out: None, not_durable: Vec::new() }
    }

    pub(crate) fn spread(&self, column: usize) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(|run| run.get(column).copied()))
    }

    fn competes(&self) -> bool {
        self.contender != Contender::Bare && self.left_out.is_none() && !self.runs.is_empty()
    }
}

impl Sheet {
    /// Who is best by the first column, or who ties. If one of these does less than others, also who is best of the
    /// contenders whose every step is durable.
    pub(crate) fn verdict(&self) -> Option<String> {
        let all = self.leaders(|row| row.competes());
        let durable = self.leaders(|row| row.competes() && row.not_durable.is_empty());
        let does_less = all.iter().any(|row| !row.not_durable.is_empty());
        let verdict = told("First", &all)?;
        match told("First of those that make every step durable", &durable) {
            Some(durable) if does_less => Some(format!("{verdict} {durable}")),
            Some(_) | None => Some(verdict),
        }
    }

    /// The best of some rows by the first column, with those that tie.
    fn leaders(&self, among: impl Fn(&Row) -> bool) -> Vec<&Row> {
        let better = self.columns[0].better;
        let competing = self.rows.iter().filter(|row| row.competes()).count();
        if competing < 2 || better == Better::Neither {
            return Vec::new();
        }
        let rows: Vec<&Row> = self.rows.iter().filter(|row| among(row)).collect();
        let medians: Vec<f64> = rows.iter().filter_map(|row| Some(row.spread(0)?.median)).collect();
        leaders(&medians, better).into_iter().map(|index| rows[index]).collect()
    }
}

fn told(rank: &str, leaders: &[&Row]) -> Option<String> {
    let names: Vec<&str> = leaders.iter().map(|row| row.contender.name()).collect();
    match names.as_slice() {
        [] => None,
        [only] => Some(format!("{rank}: {only}.")),
        several => Some(format!("{rank}, a tie (within 5 %): {}.", several.join(", "))),
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
        assert_eq!(sheet(rows).verdict().unwrap(), "First, a tie (within 5 %): windlass, redis.");
    }

    #[test]
    fn a_first_that_does_less_is_told_with_the_first_that_does_not() {
        let mut rabbit = row(Contender::Rabbitmq, &[900.0]);
        rabbit.not_durable = vec!["lease".into()];
        let rows = vec![rabbit, row(Contender::Redis, &[98.0]), row(Contender::Windlass, &[200.0])];
        let verdict = "First: rabbitmq. First of those that make every step durable: windlass.";
        assert_eq!(sheet(rows).verdict().unwrap(), verdict);
    }

    #[test]
    fn a_contender_that_was_left_out_cannot_be_first() {
        let mut refused = row(Contender::Nats, &[900.0]);
        refused.left_out = Some("does not sync".into());
        let rows = vec![refused, row(Contender::Redis, &[98.0])];
        assert_eq!(sheet(rows).verdict(), None);
    }
}
