//! The bodies that a store holds after some changes, compared with what the rows say there is: none is missing, and none is left
//! behind.

use std::collections::BTreeSet;

use windlass_core::attempt;
use windlass_core::group::Template;
use windlass_core::id::ItemNumber;
use windlass_core::item::{Item, State};
use windlass_core::partition::Partition;
use windlass_core::row::{BodyCopy, Change, Key, Part, Row};

#[derive(Debug, Default)]
pub(crate) struct Bodies {
    kept: BTreeSet<(ItemNumber, Part)>,
    /// Numbers under which a body was put: tests may apply verbs that are not followed.
    known: BTreeSet<ItemNumber>,
}

impl Bodies {
    pub(crate) fn follow(&mut self, copies: &[BodyCopy], changes: &[Change]) {
        for copy in copies {
            assert!(
                self.kept.contains(&(copy.from, copy.part)) || puts(changes, copy),
                "{copy:?} copies nothing"
            );
            self.put(copy.to, copy.part);
        }
        for change in changes {
            match change {
                Change::PutBody { number, part, .. } => self.put(*number, *part),
                Change::RemoveBody { number, part } => {
                    self.kept.remove(&(*number, *part));
                }
                Change::Remove(Key::Item(number)) => {
                    self.kept.retain(|(of, part)| of != number || !Part::ALL.contains(part));
                }
                Change::Remove(_) | Change::Put(_) => {}
            }
        }
    }

    fn put(&mut self, number: ItemNumber, part: Part) {
        self.kept.insert((number, part));
        self.known.insert(number);
    }

    /// Events have rows of their own, and are not looked at; nor are payloads that are lost.
    pub(crate) fn check(&self, partition: &Partition) {
        let (mut expected, mut lost) = (BTreeSet::new(), BTreeSet::new());
        for row in partition.rows() {
            match row {
                Row::Item(item) => {
                    expected.extend(of_item(&item));
                    lost.extend(has_lost_payload(&item).then_some((item.number, Part::Payload)));
                }
                Row::Group(group) => {
                    group.templates().for_each(|template| expected.extend(of_template(template)))
                }
                Row::Cron(cron) => expected.extend(of_template(&cron.template)),
                _ => {}
            }
        }
        let is_looked_at =
            |body: &(ItemNumber, Part)| !matches!(body.1, Part::Events(_)) && !lost.contains(body);
        let kept: BTreeSet<_> = self.kept.iter().copied().filter(is_looked_at).collect();
        expected.retain(|body| self.known.contains(&body.0) && is_looked_at(body));
        assert_eq!(kept, expected);
    }
}

fn puts(changes: &[Change], copy: &BodyCopy) -> bool {
    changes.iter().any(|change| {
        matches!(change, Change::PutBody { number, part, .. } if (*number, *part) == (copy.from, copy.part))
    })
}

fn has_lost_payload(item: &Item) -> bool {
    item.extras.as_ref().is_some_and(|extras| extras.payload_lost)
}

fn of_item(item: &Item) -> Vec<(ItemNumber, Part)> {
    let extras = item.extras.as_deref();
    let (has_payload, has_result, is_final) = match &item.state {
        State::Final(outcome) => {
            (outcome.payload_kept || outcome.outgoing.is_some(), outcome.has_result, true)
        }
        State::Waiting { .. } | State::Scheduled { .. } | State::Leased(_) | State::Suspended(_) => {
            (true, false, false)
        }
    };
    let attempts = attempt::parts(extras.map_or(0, |extras| extras.attempts_logged));
    let parts = [
        has_payload.then_some(Part::Payload),
        has_result.then_some(Part::Result),
        extras.is_some_and(|extras| extras.facts_bytes > 0).then_some(Part::Facts),
        (!is_final && extras.is_some_and(|extras| extras.has_input)).then_some(Part::Input),
    ];
    parts.into_iter().flatten().chain(attempts).map(|part| (item.number, part)).collect()
}

fn of_template(template: &Template) -> impl Iterator<Item = (ItemNumber, Part)> {
    let facts = (template.facts_bytes > 0).then_some((template.body, Part::Facts));
    [(template.body, Part::Payload)].into_iter().chain(facts)
}
