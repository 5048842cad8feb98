//! The compact ordered containers under every large index: [`SortedMap`] and, on top of it, [`Series`].

mod series;
mod sorted;

pub use series::Series;
pub use sorted::SortedMap;
