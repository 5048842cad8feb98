//! `#[request]` and `#[reply]`: a message of the API is a plain struct, and these attributes add what every message has.
//!
//! ```ignore
//! /// An item to be produced.                          // the comment in every schema
//! #[request]                                          // or a part of requests; parts of replies alone are `#[reply]`
//! pub struct NewItem {
//!     /// The payload, if it is a JSON value.
//!     #[field(1, json)]                               // a text in protobuf, any value in JSON
//!     pub json: Option<String>,
//!     /// What sort of work it is.
//!     #[field(4)]                                     // the number in protobuf: fixed for ever
//!     #[schemars(length(min = 1, max = 128))]         // what else the JSON schema says: an attribute of schemars
//!     pub kind: Option<String>,
//!     /// Shown with the item.
//!     #[field(9, optional)]                           // left out of JSON if empty
//!     pub headers: BTreeMap<String, String>,
//! }
//! ```
//!
//! - The type of a field decides its type in protobuf. `Option` is a field that can be unset; JSON leaves it out, or has null
//!   if it is `nullable`. A list or map is always there in JSON, unless it is `optional`. `Bytes` are base64 in JSON.
//! - The JSON schema of a request requires each field that is not an `Option`, a `bool` or `optional`.
//! - A request refuses unknown fields in JSON, and has a `Shape`. A reply takes unknown fields: they come from a newer server.
//! - `#[request(transparent)]`: in JSON, the one field stands for the message.
//! - Every message describes itself for `proto/` (`Described`), in the place where it stands in the source.

mod field;
mod message;

use proc_macro::TokenStream;

use crate::message::{Message, Side};

/// A request, or a message within requests.
#[proc_macro_attribute]
pub fn request(options: TokenStream, item: TokenStream) -> TokenStream {
    expand(Side::Request, options, item)
}

/// A reply, or a message that only replies have.
#[proc_macro_attribute]
pub fn reply(options: TokenStream, item: TokenStream) -> TokenStream {
    expand(Side::Reply, options, item)
}

fn expand(side: Side, options: TokenStream, item: TokenStream) -> TokenStream {
    let message = Message::parse(side, options.into(), item.into());
    message.map_or_else(syn::Error::into_compile_error, |message| message.expand()).into()
}
