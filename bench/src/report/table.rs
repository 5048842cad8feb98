//! A [`Sheet`] as a table that is readable as text and as Markdown.

use super::number::shown;
use super::sheet::{Row, Sheet};
use crate::stats::Spread;

pub(crate) fn table(sheet: &Sheet) -> String {
    let mut cells = vec![head(sheet)];
    cells.extend(sheet.rows.iter().filter(|row| !row.runs.is_empty()).map(|row| line(sheet, row)));
    let mut text = format!("## {}\n\n", sheet.title);
    if cells.len() > 1 {
        text.push_str(&format!("{}\n", aligned(&cells)));
    }
    let notes: Vec<String> =
        sheet.verdict().into_iter().chain(sheet.rows.iter().filter_map(left_out)).collect();
    if !notes.is_empty() {
        text.push_str(&format!("{}\n\n", notes.join("\n")));
    }
    text
}

fn head(sheet: &Sheet) -> Vec<String> {
    let columns = sheet.columns.iter().map(|column| column.head.to_owned());
    let not_durable = tells_durability(sheet).then(|| "not durable".to_owned());
    std::iter::once(String::new()).chain(columns).chain(not_durable).collect()
}

fn line(sheet: &Sheet, row: &Row) -> Vec<String> {
    let cell = |column| row.spread(column).map_or_else(|| "—".to_owned(), spread);
    let not_durable = tells_durability(sheet).then(|| row.not_durable.join(", "));
    let name = row.contender.name().to_owned();
    std::iter::once(name).chain((0..sheet.columns.len()).map(cell)).chain(not_durable).collect()
}

/// Whether some row needs the column of steps that are not durable.
fn tells_durability(sheet: &Sheet) -> bool {
    sheet.rows.iter().any(|row| !row.not_durable.is_empty() && !row.runs.is_empty())
}

/// The median, and in brackets the least and the most of several runs.
fn spread(spread: Spread) -> String {
    match spread {
        Spread { median, .. } if median.is_nan() => "—".into(),
        Spread { median, min, max } if min == max => shown(median),
        Spread { median, min, max } => format!("{} ({}–{})", shown(median), shown(min), shown(max)),
    }
}

fn left_out(row: &Row) -> Option<String> {
    let reason = row.left_out.as_ref()?;
    Some(format!("Left out: {}: {reason}", row.contender.name()))
}

/// Lines of a Markdown table, the first one being its head; all columns but the first to the right.
pub(crate) fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width =
        |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let rule = |column: usize| {
        if column == 0 { "-".repeat(widths[0]) } else { "-".repeat(widths[column] - 1) + ":" }
    };
    let rules: Vec<String> = (0..columns).map(rule).collect();
    let mut text = String::new();
    for line in lines.iter().take(1).chain([&rules]).chain(lines.iter().skip(1)) {
        for (column, cell) in line.iter().enumerate() {
            let padding = " ".repeat(widths[column] - cell.chars().count());
            let padded = if column == 0 { format!("{cell}{padding}") } else { format!("{padding}{cell}") };
            text.push_str(&format!("| {padded} "));
        }
        text.push_str("|\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::Contender;
    use crate::report::sheet::tests::{row, sheet};

    #[test]
    fn a_table_shows_medians_spreads_who_is_first_and_what_is_not_durable() {
        let mut rabbit = row(Contender::Rabbitmq, &[500.0]);
        rabbit.not_durable = vec!["lease".into(), "complete".into()];
        let mut nats = Row::new(Contender::Nats);
        nats.left_out = Some("12 of 50 produces were synced".into());
        let table = table(&sheet(vec![row(Contender::Windlass, &[1000.0, 3000.0, 2000.0]), rabbit, nats]));
        assert_eq!(
            table,
            "\
## Full cycles

|          |             items/s |  CPU |     not durable |
| -------- | ------------------: | ---: | --------------: |
| windlass | 2,000 (1,000–3,000) | 1.50 |                 |
| rabbitmq |                 500 | 1.50 | lease, complete |

First: windlass.
Left out: nats: 12 of 50 produces were synced

"
        );
    }

    #[test]
    fn a_sheet_without_figures_has_no_table() {
        let mut only = Row::new(Contender::Redis);
        only.left_out = Some("it is not installed".into());
        assert_eq!(table(&sheet(vec![only])), "## Full cycles\n\nLeft out: redis: it is not installed\n\n");
    }
}
