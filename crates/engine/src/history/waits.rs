//! How long items waited, by classes of about the same length: four of them for each doubling.

use windlass_core::time::Span;

use super::Waited;

/// A class of whole milliseconds, rounded up. Those below 8 ms have a class each; from then on a class is no longer than a
/// quarter of its shortest wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Class(u8);

impl Class {
    /// Seven weeks and more are one wait.
    fn of(span: Span) -> Self {
        let millis = u32::try_from(span.as_micros().div_ceil(1000)).unwrap_or(u32::MAX);
        if millis < 4 {
            return Self(millis as u8);
        }
        let doublings = millis.ilog2();
        let quarter = (millis >> (doublings - 2)) & 3;
        Self((4 * (doublings - 1) + quarter) as u8)
    }

    fn longest(self) -> Span {
        let class = u64::from(self.0);
        if class < 4 {
            return Span::from_millis(class);
        }
        let (doublings, quarter) = (class / 4 + 1, class % 4);
        Span::from_millis(((5 + quarter) << (doublings - 2)) - 1)
    }
}

/// How many items waited how long.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// In the order of classes, of which there are at most 124. No count is 0.
    counts: Vec<(Class, u32)>,
}

impl Waits {
    pub(super) fn add(&mut self, span: Span) {
        let class = Class::of(span);
        match self.counts.binary_search_by_key(&class, |(class, _)| *class) {
            Ok(index) => self.counts[index].1 = self.counts[index].1.saturating_add(1),
            Err(index) => self.counts.insert(index, (class, 1)),
        }
    }

    /// Unset if there are none.
    pub(super) fn waited(&self) -> Option<Waited> {
        Some(Waited { p50: self.percentile(50)?, p99: self.percentile(99)? })
    }

    /// The longest wait of the class that holds the first one which so many of 100 do not exceed.
    fn percentile(&self, percent: u64) -> Option<Span> {
        let count: u64 = self.counts.iter().map(|(_, count)| u64::from(*count)).sum();
        let rank = (count * percent).div_ceil(100);
        let mut seen = 0;
        let class = self.counts.iter().find(|(_, count)| {
            seen += u64::from(*count);
            seen >= rank
        });
        class.map(|(class, _)| class.longest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(millis: impl IntoIterator<Item = u64>) -> Waits {
        let mut waits = Waits::default();
        millis.into_iter().for_each(|millis| waits.add(Span::from_millis(millis)));
        waits
    }

    #[test]
    fn a_class_is_never_shorter_than_its_wait_nor_longer_by_a_quarter_and_a_millisecond() {
        let powers = (0..52).flat_map(|power| [(1_u64 << power) - 1, 1 << power, (1 << power) + 1]);
        for micros in powers.chain(0..70_000).filter(|micros| *micros <= u64::from(u32::MAX) * 1000) {
            let longest = Class::of(Span(micros)).longest().as_micros();
            assert!(longest >= micros && longest - micros < micros / 4 + 1000, "{micros}: {longest}");
        }
    }

    #[test]
    fn classes_keep_the_order_of_waits_and_are_few() {
        let classes: Vec<Class> = (0..32).map(|power| Class::of(Span::from_millis(1 << power))).collect();
        assert!(classes.is_sorted());
        assert_eq!(Class::of(Span(u64::MAX)), Class(123));
    }

    #[test]
    fn half_and_99_of_100_wait_no_longer_than_told() {
        let told = |waits: &Waits| waits.waited().map(|waited| [waited.p50, waited.p99]);
        assert_eq!(told(&waits([])), None);
        assert_eq!(told(&waits([0])), Some([Span::ZERO; 2]));
        assert_eq!(told(&waits([3, 1])), Some([1, 3].map(Span::from_millis)));
        let mostly_short = (0..99).map(|_| 2).chain([7]);
        assert_eq!(told(&waits(mostly_short)), Some([2, 2].map(Span::from_millis)));
        let long = waits((0..98).map(|_| 5).chain([1000, 1000]));
        assert_eq!(told(&long), Some([5, 1023].map(Span::from_millis)));
    }
}
