//! The only place that prints: data to stdout, talk to stderr.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use windlass_api::Time;
use windlass_api::error::ErrorReply;

use crate::exit::Failure;
use crate::safe;

/// How long [`last_words`] waits for a reader of stderr.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);

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
        if self.json { self.document(reply) } else { self.show(&shown(now())) }
    }

    /// A JSON document on a line of its own, safe for a terminal.
    pub(crate) fn document(self, document: &impl Serialize) -> Result<(), Failure> {
        self.raw(&format!("{}\n", safe::json(&written(document)?)))
    }

    /// JSON documents, each on a line of its own: safe for a terminal, and otherwise as they are, because they are data for
    /// another program.
    pub(crate) fn export(self, lines: &str) -> Result<(), Failure> {
        if !io::stdout().is_terminal() {
            return self.raw(lines);
        }
        lines.lines().try_for_each(|line| self.raw(&format!("{}\n", safe::json(line))))
    }

    /// For people, safe for a terminal.
    pub(crate) fn show(self, text: &str) -> Result<(), Failure> {
        self.raw(&safe::text(text))
    }

    /// Words of this program, to stdout as they are. Words of a server go through [`Output::show`].
    pub(crate) fn raw(self, text: &str) -> Result<(), Failure> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        written.map_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                return Failure::nobody_listens();
            }
            Failure::local(format!("cannot write to stdout: {error}"))
        })
    }

    /// How many columns a line of stdout has, if people look at it on a terminal.
    pub(crate) fn columns(self) -> Option<usize> {
        if self.json || !io::stdout().is_terminal() {
            return None;
        }
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    }

    /// A line to stderr, safe for a terminal.
    pub(crate) fn talk(self, text: &str) {
        self.pass(format!("{}\n", safe::text(text)).as_bytes());
    }

    /// The words of a command that somebody runs here, to stderr as they are.
    pub(crate) fn pass(self, words: &[u8]) {
        let _nobody_listens = io::stderr().lock().write_all(words);
    }

    pub(crate) fn failure(self, failure: &Failure) {
        let Some(error) = failure.as_error() else { return };
        if self.json {
            let document = serde_json::to_string(&ErrorReply { error }).expect("texts can be written");
            self.talk(&safe::json(&document));
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

/// Has a thread run `say`, which writes to stderr, and waits for the thread up to a second: a full pipe that nobody reads must
/// not keep the process from ending with its status.
pub(crate) fn last_words(say: impl Fn() + Send + Sync + 'static) {
    let say = Arc::new(say);
    let (said, is_said) = mpsc::channel();
    let say_on_thread = Arc::clone(&say);
    let thread = thread::Builder::new().name("last words".to_owned()).spawn(move || {
        say_on_thread();
        let _ended = said.send(());
    });
    match thread {
        Ok(_) => drop(is_said.recv_timeout(LAST_WORDS_TIMEOUT)),
        // The words may be about just that: the system has no more threads.
        Err(_) => say(),
    }
}

/// As JSON, on one line. A reply that has no JSON came from something that is no server of Windlass.
pub(crate) fn written(document: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(document);
    let text =
        text.map_err(|error| Failure::local(format!("the answer cannot be written as JSON: {error}")))?;
    Ok(safe::one_line(&text).into_owned())
}

pub(crate) fn now() -> Time {
    SystemTime::now().into()
}
