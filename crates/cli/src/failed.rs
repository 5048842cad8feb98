//! Items of a batch that were judged and refused.

use windlass_api::error::Failed;

use crate::exit::Exit;
use crate::output::Output;

/// Says which they are and why, and how the program ends with them.
pub(crate) fn told(failed: &[Failed], out: Output) -> Exit {
    if failed.is_empty() {
        return Exit::Done;
    }
    if !out.json() {
        failed.iter().for_each(|failed| out.talk(&line(failed)));
    }
    Exit::Refused
}

fn line(failed: &Failed) -> String {
    let Failed { id, permit, code, message, details } = failed;
    let reason = details.as_ref().and_then(|details| details.reason.as_deref());
    let reason = reason.map(|reason| format!(", {reason}")).unwrap_or_default();
    format!("{id}:{permit}: {message} ({code}{reason})")
}
