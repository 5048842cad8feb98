//! The filters of `items.find` as flags.

use clap::{Args, ValueEnum};
use windlass_api::Time;
use windlass_api::items::{ItemFilter, Kinds, States};

use crate::exit::Failure;
use crate::headers::headers;
use crate::values::{Since, header};

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Filters: all that are given must hold")]
pub(super) struct Filter {
    /// Only these states, separated by commas
    #[arg(long = "state", value_name = "STATE,…", value_delimiter = ',')]
    states: Option<Vec<State>>,
    /// Only these kinds, separated by commas
    #[arg(long = "kind", value_name = "KIND,…", value_delimiter = ',')]
    kinds: Option<Vec<String>>,
    /// Only members of this group
    #[arg(long)]
    group: Option<String>,
    /// Only items that have, or had, this address
    #[arg(long)]
    address: Option<String>,
    /// Only items of this reference
    #[arg(long, value_name = "TEXT")]
    reference: Option<String>,
    /// Only items with this header; can be given several times, once for each name
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Only items that this client leased last
    #[arg(long, value_name = "NAME")]
    client_id: Option<String>,
    /// Only items whose error has this code
    #[arg(long, value_name = "CODE")]
    error_code: Option<String>,
    /// Only items that this cron made
    #[arg(long)]
    cron: Option<String>,
    /// Only items produced at this time or later (a TIME, or a duration back from now, like 2h)
    #[arg(long, value_name = "TIME")]
    created_after: Option<Since>,
    /// Only items produced before this time (a TIME, or a duration back from now, like 2h)
    #[arg(long, value_name = "TIME")]
    created_before: Option<Since>,
    /// Only items whose state last became another at this time or later (a TIME, or a duration back from now, like 2h)
    #[arg(long, value_name = "TIME")]
    changed_after: Option<Since>,
    /// Only items whose state last became another before this time (a TIME, or a duration back from now, like 2h)
    #[arg(long, value_name = "TIME")]
    changed_before: Option<Since>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Held,
    Scheduled,
    Waiting,
    Leased,
    Suspended,
    Completed,
    Failed,
    Cancelled,
    Expired,
}

impl State {
    const fn is_for_all_queues(self) -> bool {
        match self {
            Self::Suspended | Self::Failed | Self::Expired => true,
            Self::Held
            | Self::Scheduled
            | Self::Waiting
            | Self::Leased
            | Self::Completed
            | Self::Cancelled => false,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Scheduled => "scheduled",
            Self::Waiting => "waiting",
            Self::Leased => "leased",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

impl Filter {
    /// Whether all queues can be searched with it: the server looks there only for items that need somebody.
    pub(super) fn is_for_all_queues(&self) -> bool {
        self.states.as_ref().is_some_and(|states| states.iter().all(|state| state.is_for_all_queues()))
    }

    /// Durations are counted back from `now` once, so that all pages have the same filter.
    pub(super) fn at(self, now: Time) -> Result<ItemFilter, Failure> {
        let names = |states: Vec<State>| states.into_iter().map(|state| state.name().to_owned()).collect();
        let moment = |since: Option<Since>| since.map(|since| since.from(now));
        Ok(ItemFilter {
            states: self.states.map(|states| States { states: names(states) }),
            kinds: self.kinds.map(|kinds| Kinds { kinds }),
            group: self.group,
            address: self.address,
            reference: self.reference,
            headers: headers(self.headers)?,
            client_id: self.client_id,
            error_code: self.error_code,
            cron: self.cron,
            created_after: moment(self.created_after),
            created_before: moment(self.created_before),
            changed_after: moment(self.changed_after),
            changed_before: moment(self.changed_before),
        })
    }
}
