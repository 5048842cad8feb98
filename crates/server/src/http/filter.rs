//! The filters of items.find and items.change.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use windlass_api::items::ItemFilter;
use windlass_core::headers::{REFERENCE, header_hash};
use windlass_core::item::Phase;
use windlass_core::limits::{self, Invalid};
use windlass_core::partition::{Between, Find};
use windlass_engine::Verify;

use super::error::Problem;
use super::record::Record;
use super::{check, show};

const PHASES: [Phase; 9] = [
    Phase::Held,
    Phase::Scheduled,
    Phase::Waiting,
    Phase::Leased,
    Phase::Suspended,
    Phase::Completed,
    Phase::Failed,
    Phase::Cancelled,
    Phase::Expired,
];

/// Filters as the engine takes them.
pub(super) struct Filters {
    pub(super) find: Find,
    pub(super) verify: Option<Verify>,
}

/// `within`: the fields of the filter are named after it.
pub(super) fn filters(within: &str, filter: ItemFilter) -> Result<Filters, Problem> {
    let in_field = |invalid| Problem::invalid_in(within, invalid);
    let label = |field: &'static str, text: String| -> Result<Arc<str>, Problem> {
        limits::check_client_id(&text).map_err(|Invalid { rule, .. }| in_field(Invalid { field, rule }))?;
        Ok(text.into())
    };
    let kind = |kind: String| -> Result<Arc<str>, Problem> {
        limits::check_kind(&kind).map_err(|Invalid { rule, .. }| {
            Problem::invalid(format!("each of `{within}kinds` must be {rule}"))
        })?;
        Ok(kind.into())
    };
    let cron = |cron: String| -> Result<Arc<str>, Problem> {
        limits::check_name("cron", &cron).map_err(in_field)?;
        Ok(cron.into())
    };
    let ItemFilter { states, kinds, group, address, reference, headers, client_id, error_code, .. } = filter;
    if let Some(reference) = &reference {
        check_reference(within, reference)?;
    }
    check::headers(within, headers.iter())?;
    // In the index, the reference has the name that a header might have, too.
    let indexable = headers.iter().filter(|(name, _)| *name != REFERENCE);
    let hashed = |(name, value): (&str, &str)| (Arc::from(name), header_hash(name, value));
    let of_headers = indexable.map(|(name, value)| (name.as_str(), value.as_str()));
    let asked = of_headers.chain(reference.as_deref().map(|reference| (REFERENCE, reference)));
    let find = Find {
        phases: states.map(|list| phases(within, &list.states)).transpose()?,
        kinds: kinds.map(|list| list.kinds.into_iter().map(kind).collect()).transpose()?,
        group: group.map(|group| check::group(within, group)).transpose()?,
        address: address.map(|address| check::address(within, address)).transpose()?,
        client_id: client_id.map(|client| label("client_id", client)).transpose()?,
        error_code: error_code.map(|code| label("error_code", code)).transpose()?,
        cron: filter.cron.map(cron).transpose()?,
        created: between(filter.created_after, filter.created_before),
        changed: between(filter.changed_after, filter.changed_before),
        moved: None,
        headers: asked.map(hashed).collect(),
        by_record: headers.contains_key(REFERENCE),
    };
    let asks_record = reference.is_some() || !headers.is_empty();
    let has_it = move |facts: &Bytes| {
        let record = Record::from_stored(facts.clone());
        let has_header = |(name, value)| record.headers.get(name) == Some(value);
        (reference.is_none() || record.reference == reference) && headers.iter().all(has_header)
    };
    Ok(Filters { find, verify: asks_record.then(|| Verify(Arc::new(has_it))) })
}

fn check_reference(within: impl fmt::Display, reference: &str) -> Result<(), Problem> {
    check::reference(&within, reference)?;
    let empty = || Problem::invalid(format!("`{within}reference` must not be empty: leave it out"));
    if reference.is_empty() { Err(empty()) } else { Ok(()) }
}

fn between(after: Option<windlass_api::Time>, before: Option<windlass_api::Time>) -> Between {
    Between { from: after.map(check::moment), until: before.map(check::moment) }
}

fn phases(within: &str, states: &[String]) -> Result<BTreeSet<Phase>, Problem> {
    let phase = |state: &String| PHASES.into_iter().find(|phase| show::state(*phase) == *state);
    let unknown = |state: &String| {
        let words: Vec<String> = PHASES.iter().map(|phase| format!("`{}`", show::state(*phase))).collect();
        Problem::invalid(format!("`{within}states` has `{state}`: each must be one of {}", words.join(", ")))
    };
    states.iter().map(|state| phase(state).ok_or_else(|| unknown(state))).collect()
}

/// The filter in a form that is the same for filters that mean the same.
pub(super) fn canonical(mut filter: ItemFilter) -> ItemFilter {
    let lists = [
        filter.states.as_mut().map(|list| &mut list.states),
        filter.kinds.as_mut().map(|list| &mut list.kinds),
    ];
    for list in lists.into_iter().flatten() {
        list.sort_unstable();
        list.dedup();
    }
    filter
}
