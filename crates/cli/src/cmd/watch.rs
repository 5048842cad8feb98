//! `windlass item watch`, and `produce --watch`: an item's events as they come, until it ends.

use std::io::{self, IsTerminal};

use clap::Args;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use windlass_api::events::{EndFrame, EventFrame, SnapshotFrame};
use windlass_api::items::{GetItemRequest, ItemReply};
use windlass_api::{Code, Time};
use windlass_client::{ClientError, Events, Frame, PayloadExt};

use super::item::{ExitStatus, Follow, Name, payload_of};
use super::items::shown::error_of;
use crate::exit::{Exit, Failure};
use crate::human::{counted, excerpt};
use crate::output::Output;
use crate::payload;
use crate::remote::{self, Remote};

/// The type of events that tell how far it is, with a payload like `{"done": 3, "total": 10}`.
const PROGRESS: &str = "progress";

#[derive(Debug, Args)]
pub(crate) struct Watch {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    follow: Follow,
    #[command(flatten)]
    status: ExitStatus,
    /// Begin after this event instead of now; 0 shows all that are kept
    #[arg(long, value_name = "N")]
    after: Option<u64>,
}

impl Watch {
    pub(crate) async fn run(self, remote: &Remote, out: Output) -> Result<Exit, Failure> {
        // A server or an item that is not there is an error here; an item that was there is waited for.
        let (Name { id, queue, address }, Follow { follow }) = (self.name.checked()?, self.follow);
        // The numbers of events are those of one item: beside `after` the stream judges whether it may follow.
        let (follow, stream_follows) = (follow && self.after.is_none(), follow && self.after.is_some());
        let found = remote.patient().call(&GetItemRequest { id, queue, address, follow }).await;
        let item = found.map_err(remote::not_read)?.item;
        let events = remote.watching().events(&item.id);
        let events = if stream_follows { events.follow() } else { events };
        let events = if let Some(after) = self.after { events.after(after) } else { events };
        watch(Watched { id: item.id, queue: item.queue }, events, self.status, remote, out).await
    }
}

/// The item that is watched.
pub(crate) struct Watched {
    pub(crate) id: String,
    pub(crate) queue: String,
}

/// Until an item that was there a moment ago has ended. A connection that is lost is made again, for as long as that takes, and
/// nothing is missed.
pub(crate) async fn watch(
    item: Watched,
    mut events: Events,
    status: ExitStatus,
    remote: &Remote,
    out: Output,
) -> Result<Exit, Failure> {
    let Watched { id, queue } = item;
    let mut view = View { out, bar: None, lost: false };
    let (mut begun, mut last_state) = (false, None);
    while let Some(frame) = events.next().await {
        match frame {
            Ok(Frame::End(end)) => {
                last_state = Some(end.state.clone());
                view.show(Frame::End(end))?;
            }
            Ok(frame) => view.show(frame)?,
            Err(error) if error.may_pass() => view.lost(&error),
            // The item ended without a result, an error or events while there was no connection.
            Err(error) if error.code() == Some(Code::NotFound) => {
                view.close();
                let when = if begun { "has ended" } else { "ended before the watch began" };
                return forgotten(&format!("{id} {when}"), &queue, status, out);
            }
            Err(error) => return Err(remote::not_read(error)),
        }
        begun = true;
    }
    if last_state.is_some() {
        view.outcome(&id, remote).await?;
    }
    view.close();
    Ok(status.of(last_state.as_deref()))
}

/// The end of a watch whose item is not kept: nobody can tell its final state.
fn forgotten(ended: &str, queue: &str, status: ExitStatus, out: Output) -> Result<Exit, Failure> {
    let message = format!(
        "{ended}, and the queue keeps nothing of such items: set `windlass queue update {queue} --keep all` to have them kept"
    );
    let exit = status.of(None);
    if exit != Exit::Done {
        return Err(Failure::new(exit, message));
    }
    out.talk(&message);
    Ok(exit)
}

struct View {
    out: Output,
    /// From the first event that tells how far it is.
    bar: Option<ProgressBar>,
    /// Since the last frame.
    lost: bool,
}

impl View {
    fn show(&mut self, frame: Frame) -> Result<(), Failure> {
        self.lost = false;
        if self.out.json() {
            return self.out.document(&document(frame)?);
        }
        match frame {
            Frame::Snapshot { item, .. } => {
                let told = counted(item.event_count, "event");
                self.out.talk(&format!("{} is {}, {told} so far", item.id, item.state));
                Ok(())
            }
            Frame::Event(event) => self.event(&event),
            Frame::State(state) => {
                let reason = state.reason.map(|reason| format!(": {reason}")).unwrap_or_default();
                self.line(&line(Some(state.at), None, "state", &format!("{}{reason}", state.state)))
            }
            Frame::Gap(gap) => {
                let what = format!("events {} to {} are not kept any more", gap.from, gap.to);
                self.line(&line(None, None, "gap", &what))
            }
            // The `state` frame before it told the state.
            Frame::End(EndFrame { moved_to: None, .. }) => Ok(()),
            Frame::End(EndFrame { moved_to: Some(to), .. }) => {
                self.line(&line(None, None, "went on as", &format!("{}, {}", to.queue, to.id)))
            }
        }
    }

    /// Result and error of the item, or with `--json` the item.
    async fn outcome(&self, id: &str, remote: &Remote) -> Result<(), Failure> {
        let item = match remote.patient().item(id).await {
            Ok(item) => item,
            // An item without result, error or events may not be kept: `not_found` is no failure.
            Err(error) if error.code() == Some(Code::NotFound) => return Ok(()),
            Err(error) => {
                self.talk(&format!("the outcome cannot be read: {}", remote::described(&error)));
                return Ok(());
            }
        };
        if self.out.json() {
            return self.out.document(&ItemReply { item });
        }
        if let Some(result) = &item.result {
            self.line(&line(None, None, "result", &payload_of(result)))?;
        }
        match &item.error {
            Some(error) if item.state != "completed" => {
                self.line(&line(None, None, "error", &error_of(error)))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn event(&mut self, event: &EventFrame) -> Result<(), Failure> {
        if let Some(progress) = Progress::of(event) {
            let bar = self.bar.get_or_insert_with(|| self.out.progress(Some(progress.total)));
            bar.set_length(progress.total);
            bar.set_position(progress.done);
            // Where people see the bar; what is piped elsewhere is whole.
            if !bar.is_hidden() && io::stdout().is_terminal() {
                return Ok(());
            }
        }
        let payload = payload::shown(event.json.as_deref(), event.utf8.as_deref(), event.bytes.as_deref());
        self.line(&line(Some(event.at), Some(event.seq), &event.r#type, &payload))
    }

    /// Told once, however often it is tried.
    fn lost(&mut self, error: &ClientError) {
        if !std::mem::replace(&mut self.lost, true) {
            self.talk(&format!("trying again: {}", remote::described(error)));
        }
    }

    fn talk(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.out.talk(text)),
            None => self.out.talk(text),
        }
    }

    fn line(&self, line: &str) -> Result<(), Failure> {
        match &self.bar {
            Some(bar) => bar.suspend(|| self.out.show(line)),
            None => self.out.show(line),
        }
    }

    fn close(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// When, its number if it has one, what it is, and what it says.
fn line(at: Option<Time>, seq: Option<u64>, name: &str, what: &str) -> String {
    let at = at.map_or_else(|| "-".into(), |at| at.to_string());
    let seq = seq.map_or_else(|| "-".into(), |seq| seq.to_string());
    format!("{at}  {seq}  {}  {}\n", excerpt(name, usize::MAX), excerpt(what, usize::MAX))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct Progress {
    done: u64,
    total: u64,
}

impl Progress {
    fn of(event: &EventFrame) -> Option<Self> {
        if event.r#type == PROGRESS { event.parse().ok() } else { None }
    }
}

/// A frame as the server sends it, on one line.
#[derive(Serialize)]
struct Document {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    event: String,
    data: Box<RawValue>,
}

fn document(frame: Frame) -> Result<Document, Failure> {
    let (id, event, data) = match frame {
        Frame::Snapshot { item, last_seq } => {
            (Some(last_seq), "snapshot".into(), to_raw_value(&SnapshotFrame { item: *item }))
        }
        Frame::Event(event) => (Some(event.seq), event.r#type.clone(), to_raw_value(&event)),
        Frame::State(state) => (None, "state".into(), to_raw_value(&state)),
        Frame::Gap(gap) => (None, "gap".into(), to_raw_value(&gap)),
        Frame::End(end) => (None, "end".into(), to_raw_value(&end)),
    };
    let data = data.map_err(|error| Failure::local(format!("a frame cannot be written as JSON: {error}")))?;
    Ok(Document { id, event, data })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_that_tell_how_far_it_is_move_the_bar() {
        let event = |r#type: &str, json: &str| EventFrame {
            r#type: r#type.into(),
            json: Some(json.into()),
            ..EventFrame::default()
        };
        let far = event(PROGRESS, "{\"done\": 3, \"total\": 10, \"what\": \"pages\"}");
        assert_eq!(Progress::of(&far), Some(Progress { done: 3, total: 10 }));
        assert_eq!(Progress::of(&event("note", "{\"done\": 3, \"total\": 10}")), None);
        assert_eq!(Progress::of(&event(PROGRESS, "\"nearly there\"")), None);
    }
}
