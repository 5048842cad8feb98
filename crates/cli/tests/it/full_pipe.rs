//! A pipe that holds all it can, and that nobody reads.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Writers wait for ever: the reading end is open, and is never read.
#[derive(Debug)]
pub(crate) struct FullPipe {
    writer: PipeWriter,
    _unread: PipeReader,
}

impl FullPipe {
    pub(crate) fn new() -> Self {
        let (unread, mut writer) = io::pipe().expect("a pipe");
        let flags = fcntl_getfl(&writer).expect("flags");
        fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("flags are set");
        fill(&mut writer);
        // The flags belong to all copies of the writing end: the program must find a pipe that blocks, as from a shell.
        fcntl_setfl(&writer, flags).expect("flags are set");
        Self { writer, _unread: unread }
    }

    /// For the stdout or stderr of a program.
    pub(crate) fn stdio(&self) -> Stdio {
        self.writer.try_clone().expect("a copy of the writing end").into()
    }
}

/// Writes pages, and then single bytes into what is left of the last page.
fn fill(writer: &mut PipeWriter) {
    for bytes in [&[b'x'; 4096][..], b"x"] {
        let refused = loop {
            if let Err(error) = writer.write(bytes) {
                break error;
            }
        };
        assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
    }
}
