//! [`Launch`]: how a server's process is started.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;

use super::Server;
use super::place::Place;
use super::user::User;

#[derive(Debug)]
pub(crate) struct Launch {
    program: PathBuf,
    command: Command,
    end_signal: Signal,
}

impl Launch {
    pub(crate) fn new(program: &Path) -> Self {
        Self::as_user(program, None)
    }

    /// Through `setpriv`, which has the kernel end the server if this process is killed.
    pub(crate) fn as_user(program: &Path, user: Option<User>) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]);
        if let Some(User { uid, gid }) = user {
            command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".into()]);
        }
        command.arg("--").arg(program);
        Self { program: program.to_owned(), command, end_signal: Signal::KILL }
    }

    pub(crate) fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn ended_by(mut self, signal: Signal) -> Self {
        self.end_signal = signal;
        self
    }

    /// Starts the server; what it prints goes to the log of its place.
    pub(crate) fn start(mut self, place: &Place) -> Result<Server> {
        let log = place.log();
        let output = File::options().create(true).append(true).open(&log)?;
        self.command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        self.command.current_dir(place.directory());
        let child = self.command.spawn().with_context(|| self.cannot_start())?;
        let name = self.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Server { name, child, others: Vec::new(), log, end_signal: self.end_signal })
    }

    /// Runs a program to its end.
    pub(crate) fn run(mut self, place: &Place) -> Result<()> {
        self.command.stdin(Stdio::null()).current_dir(place.directory());
        let output = self.command.output().with_context(|| self.cannot_start())?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} failed: {said}", self.program.display());
        Ok(())
    }

    fn cannot_start(&self) -> String {
        format!("cannot start {} with setpriv (of util-linux): is it installed?", self.program.display())
    }
}
