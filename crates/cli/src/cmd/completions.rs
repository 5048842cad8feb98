//! `windlass completions`: what a shell needs to complete command lines.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Print what a shell needs to complete command lines
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass completions bash > /etc/bash_completion.d/windlass
  windlass completions zsh > ~/.zfunc/_windlass
  windlass completions fish > ~/.config/fish/completions/windlass.fish")]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, out: Output) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "windlass", &mut script);
        out.raw(&String::from_utf8_lossy(&script))?;
        Ok(Exit::Done)
    }
}
