//! Bits that flip in what is stored, as they do on old disks: nobody is told.

use super::Hardware;
use crate::fault::Fault;
use crate::rng::Rng;

/// Every frame of a segment has these bytes behind its checksum and its length.
const FRAME_MAGIC: &[u8] = b"WndL";
const MAGIC_AT: usize = 8;
const FRAME_HEADER_BYTES: usize = 80;
/// Frames begin at multiples of this.
const FRAME_ALIGNMENT: usize = 8;
/// The body of an item is its serial and then one letter, again and again: so many of them are surely of a body.
const BODY_RUN: usize = 6;

/// Where bits flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotTarget {
    /// The header of a frame, of the log as it is or one that was left there before.
    Header,
    /// What follows a frame's header: rows and bodies.
    Frame,
    Body,
    Snapshot,
    /// Any byte of any segment: most of them are dead space.
    Segment,
}

impl RotTarget {
    pub const ALL: [Self; 5] = [Self::Header, Self::Frame, Self::Body, Self::Snapshot, Self::Segment];

    fn is_in(self, file: &str) -> bool {
        match self {
            Self::Header | Self::Frame | Self::Body | Self::Segment => file.ends_with(".seg"),
            Self::Snapshot => file.ends_with(".snap"),
        }
    }

    /// A drawn byte of what is meant, if there is any.
    fn draw(self, bytes: &[u8], rng: &mut Rng) -> Option<usize> {
        match self {
            Self::Header => draw(frames(bytes), rng).map(|(frame, _)| frame + rng.index(FRAME_HEADER_BYTES)),
            Self::Frame => {
                let with_payload = frames(bytes).filter(|(_, length)| *length > FRAME_HEADER_BYTES);
                let (frame, length) = draw(with_payload, rng)?;
                Some(frame + FRAME_HEADER_BYTES + rng.index(length - FRAME_HEADER_BYTES))
            }
            Self::Body => {
                let is_body =
                    |run: &[u8]| run[0].is_ascii_lowercase() && run.iter().all(|byte| *byte == run[0]);
                let runs = bytes.windows(BODY_RUN).enumerate().filter(|(_, run)| is_body(run));
                draw(runs, rng).map(|(offset, _)| offset)
            }
            Self::Snapshot | Self::Segment => (!bytes.is_empty()).then(|| rng.index(bytes.len())),
        }
    }
}

/// Offset and length of everything that looks like a frame.
fn frames(bytes: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let places = (0..bytes.len().saturating_sub(FRAME_HEADER_BYTES)).step_by(FRAME_ALIGNMENT);
    places.filter(|at| &bytes[at + MAGIC_AT..][..FRAME_MAGIC.len()] == FRAME_MAGIC).map(|at| {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("a slice of four bytes"));
        (at, (length as usize).min(bytes.len() - at))
    })
}

fn draw<T>(choices: impl Iterator<Item = T>, rng: &mut Rng) -> Option<T> {
    let mut choices: Vec<T> = choices.collect();
    if choices.is_empty() {
        return None;
    }
    let chosen = rng.index(choices.len());
    Some(choices.swap_remove(chosen))
}

impl Hardware {
    /// Flips one bit of a drawn file, and tells which: only of what is durable and not about to be written over.
    /// `None` if the disk holds nothing of the kind.
    pub fn rot(&self, target: RotTarget, rng: &mut Rng) -> Option<String> {
        let files = self.contents().into_iter().filter(|(name, _)| target.is_in(name));
        let (name, bytes) = draw(files, rng)?;
        let offset = target.draw(&bytes, rng)?;
        let bit = rng.index(8) as u8;
        let mut state = self.state();
        let file = state.named(&name).ok()?;
        let flipped = state.image(file).is_ok_and(|image| image.flip(offset, bit));
        drop(state);
        if !flipped {
            return None;
        }
        (self.log)(Fault::Rot);
        Some(format!("bit {bit} of byte {offset} of {name} ({target:?})"))
    }
}
