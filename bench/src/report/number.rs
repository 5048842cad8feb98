//! Numbers for people.

/// Three digits that mean something, none after the point of a whole number, and commas in large numbers.
pub(crate) fn shown(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 || size.fract() == 0.0 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    grouped(&format!("{value:.digits$}"))
}

pub(crate) fn whole(value: usize) -> String {
    grouped(&value.to_string())
}

/// A count with its noun, whose plural is regular.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {thing}{plural}", whole(count))
}

/// Commas between each three digits before the point.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.split_once('.').map_or((number, String::new()), |(w, r)| (w, format!(".{r}")));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_that_mean_something() {
        let shown: Vec<String> =
            [1_234_567.8, 100.0, 99.96, 12.345, 1.234, 0.1234, 0.0, 50.0].map(shown).into();
        assert_eq!(
            (counted(1, "client"), counted(1000, "client")),
            ("1 client".into(), "1,000 clients".into())
        );
        assert_eq!(shown, ["1,234,568", "100", "100", "12.3", "1.23", "0.123", "0", "50"]);
    }
}
