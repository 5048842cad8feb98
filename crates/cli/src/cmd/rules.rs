//! `windlass rules`: what stands on queues and kinds.

use clap::Args;
use windlass_api::Time;
use windlass_api::rules::{ListRulesRequest, Rule};

use crate::exit::{Exit, Failure};
use crate::human::relative;
use crate::output::Output;
use crate::remote::{Remote, failed};
use crate::table::Align::Left;
use crate::table::Table;

/// List what is paused and blocked
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass rules
  windlass rules mail
  windlass rules --json | jq -r '.rules[] | select(.rule == \"block\") | .queue'")]
pub(crate) struct Rules {
    /// Only those of this queue
    queue: Option<String>,
}

impl Rules {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let request = ListRulesRequest { queue: self.queue };
        let listed = remote.client().call(&request).await;
        let reply = listed.map_err(|error| failed(&request, error))?;
        if reply.rules.is_empty() {
            out.talk("nothing is paused or blocked");
        }
        out.reply(&reply, |now| shown(&reply.rules, now))?;
        Ok(Exit::Done)
    }
}

pub(crate) fn shown(rules: &[Rule], now: Time) -> String {
    if rules.is_empty() {
        return String::new();
    }
    let columns = ["RULE", "QUEUE", "KIND", "SINCE", "UNTIL", "REASON"].map(|name| (name, Left));
    let mut table = Table::new(&columns);
    for rule in rules {
        table.row([
            rule.rule.clone(),
            rule.queue.clone(),
            rule.kind.clone().unwrap_or_else(|| "(all)".into()),
            relative(rule.created_at, now),
            rule.until.map_or_else(|| "it is lifted".into(), |until| relative(until, now)),
            rule.reason.clone().unwrap_or_else(|| "-".into()),
        ]);
    }
    table.show()
}
