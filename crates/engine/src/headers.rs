//! [`HeaderReader`]: what items are found by, read out of the facts that the edge has written.

use bytes::Bytes;
use windlass_core::headers::Hashes;
use windlass_core::settings::Settings;

/// Tells the names and values of the headers in an item's facts. The reference is among them, under
/// [`REFERENCE`](windlass_core::headers::REFERENCE), and no header of that name.
pub type HeadersOf = fn(&Bytes) -> Vec<(String, String)>;

/// Computes the hashes of new items. Without [`HeadersOf`] nothing is known of the headers of items: finds look into their facts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HeaderReader(pub(crate) Option<HeadersOf>);

impl HeaderReader {
    /// Leaves the hashes as they are if the queue indexes nothing.
    pub(crate) fn index(self, settings: &Settings, facts: Option<&Bytes>, hashes: &mut Hashes) {
        if settings.indexed_headers.is_empty() {
            return;
        }
        if let (Some(headers_of), Some(facts)) = (self.0, facts) {
            let headers = headers_of(facts);
            *hashes = settings.hashes(headers.iter().map(|(name, value)| (&**name, &**value)));
        }
    }
}
