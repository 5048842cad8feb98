//! Bodies (payloads, results, events and the like) as a durable store knows them in memory.
//!
//! A durable store writes a body once, together with the batch that puts it, and reads it back by its place. [`BodyKey`]
//! names a body within its partition, [`Bodies`] tells the place of each, [`BodyChange`] is what a batch does to them,
//! and [`BodyCache`] keeps in memory what will be read soon. What a place is, each store says for itself: [`Bodies`] is
//! generic over it, because there is one place for every item and it must stay small.
//!
//! Used by [`super::entries`] and by the durable stores, of which [`super::log`] is the only one so far. Nothing here knows
//! of files.

mod cache;
mod change;
mod key;
mod places;

pub(crate) use cache::BodyCache;
pub(crate) use change::BodyChange;
pub(crate) use key::BodyKey;
pub(crate) use places::Bodies;
