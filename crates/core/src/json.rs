//! Whether two JSON texts stand for the same value. The core keeps JSON as text and looks into it for this alone.
//!
//! Objects are the same whatever the order of their members, strings whatever their escapes, and numbers if they are equal as
//! decimals: `1`, `1.0` and `10e-1`. Texts that cannot be read as JSON are the same only letter by letter.

use std::collections::BTreeMap;

/// Deeper values are not looked into.
const LEVELS_MAX: usize = 128;

/// Whether both texts stand for the same JSON value.
pub fn is_same(one: &str, other: &str) -> bool {
    let value = |text| Reader { rest: text, levels: 0 }.whole();
    one == other || value(one).zip(value(other)).is_some_and(|(one, other)| one == other)
}

#[derive(PartialEq)]
enum Value<'a> {
    /// `null`, `true` and `false`.
    Word(&'static str),
    Number(Number<'a>),
    Text(String),
    List(Vec<Value<'a>>),
    /// Of several members of one name the last counts.
    Object(BTreeMap<String, Value<'a>>),
}

#[derive(PartialEq)]
enum Number<'a> {
    Zero,
    /// The digits, without zeros at either end, stand behind the point of `0.… × 10^exponent`.
    Decimal {
        negative: bool,
        digits: String,
        exponent: i64,
    },
    /// The exponent is beyond all bounds: such numbers are compared as they are written.
    Written(&'a str),
}

/// Each function reads one thing off the front of `rest`; `None` if something else is there.
struct Reader<'a> {
    rest: &'a str,
    levels: usize,
}

impl<'a> Reader<'a> {
    fn whole(mut self) -> Option<Value<'a>> {
        let value = self.value()?;
        self.skip_blanks();
        self.rest.is_empty().then_some(value)
    }

    fn value(&mut self) -> Option<Value<'a>> {
        self.skip_blanks();
        match self.rest.bytes().next()? {
            b'{' => self.nested(Self::object),
            b'[' => self.nested(Self::list),
            b'"' => self.text().map(Value::Text),
            b'-' | b'0'..=b'9' => self.number().map(Value::Number),
            _ => ["null", "true", "false"].into_iter().find(|word| self.take(word)).map(Value::Word),
        }
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Option<Value<'a>>) -> Option<Value<'a>> {
        self.levels += 1;
        let value = (self.levels <= LEVELS_MAX).then(|| read(self)).flatten();
        self.levels -= 1;
        value
    }

    fn object(&mut self) -> Option<Value<'a>> {
        let mut members = BTreeMap::new();
        self.separated("{", "}", |reader| {
            reader.skip_blanks();
            let name = reader.text()?;
            reader.skip_blanks();
            let value = reader.take(":").then(|| reader.value()).flatten()?;
            members.insert(name, value);
            Some(())
        })?;
        Some(Value::Object(members))
    }

    fn list(&mut self) -> Option<Value<'a>> {
        let mut values = Vec::new();
        self.separated("[", "]", |reader| {
            values.push(reader.value()?);
            Some(())
        })?;
        Some(Value::List(values))
    }

    fn separated(
        &mut self,
        opening: &str,
        closing: &str,
        mut read: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.take(opening);
        self.skip_blanks();
        if self.take(closing) {
            return Some(());
        }
        loop {
            read(self)?;
            self.skip_blanks();
            if self.take(closing) {
                return Some(());
            }
            self.take(",").then_some(())?;
        }
    }

    fn text(&mut self) -> Option<String> {
        self.take("\"").then_some(())?;
        let mut text = String::new();
        loop {
            let plain = self.rest.find(['"', '\\'])?;
            text.push_str(&self.rest[..plain]);
            self.rest = &self.rest[plain..];
            if self.take("\"") {
                return Some(text);
            }
            text.push(self.escape()?);
        }
    }

    fn escape(&mut self) -> Option<char> {
        self.take("\\");
        let letter = self.rest.chars().next()?;
        self.rest = &self.rest[letter.len_utf8()..];
        match letter {
            '"' | '\\' | '/' => Some(letter),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'u' => self.code_point(),
            _ => None,
        }
    }

    /// One unit of UTF-16, or two that belong together.
    fn code_point(&mut self) -> Option<char> {
        let first = self.unit()?;
        let second = if (0xd800..0xdc00).contains(&first) && self.take("\\u") { self.unit() } else { None };
        char::decode_utf16([first].into_iter().chain(second)).next()?.ok()
    }

    fn unit(&mut self) -> Option<u16> {
        let (digits, rest) = self.rest.split_at_checked(4)?;
        self.rest = rest;
        u16::from_str_radix(digits, 16).ok()
    }

    fn number(&mut self) -> Option<Number<'a>> {
        let of_number =
            |letter: char| letter.is_ascii_digit() || matches!(letter, '-' | '+' | '.' | 'e' | 'E');
        let len = self.rest.find(|letter| !of_number(letter)).unwrap_or(self.rest.len());
        let (written, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(Number::of(written))
    }

    fn take(&mut self, what: &str) -> bool {
        let rest = self.rest.strip_prefix(what);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }
}

impl<'a> Number<'a> {
    fn of(written: &'a str) -> Self {
        let negative = written.starts_with('-');
        let (mantissa, exponent) = written
            .trim_start_matches('-')
            .split_once(['e', 'E'])
            .unwrap_or((written.trim_start_matches('-'), "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0');
        if digits.is_empty() {
            return Self::Zero;
        }
        let point = whole.len() as i64 - (all.len() - digits.len()) as i64;
        match exponent.parse::<i64>().ok().and_then(|exponent| exponent.checked_add(point)) {
            Some(exponent) => {
                Self::Decimal { negative, digits: digits.trim_end_matches('0').to_owned(), exponent }
            }
            None => Self::Written(written),
        }
    }
}
