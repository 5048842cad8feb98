//! Medians, spreads, quantiles and ties.

use serde::Serialize;

/// Medians closer than this are told as a tie.
pub(crate) const TIE: f64 = 0.05;

/// The median of some runs, and how far they lie apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of some values; none of an empty list.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            (values[middle - 1] + values[middle]) / 2.0
        } else {
            values[middle]
        };
        Some(Self { median, min, max })
    }
}

/// Whether more or less of a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
    /// A fact that ranks nobody.
    Neither,
}

/// The best of some medians and everything that ties with it, by index, the best first.
pub(crate) fn leaders(medians: &[f64], better: Better) -> Vec<usize> {
    let mut order: Vec<usize> = (0..medians.len()).collect();
    order.sort_by(|a, b| match better {
        Better::Higher => medians[*b].total_cmp(&medians[*a]),
        Better::Lower => medians[*a].total_cmp(&medians[*b]),
        Better::Neither => std::cmp::Ordering::Equal,
    });
    let Some(best) = order.first().map(|best| medians[*best]) else { return order };
    order.retain(|index| ties(medians[*index], best));
    order
}

fn ties(one: f64, other: f64) -> bool {
    (one - other).abs() <= TIE * one.abs().max(other.abs())
}

/// The value that the share `quantile` of `sorted` does not exceed (nearest rank).
pub(crate) fn quantile(sorted: &[f64], quantile: f64) -> Option<f64> {
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_odd_number_is_its_middle_and_of_an_even_one_between_two() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]), Some(Spread { median: 2.0, min: 1.0, max: 3.0 }));
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn one_outlier_does_not_move_the_median() {
        assert_eq!(Spread::of([10.0, 11.0, 12.0, 13.0, 9000.0]).unwrap().median, 12.0);
    }

    #[test]
    fn within_five_per_cent_is_a_tie() {
        assert_eq!(leaders(&[100.0, 95.0, 94.9], Better::Higher), [0, 1]);
        assert_eq!(leaders(&[100.0, 106.0], Better::Higher), [1]);
        assert_eq!(leaders(&[100.0, 105.0, 50.0], Better::Lower), [2]);
        assert_eq!(leaders(&[1.0, 1.05], Better::Lower), [0, 1]);
        assert_eq!(leaders(&[], Better::Higher), [] as [usize; 0]);
    }

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&hundred, 0.5), Some(50.0));
        assert_eq!(quantile(&hundred, 0.99), Some(99.0));
        assert_eq!(quantile(&hundred, 1.0), Some(100.0));
        assert_eq!(quantile(&[7.0], 0.99), Some(7.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
