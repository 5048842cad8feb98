//! [`Chunks`]: bodies that come in chunks, each with its length before it.

use bytes::Bytes;

/// Bytes beside the data of one body: lengths, what is said about chunks, trailers. All of it is thrown away.
const OVERHEAD_BYTES_MAX: usize = 16 * 1024;
/// Behind the last chunk of a reply.
pub(in crate::listener) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The line before a chunk of a reply. Behind the chunk comes a line end.
pub(in crate::listener) fn chunk_start(into: &mut Vec<u8>, bytes: usize) {
    into.extend_from_slice(format!("{bytes:x}\r\n").as_bytes());
}

/// What came is no chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::listener) struct Broken;

/// Where the reading of a chunked body has come to.
#[derive(Debug)]
pub(in crate::listener) struct Chunks {
    state: State,
    overhead: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In the digits of a length. `any` tells whether one was there.
    Length {
        value: u64,
        any: bool,
    },
    /// Behind the digits, in spaces.
    Padding {
        length: u64,
    },
    /// Behind a semicolon, up to the end of the line.
    Extension {
        length: u64,
    },
    /// Before the line feed behind a length.
    LengthEnd {
        length: u64,
    },
    /// In a chunk of which so much is missing.
    Data {
        left: u64,
    },
    /// Before the carriage return behind a chunk.
    DataReturn,
    DataEnd,
    /// At the start of a line behind the last chunk. An empty one ends the body.
    Line,
    Trailer,
    TrailerEnd,
    /// Before the line feed that ends the body.
    LastEnd,
    Over,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { state: State::Length { value: 0, any: false }, overhead: 0 }
    }
}

impl Chunks {
    pub(in crate::listener) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Takes the data of all chunks from `unread`, up to the end of the body or of `unread`. `None` if there is none. The data of
    /// several chunks is joined: a client that sends small ones costs no more than one that sends large ones.
    pub(in crate::listener) fn take(&mut self, unread: &mut Bytes) -> Result<Option<Bytes>, Broken> {
        let Some(first) = self.next(unread)? else { return Ok(None) };
        let Some(second) = self.next(unread)? else { return Ok(Some(first)) };
        let mut joined = Vec::with_capacity(first.len() + second.len() + unread.len());
        joined.extend_from_slice(&first);
        joined.extend_from_slice(&second);
        while let Some(more) = self.next(unread)? {
            joined.extend_from_slice(&more);
        }
        Ok(Some(joined.into()))
    }

    /// Takes from `unread` what belongs to the body, up to the end of the next data. `None` if the body is over or all of `unread`
    /// is taken.
    fn next(&mut self, unread: &mut Bytes) -> Result<Option<Bytes>, Broken> {
        while !unread.is_empty() && !self.is_over() {
            if let State::Data { left } = self.state {
                let here = usize::try_from(left).map_or(unread.len(), |left| left.min(unread.len()));
                let left = left - here as u64;
                self.state = if left == 0 { State::DataReturn } else { State::Data { left } };
                return Ok(Some(unread.split_to(here)));
            }
            self.overhead += 1;
            if self.overhead > OVERHEAD_BYTES_MAX {
                return Err(Broken);
            }
            self.state = self.state.after(unread[0]).ok_or(Broken)?;
            // `advance` would keep the buffer when nothing is left of it.
            drop(unread.split_to(1));
            if matches!(self.state, State::Data { .. }) {
                // A line of usual length costs a body of many chunks nothing.
                self.overhead = self.overhead.saturating_sub(USUAL_LINE_BYTES);
            }
        }
        Ok(None)
    }
}

/// The most digits a length can have, and two line ends.
const USUAL_LINE_BYTES: usize = 20;

impl State {
    fn after(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Length { value, .. }, byte) if byte.is_ascii_hexdigit() => {
                let digit = u64::from(char::from(byte).to_digit(16)?);
                Some(Self::Length { value: value.checked_mul(16)?.checked_add(digit)?, any: true })
            }
            (Self::Length { value, any: true }, b'\r') => Some(Self::LengthEnd { length: value }),
            (Self::Length { value, any: true }, b' ' | b'\t') => Some(Self::Padding { length: value }),
            (Self::Length { value, any: true }, b';') => Some(Self::Extension { length: value }),
            (Self::Padding { length }, b'\r') => Some(Self::LengthEnd { length }),
            (Self::Padding { length }, b' ' | b'\t') => Some(Self::Padding { length }),
            (Self::Padding { length }, b';') => Some(Self::Extension { length }),
            (Self::Extension { length }, b'\r') => Some(Self::LengthEnd { length }),
            (Self::Extension { length }, byte) if byte != b'\n' => Some(Self::Extension { length }),
            (Self::LengthEnd { length: 0 }, b'\n') => Some(Self::Line),
            (Self::LengthEnd { length }, b'\n') => Some(Self::Data { left: length }),
            (Self::DataReturn, b'\r') => Some(Self::DataEnd),
            (Self::DataEnd, b'\n') => Some(Self::Length { value: 0, any: false }),
            (Self::Line, b'\r') => Some(Self::LastEnd),
            (Self::Trailer, b'\r') => Some(Self::TrailerEnd),
            (Self::Line | Self::Trailer, byte) if byte != b'\n' => Some(Self::Trailer),
            (Self::TrailerEnd, b'\n') => Some(Self::Line),
            (Self::LastEnd, b'\n') => Some(Self::Over),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The data of a body that comes in pieces, what is left behind its end, and whether it was over.
    fn read(pieces: &[&[u8]]) -> Result<(Vec<u8>, Vec<u8>, bool), Broken> {
        let (mut chunks, mut data, mut rest) = (Chunks::default(), Vec::new(), Vec::new());
        for piece in pieces {
            let mut unread = Bytes::copy_from_slice(piece);
            if let Some(more) = chunks.take(&mut unread)? {
                data.extend_from_slice(&more);
            }
            rest.extend_from_slice(&unread);
        }
        Ok((data, rest, chunks.is_over()))
    }

    #[test]
    fn chunks_are_read_to_their_end_and_no_further() {
        let text = b"4\r\nwind\r\n3;a=b\r\nlas\r\n01 \r\ns\r\n0\r\nT: railer\r\n\r\nGET";
        assert_eq!(read(&[text]), Ok((b"windlass".to_vec(), b"GET".to_vec(), true)));
    }

    #[test]
    fn small_chunks_that_came_together_are_taken_together() {
        let mut unread = Bytes::from("1\r\nx\r\n".repeat(1000));
        let data = Chunks::default().take(&mut unread);
        assert_eq!(data.map(|data| data.map_or(0, |data| data.len())), Ok(1000));
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        for bad in [
            "\r\n",
            "5 0\r\n",
            "5\t;\n",
            "x\r\n",
            "-1\r\n",
            "4\nwind",
            "4\r\nwindl",
            "4;\n",
            "ffffffffffffffff0\r\n",
            "0\r\n\n",
            "0\r\nT\n",
        ] {
            assert_eq!(read(&[bad.as_bytes()]), Err(Broken), "{bad:?}");
        }
    }

    #[test]
    fn what_is_said_beside_the_data_has_a_limit() {
        let extension = format!("1;{}", "x".repeat(OVERHEAD_BYTES_MAX));
        let trailer = format!("0\r\n{}", "T: x\r\n".repeat(OVERHEAD_BYTES_MAX));
        let extensions = "1;234567890123456789012345\r\nx\r\n".repeat(OVERHEAD_BYTES_MAX);
        for much in [extension, trailer, extensions] {
            assert_eq!(read(&[much.as_bytes()]), Err(Broken));
        }
        let many = "1\r\nx\r\n".repeat(OVERHEAD_BYTES_MAX);
        assert_eq!(read(&[many.as_bytes()]).map(|(data, ..)| data.len()), Ok(OVERHEAD_BYTES_MAX));
    }

    proptest! {
        #[test]
        fn a_body_reads_the_same_however_it_was_cut(
            data in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6),
            cut in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut text = Vec::new();
            for chunk in &data {
                chunk_start(&mut text, chunk.len());
                text.extend_from_slice(chunk);
                text.extend_from_slice(b"\r\n");
            }
            text.extend_from_slice(LAST_CHUNK);
            let mut at: Vec<usize> = cut.iter().map(|index| index.index(text.len())).collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|ends| &text[ends[0]..ends[1]]).collect();
            prop_assert_eq!(read(&pieces), Ok((data.concat(), Vec::new(), true)));
            prop_assert_eq!(read(&[&text[..text.len() - 1]]).map(|(_, _, over)| over), Ok(false));
        }
    }
}
