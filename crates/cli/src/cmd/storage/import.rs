//! Items from a file or stdin, as they were elsewhere.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use windlass_api::items::ProduceError;
use windlass_api::storage::{ImportItem, ImportItemsReply, ImportItemsRequest};

use super::exported::{self, Exported, SORTS};
use crate::exit::{Exit, Failure};
use crate::feed::{Feed, Input, Limits, PassedOver, Stream, json, one_payload};
use crate::output::Output;
use crate::remote::Remote;

/// The most items of one request.
const BATCH: usize = 1000;

/// Bring in items as `storage export` or `inspect --export` prints them
#[derive(Debug, Args)]
#[command(after_help = "\
Items get new ids and stand behind what is there, in the order of the lines; in a queue of several partitions, within \
each. Kinds, priorities, attempts, times, errors and origins are kept, and leased items come in as waiting.

Of what `inspect --export` prints, queues, groups, events and items that have ended are passed over; the end of the import \
says how many of each. A member of a group comes in if the queue has a group of that name: create the group first.

An item that the server refuses by itself is told with its line, and the others come in. At any other trouble nothing \
more is sent, and it is told which lines came in and which did not. With --json it prints how many were `imported`, the \
ranges of lines that were `not_imported` or of which that is `unknown`, `sent_to_line`, after which nothing was sent, \
and how many lines of which sort were `passed_over`.

Examples:
  windlass storage import mail mail.ndjson
  gunzip < mail.ndjson.gz | windlass storage import mail
  windlass inspect ./old-data --export --partition 7 | windlass storage import mail")]
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
            feed: Stored { queue: self.queue, passed_over: Arc::default() },
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
    /// How many lines of each sort in [`exported::SORTS`].
    passed_over: Arc<[AtomicU64; SORTS.len()]>,
}

impl Feed for Stored {
    type Item = ImportItem;
    type Request = ImportItemsRequest;

    const DONE: &'static str = "imported";
    const GOES_ON: bool = true;

    fn parse(&self, line: &[u8]) -> Result<Option<ImportItem>, String> {
        let item = match json::<ImportItem>(line) {
            Ok(item) => item,
            Err(why) => match exported::parse(line).unwrap_or(Err(why))? {
                Exported::Item(item) => *item,
                Exported::Other(sort) => {
                    self.passed_over[sort].fetch_add(1, Ordering::Relaxed);
                    return Ok(None);
                }
            },
        };
        let payloads = [item.json.is_some(), item.utf8.is_some(), item.bytes.is_some()];
        // An item that was exported without its payload, which was lost, is refused by the server alone.
        if payloads.contains(&true) {
            one_payload(payloads)?;
        }
        Ok(Some(item))
    }

    fn passed_over(&self) -> Vec<PassedOver> {
        let counts = self.passed_over.iter().map(|lines| lines.load(Ordering::Relaxed));
        let sorts = SORTS.into_iter().zip(counts).filter(|(_, lines)| *lines > 0);
        sorts.map(|(what, lines)| PassedOver { what, lines }).collect()
    }

    fn request(&self, items: Vec<ImportItem>) -> ImportItemsRequest {
        ImportItemsRequest { queue: self.queue.clone(), items }
    }

    fn refusals(reply: ImportItemsReply) -> Vec<Option<ProduceError>> {
        reply.items.into_iter().map(|item| item.error).collect()
    }
}
