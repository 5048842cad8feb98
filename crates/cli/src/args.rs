//! The command line: what can be said to this program.

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::cmd;
use crate::exit::EXIT_CODES;

/// A durable work queue: the server, its client, and the tools for both.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, max_term_width = 100, after_help = EXIT_CODES)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// The server to talk to [WINDLASS_URL, or http://127.0.0.1:9463]
    #[arg(long, global = true)]
    url: Option<String>,
    /// Print one JSON document, in the shape of the API's own reply
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// What to speak with the server [json]
    #[arg(long, global = true, value_enum)]
    pub(crate) encoding: Option<Encoding>,
}

impl Global {
    /// From the environment by hand: to clap, a variable that is set is a flag that was given, and so it would show in
    /// every message about wrong usage.
    pub(crate) fn url(&self) -> Option<String> {
        let variable = || std::env::var("WINDLASS_URL").ok().filter(|url| !url.is_empty());
        self.url.clone().or_else(variable)
    }

    pub(crate) fn encoding(&self) -> Encoding {
        self.encoding.unwrap_or(Encoding::Json)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(cmd::serve::Serve),
    Queue(cmd::queue::Queue),
    Produce(cmd::produce::Produce),
    Lease(cmd::lease::Lease),
    Complete(cmd::complete::Complete),
    Retry(cmd::retry::Retry),
    Extend(cmd::extend::Extend),
    Release(cmd::release::Release),
    Item(cmd::item::ItemCommand),
    Items(cmd::items::Items),
    Group(cmd::group::GroupCommand),
    Rules(cmd::rules::Rules),
    Top(cmd::top::Top),
    Cron(cmd::cron::CronCommand),
    Storage(cmd::storage::Storage),
    Work(cmd::work::Work),
    Bench(cmd::bench::Bench),
    Inspect(cmd::inspect::Inspect),
    Server(cmd::server::ServerCommand),
    Backup(cmd::backup::Backup),
    Config(cmd::config::ShowConfig),
    Completions(cmd::completions::Completions),
}
