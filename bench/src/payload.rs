//! Payloads: a number in 16 hexadecimal digits, then filler up to the size asked for.
//!
//! The number makes each payload unique, and tells the client that leases an item which one it is.

use anyhow::{Result, bail};

/// Digits of the number at the start of a payload, hence the smallest payload.
pub(crate) const DIGITS: usize = 16;

/// Appends the payload of `number`, `size` bytes long.
pub(crate) fn append(into: &mut Vec<u8>, number: u64, size: usize) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for digit in (0..DIGITS).rev() {
        into.push(HEX[(number >> (digit * 4) & 0xf) as usize]);
    }
    into.resize(into.len() + size.saturating_sub(DIGITS), b'x');
}

pub(crate) fn text(number: u64, size: usize) -> String {
    let mut bytes = Vec::with_capacity(size);
    append(&mut bytes, number, size);
    String::from_utf8(bytes).expect("digits and filler are ASCII")
}

/// The number that a payload begins with.
pub(crate) fn number(payload: &[u8]) -> Result<u64> {
    let digits = payload.get(..DIGITS).and_then(|digits| std::str::from_utf8(digits).ok());
    match digits.map(|digits| u64::from_str_radix(digits, 16)) {
        Some(Ok(number)) => Ok(number),
        Some(Err(_)) | None => bail!("a leased item has a payload that was never produced"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_its_size_and_tells_its_number() {
        let text = text(0xdead_beef, 200);
        assert_eq!(text.len(), 200);
        assert!(text.starts_with("00000000deadbeefxxx"));
        assert_eq!(number(text.as_bytes()).unwrap(), 0xdead_beef);
    }

    #[test]
    fn a_payload_of_somebody_else_is_refused() {
        assert!(number(b"short").is_err());
        assert!(number(b"not hexadecimal at all").is_err());
    }
}
