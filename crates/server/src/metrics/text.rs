//! The text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write as _};

use windlass_engine::Histogram;

use super::names::{Kind, Metric};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const INFALLIBLE: &str = "a string takes all that memory does";

#[derive(Debug, Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    /// All samples of a metric follow its head, before the next one is begun.
    pub(super) fn begin(&mut self, metric: &'static Metric) -> Family<'_> {
        let Metric { name, kind, help, .. } = metric;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}\n").expect(INFALLIBLE);
        Family { metric, text: &mut self.text }
    }

    pub(super) fn single(&mut self, metric: &'static Metric, value: impl Display) {
        self.begin(metric).sample(&[], value);
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }
}

#[derive(Debug)]
pub(super) struct Family<'a> {
    metric: &'static Metric,
    text: &'a mut String,
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: &[&str], value: impl Display) {
        debug_assert_ne!(self.metric.kind, Kind::Histogram, "a histogram has more than one number");
        self.line("", labels, None, value);
    }

    /// `unit`: what its numbers are divided by to be shown.
    pub(super) fn histogram(&mut self, labels: &[&str], histogram: &Histogram, unit: f64) {
        debug_assert_eq!(self.metric.kind, Kind::Histogram, "only a histogram has buckets");
        let ends = histogram.bounds.iter().map(|bound| (*bound as f64 / unit).to_string());
        let mut up_to_here = 0;
        for (end, count) in ends.chain(["+Inf".to_owned()]).zip(&histogram.buckets) {
            up_to_here += count;
            self.line("_bucket", labels, Some(&end), up_to_here);
        }
        self.line("_sum", labels, None, histogram.sum as f64 / unit);
        // Not the count it came with: that may be an observation ahead of the buckets, and then rates look odd.
        self.line("_count", labels, None, up_to_here);
    }

    fn line(&mut self, suffix: &str, labels: &[&str], end: Option<&str>, value: impl Display) {
        debug_assert_eq!(labels.len(), self.metric.labels.len(), "one value for each label");
        let named = self.metric.labels.iter().copied().zip(labels.iter().copied());
        let pairs: Vec<String> = named
            .chain(end.map(|end| ("le", end)))
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
        writeln!(self.text, "{}{suffix}{labels} {value}", self.metric.name).expect(INFALLIBLE);
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
