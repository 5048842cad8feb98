//! Items from a file or stdin, as they were elsewhere.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::Args;
use windlass_api::items::ProduceError;
use windlass_api::storage::{ImportItem, ImportItemsReply, ImportItemsRequest};

use crate::exit::{Exit, Failure};
use crate::feed::{Feed, Input, Limits, Stream, json, one_payload};
use crate::output::Output;
use crate::remote::Remote;

/// The most items of one request.
const BATCH: usize = 1000;

/// Bring in items as `storage export` prints them
#[derive(Debug, Args)]
#[command(after_help = "\
Items get new ids and stand behind what is there, in the order of the lines; in a queue of several partitions, within \
each. Kinds, priorities, attempts, times, errors and origins are kept, and leased items come in as waiting.

An item that the server refuses by itself is told with its line, and the others come in. At any other trouble nothing \
more is sent, and it is told which lines came in and which did not. With --json it prints how many were `imported`, the \
ranges of lines that were `not_imported` or of which that is `unknown`, and `sent_to_line`, after which nothing was sent.

Examples:
  windlass storage import mail mail.ndjson
  gunzip < mail.ndjson.gz | windlass storage import mail")]
pub(super) struct Import {
    queue: String,
    /// The file; stdin without one, or with `-`
    file: Option<PathBuf>,
}

impl Import {
    pub(super) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        let input = match &self.file {
            Some(path) if path.as_os_str() != "-" => Input::file(path)?,
            None if io::stdin().is_terminal() => {
                return Err(Failure::usage(
                    "give a FILE, or items on stdin: see `windlass storage import --help`",
                ));
            }
            Some(_) | None => Input::stdin(),
        };
        let stream = Stream {
            client: remote.patient().clone(),
            feed: Stored { queue: self.queue },
            limits: Limits::of_items(BATCH),
            // One after the other, so that the lines keep their order.
            in_flight: 1,
        };
        stream.run(input, out).await
    }
}

#[derive(Clone, Debug)]
struct Stored {
    queue: String,
}

impl Feed for Stored {
    type Item = ImportItem;
    type Request = ImportItemsRequest;

    const DONE: &'static str = "imported";
    const GOES_ON: bool = true;

    fn parse(&self, line: &[u8]) -> Result<ImportItem, String> {
        let item: ImportItem = json(line)?;
        let payloads = [item.json.is_some(), item.utf8.is_some(), item.bytes.is_some()];
        // An item that was exported without its payload, which was lost, is refused by the server alone.
        if payloads.contains(&true) {
            one_payload(payloads)?;
        }
        Ok(item)
    }

    fn request(&self, items: Vec<ImportItem>) -> ImportItemsRequest {
        ImportItemsRequest { queue: self.queue.clone(), items }
    }

    fn refusals(reply: ImportItemsReply) -> Vec<Option<ProduceError>> {
        reply.items.into_iter().map(|item| item.error).collect()
    }
}
