//! `windlass reference`: the page about the command line, written from the command line itself.

use clap::builder::StyledStr;
use clap::{Arg, Command, CommandFactory};

use crate::args::Cli;
use crate::exit::{EXIT_CODES, Exit, Failure};
use crate::output::Output;

/// No command like the others: it is for those who write the pages, and shows up nowhere else.
pub(crate) fn is_asked() -> bool {
    std::env::args_os().skip(1).eq(["reference"])
}

pub(crate) fn run(out: Output) -> Result<Exit, Failure> {
    out.raw(&page())?;
    Ok(Exit::Done)
}

fn page() -> String {
    let mut command = Cli::command();
    command.build();
    let mut page = String::from(
        "# The command line\n\n\
         <!-- Written by `windlass reference`. Do not edit: run the tests of crates/cli with UPDATE_DOCS=1. -->\n\n",
    );
    page.push_str(&text(command.get_about()));
    page.push_str(".\n\nData goes to stdout and talk to stderr.\n\n\
         Words of a server are made safe for a terminal: control characters, and characters that turn the direction of reading, \
         are shown by their numbers, as `\\u{1b}`. In JSON they are written as `\\u001b`, which means the same, and each document \
         is one line. `windlass storage export` and `windlass inspect --export` write bytes for another program: what they write is \
         escaped only if stdout is a terminal. What a command of `windlass work` prints is passed on as it is.\n\n## Flags of every command\n\n");
    page.push_str(&arguments(command.get_arguments().filter(|argument| argument.is_global_set())));
    page.push_str(&format!(
        "\n## Exit codes\n\n```text\n{}\n```\n",
        outdent(EXIT_CODES.trim_start_matches("Exit codes:\n"))
    ));
    command.get_subcommands().for_each(|command| page.push_str(&section("windlass", command, 2)));
    page
}

fn section(parent: &str, command: &Command, level: usize) -> String {
    if command.is_hide_set() || command.get_name() == "help" {
        return String::new();
    }
    let name = format!("{parent} {}", command.get_name());
    let mut section = format!("\n{} {name}\n\n{}.\n", "#".repeat(level), text(command.get_about()));
    if !command.has_subcommands() {
        let usage = command.clone().render_usage().to_string();
        section.push_str(&format!("\n```text\n{}\n```\n\n", usage.trim_start_matches("Usage: ")));
        section.push_str(&arguments(command.get_arguments().filter(|argument| !argument.is_global_set())));
    }
    section.push_str(&paragraphs(&text(command.get_after_help())));
    command.get_subcommands().for_each(|command| section.push_str(&self::section(&name, command, level + 1)));
    section
}

/// Examples and lists keep their lines.
fn paragraphs(text: &str) -> String {
    let paragraphs = text.split("\n\n").filter(|paragraph| !paragraph.is_empty());
    let shown = paragraphs.map(|paragraph| match paragraph.split_once(":\n") {
        Some((heading, lines)) => format!("\n{heading}:\n\n```sh\n{}\n```\n", outdent(lines)),
        None if paragraph.starts_with(' ') => format!("\n```text\n{}\n```\n", outdent(paragraph)),
        None => format!("\n{paragraph}\n"),
    });
    shown.collect()
}

fn outdent(lines: &str) -> String {
    lines.lines().map(str::trim_start).collect::<Vec<_>>().join("\n")
}

fn arguments<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let shown = arguments.filter(|argument| !argument.is_hide_set() && argument.get_id() != "help");
    shown.map(|argument| format!("- `{}`: {}\n", form(argument), meaning(argument))).collect()
}

/// `--wait <DURATION>`, `<QUEUE>`.
fn form(argument: &Arg) -> String {
    let takes_value = argument.get_action().takes_values();
    let names = argument.get_value_names().unwrap_or_default();
    let value = names.iter().map(|name| format!("<{name}>")).collect::<Vec<_>>().join(" ");
    match argument.get_long() {
        Some(long) if takes_value && argument.is_require_equals_set() => format!("--{long}[={value}]"),
        Some(long) if takes_value => format!("--{long} {value}"),
        Some(long) => format!("--{long}"),
        None => value,
    }
}

fn meaning(argument: &Arg) -> String {
    let mut meaning = text(argument.get_long_help().or(argument.get_help())).replace("\n\n", " ");
    if meaning.is_empty() {
        meaning = format!("The {}", argument.get_id());
    }
    let choices = argument.get_possible_values();
    if !choices.is_empty() && argument.get_action().takes_values() {
        let choices: Vec<String> = choices.iter().map(|choice| format!("`{}`", choice.get_name())).collect();
        meaning.push_str(&format!(": {}", choices.join(", ")));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        meaning.push_str(&format!(" [default: {}]", defaults.join(" ")));
    }
    meaning
}

fn text(text: Option<&StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}
