//! Where the view is drawn: in place on a terminal, one after the other elsewhere.

use std::io::{IsTerminal, stdout};

use crate::exit::Failure;
use crate::output::Output;
use crate::safe;

/// The other screen of the terminal, and no cursor on it.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l";
const END: &str = "\x1b[?25h\x1b[?1049l";
/// To the first line.
const HOME: &str = "\x1b[H";
/// What is left of a line, and of the screen, from an earlier picture.
const REST_OF_LINE: &str = "\x1b[K\n";
const REST_OF_SCREEN: &str = "\x1b[J";

const ROWS_DEFAULT: usize = 24;

#[derive(Debug)]
pub(super) enum Screen {
    /// Restored when it is dropped.
    Terminal {
        out: Output,
        begun: bool,
    },
    Plain {
        shown: bool,
    },
}

impl Screen {
    pub(super) fn of(out: Output) -> Self {
        if stdout().is_terminal() && !out.json() {
            Self::Terminal { out, begun: false }
        } else {
            Self::plain()
        }
    }

    pub(super) fn plain() -> Self {
        Self::Plain { shown: false }
    }

    pub(super) fn is_live(&self) -> bool {
        matches!(self, Self::Terminal { .. })
    }

    /// How many lines fit, if that matters.
    pub(super) fn rows(&self) -> Option<usize> {
        let size = || rustix::termios::tcgetwinsize(stdout()).map_or(0, |size| usize::from(size.ws_row));
        self.is_live().then(size).map(|rows| if rows == 0 { ROWS_DEFAULT } else { rows })
    }

    pub(super) fn show(&mut self, out: Output, text: &str) -> Result<(), Failure> {
        match self {
            Self::Terminal { begun, .. } => {
                let begin = if std::mem::replace(begun, true) { "" } else { BEGIN };
                let lines = safe::text(text.trim_end()).replace('\n', REST_OF_LINE);
                out.raw(&format!("{begin}{HOME}{lines}{REST_OF_SCREEN}"))
            }
            Self::Plain { shown } => {
                let gap = if std::mem::replace(shown, true) && !out.json() { "\n" } else { "" };
                out.show(&format!("{gap}{text}"))
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Self::Terminal { out, begun: true } = self {
            let _nobody_looks = out.raw(END);
        }
    }
}
