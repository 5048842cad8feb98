//! All figures of all runs, as JSON.

use std::time::SystemTime;

use serde_json::{Value, json};
use windlass_api::Time;

use super::sheet::{Row, Sheet};
use crate::args::Args;
use crate::peers::Contender;

pub(crate) fn document(args: &Args, sheets: &[Sheet]) -> Value {
    json!({
        "at": Time::from(SystemTime::now()),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "runs": args.runs(),
        "seconds": args.time().as_secs_f64(),
        "sheets": sheets.iter().map(sheet).collect::<Vec<_>>(),
    })
}

fn sheet(sheet: &Sheet) -> Value {
    json!({
        "scenario": sheet.scenario,
        "title": sheet.title,
        "load": sheet.label,
        "verdict": sheet.verdict(),
        "contenders": sheet.rows.iter().map(|row| contender(sheet, row)).collect::<Vec<_>>(),
    })
}

fn contender(sheet: &Sheet, row: &Row) -> Value {
    let column = |(index, key): (usize, &str)| {
        let runs: Vec<f64> = row.runs.iter().map(|run| run[index]).collect();
        let Some(spread) = row.spread(index) else { return (key.to_owned(), Value::Null) };
        let figures = json!({"median": spread.median, "min": spread.min, "max": spread.max, "runs": runs});
        (key.to_owned(), figures)
    };
    let keys = sheet.columns.iter().map(|column| column.key).enumerate();
    let figures: serde_json::Map<String, Value> = keys.map(column).collect();
    json!({
        "contender": row.contender.name(),
        "is_floor": row.contender == Contender::Bare,
        "not_durable": row.not_durable,
        "left_out": row.left_out,
        "figures": figures,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::report::sheet::tests::{row, sheet};

    #[test]
    fn a_document_has_every_run_of_every_contender() {
        let args = Args::try_parse_from(["compare", "--runs", "3"]).unwrap();
        let mut nats = Row::new(Contender::Nats);
        nats.left_out = Some("it is not installed".into());
        let sheets = [sheet(vec![row(Contender::Windlass, &[10.0, 30.0, 20.0]), nats])];
        let document = document(&args, &sheets);
        let contenders = &document["sheets"][0]["contenders"];
        let rate = json!({"median": 20.0, "min": 10.0, "max": 30.0, "runs": [10.0, 30.0, 20.0]});
        assert_eq!(contenders[0]["figures"]["items_per_second"], rate);
        assert_eq!(contenders[1]["left_out"], "it is not installed");
        assert_eq!(contenders[1]["figures"]["items_per_second"], Value::Null);
        assert_eq!(document["runs"], 3);
    }
}
