//! Names and values of a query, as a form or a browser encodes them.

use percent_encoding::percent_decode_str;

use super::error::Problem;

/// `a%20b` and `a+b` are `a b`.
pub(super) fn decoded(text: &str) -> Result<String, Problem> {
    let text = text.replace('+', " ");
    // The crate leaves a `%` alone that two digits do not follow.
    let is_encoded = text.split('%').skip(1).all(begins_with_byte);
    let decoded = is_encoded.then(|| percent_decode_str(&text).decode_utf8().ok()).flatten();
    let wrong = "the query must be percent-encoded UTF-8: `%` and two hexadecimal digits for each byte, `%25` for `%`";
    decoded.map(String::from).ok_or_else(|| Problem::invalid(wrong))
}

fn begins_with_byte(text: &str) -> bool {
    text.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_decoded() {
        for (encoded, text) in
            [("", ""), ("a", "a"), ("%61+b%2Bc", "a b+c"), ("%e2%82%AC", "€"), ("%25", "%")]
        {
            assert_eq!(decoded(encoded).unwrap(), text);
        }
    }

    #[test]
    fn texts_that_are_not_encoded_are_refused() {
        for text in ["%", "a%4", "%zz", "%+1", "%ff", "%e2%82", "%€"] {
            assert!(decoded(text).is_err(), "{text}");
        }
    }
}
