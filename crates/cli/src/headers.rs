//! Headers as flags.

use std::collections::BTreeMap;

use crate::exit::Failure;

/// An item has one value for each name.
pub(crate) fn headers(given: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Failure> {
    let mut headers = BTreeMap::new();
    for (name, value) in given {
        if headers.contains_key(&name) {
            return Err(Failure::usage(format!("--header: `{name}` is given twice")));
        }
        headers.insert(name, value);
    }
    Ok(headers)
}
