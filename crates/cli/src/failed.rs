//! Items of a batch that were judged and refused.

use windlass_api::error::{Details, Failed};
use windlass_api::storage::FailedItem;

use crate::exit::Exit;
use crate::human::excerpt;
use crate::output::Output;

/// One of them, for people.
pub(crate) trait Line {
    fn line(&self) -> String;
}

/// Says which they are and why, and how the program ends with them.
pub(crate) fn told(failed: &[impl Line], out: Output) -> Exit {
    if failed.is_empty() {
        return Exit::Done;
    }
    if !out.json() {
        failed.iter().for_each(|failed| out.talk(&excerpt(&failed.line(), usize::MAX)));
    }
    Exit::Refused
}

impl Line for Failed {
    fn line(&self) -> String {
        // No verb of the program makes a call with several lists, whose `verb` would tell one of them.
        let Self { id, permit, code, message, details, verb: _ } = self;
        format!("{id}:{permit}: {message} ({code}{})", reason(details.as_ref()))
    }
}

impl Line for FailedItem {
    fn line(&self) -> String {
        let Self { id, code, message, details } = self;
        format!("{id}: {message} ({code}{})", reason(details.as_ref()))
    }
}

fn reason(details: Option<&Details>) -> String {
    let reason = details.and_then(|details| details.reason.as_deref());
    reason.map(|reason| format!(", {reason}")).unwrap_or_default()
}
