//! The bounds of JSON payloads. Payloads of several items travel in one reply, and a reader that fails at one of them fails at
//! all: `serde_json` and Python stop at some depth of brackets, Python at numbers of several thousand digits, and nothing in
//! UTF-8 stands for half of a surrogate pair.

use serde::de::DeserializeOwned;

/// Brackets that may be open at once.
pub const LEVELS_MAX: usize = 128;
/// Digits of one number, those of its exponent included.
pub const DIGITS_MAX: usize = 1000;

/// Why a well-formed JSON text is refused: many readers fail at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    #[error("more than {LEVELS_MAX} levels of brackets")]
    Levels,
    #[error("a number of more than {DIGITS_MAX} digits")]
    Digits,
    #[error("a lone surrogate, half of a pair such as `\\ud83d\\ude00`")]
    Surrogate,
}

/// Holds a text that is JSON to the bounds. Of a text that is no JSON nothing is said.
pub fn check(text: &str) -> Result<(), Unreadable> {
    let mut scan = Scan { rest: text.as_bytes(), levels: 0 };
    while let Some(byte) = scan.take() {
        match byte {
            b'"' => scan.string()?,
            b'[' | b'{' => scan.open()?,
            b']' | b'}' => scan.levels = scan.levels.saturating_sub(1),
            b'0'..=b'9' => scan.number()?,
            _ => {}
        }
    }
    Ok(())
}

/// Reads all JSON within the bounds: `serde_json` by itself reads one level less than `LEVELS_MAX`.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    // A text within the bounds cannot exhaust the stack.
    if check(text).is_ok() {
        json.disable_recursion_limit();
    }
    let value = T::deserialize(&mut json)?;
    json.end()?;
    Ok(value)
}

struct Scan<'a> {
    rest: &'a [u8],
    levels: usize,
}

impl Scan<'_> {
    fn take(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }

    fn open(&mut self) -> Result<(), Unreadable> {
        self.levels += 1;
        if self.levels > LEVELS_MAX { Err(Unreadable::Levels) } else { Ok(()) }
    }

    /// After the first digit.
    fn number(&mut self) -> Result<(), Unreadable> {
        let is_of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
        let end = self.rest.iter().position(|byte| !is_of_number(byte)).unwrap_or(self.rest.len());
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest;
        let digits = 1 + number.iter().filter(|byte| byte.is_ascii_digit()).count();
        if digits > DIGITS_MAX { Err(Unreadable::Digits) } else { Ok(()) }
    }

    /// After the opening quotation mark.
    fn string(&mut self) -> Result<(), Unreadable> {
        loop {
            let plain = self.rest.iter().position(|byte| matches!(byte, b'"' | b'\\'));
            self.rest = &self.rest[plain.unwrap_or(self.rest.len())..];
            match self.take() {
                Some(b'\\') => self.escape()?,
                Some(_) | None => return Ok(()),
            }
        }
    }

    /// After the backslash.
    fn escape(&mut self) -> Result<(), Unreadable> {
        if self.take() != Some(b'u') {
            return Ok(());
        }
        match self.unit() {
            Some(0xd800..=0xdbff) => self.low_surrogate(),
            Some(0xdc00..=0xdfff) => Err(Unreadable::Surrogate),
            Some(_) | None => Ok(()),
        }
    }

    fn low_surrogate(&mut self) -> Result<(), Unreadable> {
        let is_escape = self.take() == Some(b'\\') && self.take() == Some(b'u');
        match self.unit().filter(|_| is_escape) {
            Some(0xdc00..=0xdfff) => Ok(()),
            Some(_) | None => Err(Unreadable::Surrogate),
        }
    }

    /// The four hexadecimal digits of an escape.
    fn unit(&mut self) -> Option<u16> {
        let (digits, rest) = self.rest.split_at_checked(4)?;
        self.rest = rest;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    }
}
