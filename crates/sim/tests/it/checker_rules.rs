//! Bad histories of rules on kinds, and good ones that come close.

use std::sync::Arc;

use windlass_core::item::Phase;
use windlass_core::rule::Stop;
use windlass_core::time::Timestamp;
use windlass_core::verbs::Filter;
use windlass_sim::history::{Given, Made, Op, Outcome, Verdict, Why};

use crate::story::{Story, given, id, made, story};

fn stop(kind: &str, until: Option<Timestamp>) -> Op {
    Op::Stop { queue: 0, kind: Some(kind.into()), stop: Stop::Block, until }
}

fn go(kind: Option<&str>, stop: Stop) -> Op {
    Op::Go { queue: 0, kind: kind.map(Arc::from), stop }
}

/// An item of the kind `mail`, produced.
fn with_mail() -> Story {
    let mut story = story();
    story.produce(&[1]);
    story
}

/// The item is leased and completed.
fn verdict_of_lease(mut story: Story) -> Option<&'static str> {
    story.lease(vec![given(1, 11, 1)]).complete(1, 11, Verdict::Done);
    story.verdict()
}

#[test]
fn an_item_leased_while_its_kind_is_stopped_is_caught() {
    for (kind, rule) in [("mail", Some("stopped")), ("index", None)] {
        let mut story = with_mail();
        story.call(stop(kind, None), Outcome::Ruled);
        assert_eq!(verdict_of_lease(story), rule, "{kind}");
    }
}

#[test]
fn a_rule_on_a_kind_is_lifted_by_its_own_lift_alone() {
    for (lift, rule) in [
        (go(Some("mail"), Stop::Block), None),
        (go(Some("mail"), Stop::Pause), Some("stopped")),
        (go(Some("index"), Stop::Block), Some("stopped")),
        (go(None, Stop::Block), Some("stopped")),
    ] {
        let mut story = with_mail();
        let text = format!("{lift:?}");
        story.call(stop("mail", None), Outcome::Ruled).call(lift, Outcome::Ruled);
        assert_eq!(verdict_of_lease(story), rule, "{text}");
    }
}

#[test]
fn a_rule_on_a_kind_that_is_not_sure_holds_nothing_back() {
    let unsure = [
        (stop("mail", None), Outcome::Unknown(Why::Abandoned)),
        (stop("mail", Some(Timestamp(1))), Outcome::Ruled),
    ];
    for (op, outcome) in unsure {
        let mut story = with_mail();
        story.call(op, outcome);
        assert_eq!(verdict_of_lease(story), None);
    }
}

#[test]
fn an_item_is_passed_over_only_while_its_kind_may_be_stopped() {
    for (stops, rule) in [(true, None), (false, Some("order"))] {
        let mut story = story();
        let index = Made { kind: "index".into(), ..made(2) };
        let produced = Outcome::Produced(vec![(id(1), Phase::Waiting), (id(2), Phase::Waiting)]);
        story.produce_as(vec![made(1), index], produced);
        if stops {
            story.call(stop("mail", None), Outcome::Ruled);
        }
        let second = Given { kind: "index".into(), ..given(2, 11, 1) };
        story.lease_as(vec![second], 1, Filter::ANY).complete(2, 11, Verdict::Done);
        story.call(go(Some("mail"), Stop::Block), Outcome::Ruled);
        story.lease(vec![given(1, 12, 1)]).complete(1, 12, Verdict::Done);
        assert_eq!(story.verdict(), rule);
    }
}
