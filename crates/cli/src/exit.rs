//! How the program ends: a number for scripts, and a sentence for people.

use std::fmt;
use std::process::ExitCode;

use windlass_api::Code;
use windlass_api::error::{Details, Error, NOT_APPLIED, UNKNOWN};

use crate::human::excerpt;

/// Numbers are part of the interface: never give one another meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Refused,
    Usage,
    Unreachable,
    Unknown,
    Damaged,
    Interrupted,
}

impl Exit {
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Unknown => 4,
            Self::Damaged => 5,
            Self::Interrupted => 130,
        }
    }
}

/// Shown by `--help`, and in the reference.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    refused by the server, or by this machine; or some items of a batch failed, the item did not complete (--exit-status), the
       wait ran out, or you said no
  2    wrong usage or configuration
  3    the server cannot be reached or cannot serve now: nothing was done
  4    the outcome is unknown: it may have been done, or the item ended and is not kept (--exit-status)
  5    damaged data
  130  interrupted";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.number().into()
    }
}

/// Why a command did not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) why: Why,
}

#[derive(Debug)]
pub(crate) enum Why {
    /// In our own words: what was wrong, and what to do.
    Own(Box<Error>),
    /// In the server's.
    Server(Box<Error>),
    /// Nobody reads what is printed any more: nothing is wrong, and there is nobody to tell.
    NobodyListens,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        let code = code_of(exit).as_str().to_owned();
        let error = Error { code, message: message.into(), details: outcome_of(exit) };
        Self { exit, why: Why::Own(Box::new(error)) }
    }

    /// The same in other words.
    pub(crate) fn retold(self, message: String) -> Self {
        match self.why {
            Why::Own(error) | Why::Server(error) => {
                Self { why: Why::Own(Box::new(Error { message, ..*error })), ..self }
            }
            Why::NobodyListens => self,
        }
    }

    /// The same, with what to do.
    pub(crate) fn with_advice(mut self, advice: &str) -> Self {
        match &mut self.why {
            Why::Own(error) | Why::Server(error) => error.message = format!("{}; {advice}", error.message),
            Why::NobodyListens => {}
        }
        self
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Something of this machine, not of the server: a file, a process.
    pub(crate) fn local(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, message)
    }

    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self::new(Exit::Interrupted, message)
    }

    pub(crate) fn nobody_listens() -> Self {
        Self { exit: Exit::Done, why: Why::NobodyListens }
    }

    /// As the API would say it, for `--json`.
    pub(crate) fn as_error(&self) -> Option<Error> {
        match &self.why {
            Why::Own(error) | Why::Server(error) => Some(Error::clone(error)),
            Why::NobodyListens => None,
        }
    }
}

fn code_of(exit: Exit) -> Code {
    match exit {
        Exit::Usage => Code::InvalidArgument,
        Exit::Unreachable | Exit::Unknown | Exit::Interrupted => Code::Unavailable,
        Exit::Done | Exit::Refused | Exit::Damaged => Code::Internal,
    }
}

fn outcome_of(exit: Exit) -> Option<Details> {
    let outcome = match exit {
        Exit::Unreachable => NOT_APPLIED,
        Exit::Unknown => UNKNOWN,
        Exit::Done | Exit::Refused | Exit::Usage | Exit::Damaged | Exit::Interrupted => return None,
    };
    Some(Details { outcome: Some(outcome.to_owned()), ..Details::default() })
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.why {
            Why::Own(error) => f.write_str(&error.message),
            // On one line: a server must not write lines that look like this program's.
            Why::Server(error) => {
                let said = format!("{} ({})", error.message, error.code);
                f.write_str(&excerpt(&said, usize::MAX))
            }
            Why::NobodyListens => Ok(()),
        }
    }
}
