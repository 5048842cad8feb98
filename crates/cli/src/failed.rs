//! Items of a batch that were judged and refused.

use std::collections::BTreeMap;

use windlass_api::error::{Details, Failed};
use windlass_api::storage::FailedItem;

use crate::exit::Exit;
use crate::human::{count, counted, excerpt};
use crate::output::Output;

/// So many items with the same reason have a line each; more than that share one.
const LINES_MAX: usize = 3;

/// One of them, for people.
pub(crate) trait Refused {
    /// Id, with the permit if there is one.
    fn name(&self) -> String;
    /// Message and code.
    fn why(&self) -> String;
}

/// Says which they are and why, and how the program ends with them.
pub(crate) fn told(failed: &[impl Refused], out: Output) -> Exit {
    if failed.is_empty() {
        return Exit::Done;
    }
    if !out.json() {
        lines(failed).iter().for_each(|line| out.talk(&excerpt(line, usize::MAX)));
    }
    Exit::Refused
}

/// One group per reason, in order of first occurrence.
fn lines(failed: &[impl Refused]) -> Vec<String> {
    let (mut order, mut by_reason) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
    for refused in failed {
        let why = refused.why();
        let names = by_reason.entry(why.clone()).or_default();
        if names.is_empty() {
            order.push(why);
        }
        names.push(refused.name());
    }
    order.iter().flat_map(|why| lines_of(why, &by_reason[why])).collect()
}

fn lines_of(why: &str, names: &[String]) -> Vec<String> {
    if names.len() <= LINES_MAX {
        return names.iter().map(|name| format!("{name}: {why}")).collect();
    }
    let first = names[..LINES_MAX].join(", ");
    let more = count((names.len() - LINES_MAX) as u64);
    vec![format!("{}: {why}: {first} and {more} more", counted(names.len() as u64, "item"))]
}

impl Refused for Failed {
    fn name(&self) -> String {
        format!("{}:{}", self.id, self.permit)
    }

    fn why(&self) -> String {
        // No verb of the program makes a call with several lists, whose `verb` would tell one of them.
        let Self { id: _, permit: _, code, message, details, verb: _ } = self;
        format!("{message} ({code}{})", reason(details.as_ref()))
    }
}

impl Refused for FailedItem {
    fn name(&self) -> String {
        self.id.clone()
    }

    fn why(&self) -> String {
        let Self { id: _, code, message, details } = self;
        format!("{message} ({code}{})", reason(details.as_ref()))
    }
}

fn reason(details: Option<&Details>) -> String {
    let reason = details.and_then(|details| details.reason.as_deref());
    reason.map(|reason| format!(", {reason}")).unwrap_or_default()
}
