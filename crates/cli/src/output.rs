//! The only place that prints: data to stdout, talk to stderr.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, SystemTime};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use windlass_api::Time;
use windlass_api::error::ErrorReply;

use crate::exit::Failure;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether a program reads it.
    pub(crate) fn json(self) -> bool {
        self.json
    }

    /// One JSON document, or what is shown to people.
    pub(crate) fn reply(
        self,
        reply: &impl Serialize,
        shown: impl FnOnce(Time) -> String,
    ) -> Result<(), Failure> {
        if self.json {
            let mut document =
                serde_json::to_string(reply).expect("what the API has types for can be written");
            document.push('\n');
            self.data(&document)
        } else {
            self.data(&shown(now()))
        }
    }

    /// To stdout as it is.
    pub(crate) fn data(self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        written.map_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                return Failure::nobody_listens();
            }
            Failure::local(format!("cannot write to stdout: {error}"))
        })
    }

    /// A line to stderr.
    pub(crate) fn talk(self, text: &str) {
        self.pass(format!("{text}\n").as_bytes());
    }

    /// Somebody else's words, to stderr as they are.
    pub(crate) fn pass(self, words: &[u8]) {
        let _nobody_listens = io::stderr().lock().write_all(words);
    }

    pub(crate) fn failure(self, failure: &Failure) {
        let Some(error) = failure.as_error() else { return };
        if self.json {
            let document = serde_json::to_string(&ErrorReply { error });
            self.talk(&document.expect("what the API has types for can be written"));
        } else {
            self.talk(&format!("error: {failure}"));
        }
    }

    /// A bar if it is known how many bytes there are, and figures that run if not. Nothing unless stderr is a terminal.
    pub(crate) fn progress(self, bytes: Option<u64>) -> ProgressBar {
        if self.json || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let (bar, template) = match bytes {
            Some(bytes) => (ProgressBar::new(bytes), "{bar:30} {percent}%  {msg}  {eta} left"),
            None => (ProgressBar::new_spinner(), "{spinner} {msg}"),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr());
        bar.with_style(ProgressStyle::with_template(template).expect("the template is well formed"))
    }

    /// What is waited for, and for how long already. Nothing unless stderr is a terminal.
    pub(crate) fn waiting(self, what: &'static str) -> ProgressBar {
        let spinner = self.progress(None).with_message(what);
        spinner.enable_steady_tick(Duration::from_millis(200));
        spinner.with_style(
            ProgressStyle::with_template("{spinner} {msg}, {elapsed} so far")
                .expect("the template is well formed"),
        )
    }
}

pub(crate) fn now() -> Time {
    SystemTime::now().into()
}
