//! Values made from a JSON schema, with every field set.

use serde_json::{Map, Value, json};
use windlass_api::{Span, Time};

use crate::contract::{reference, type_of};

/// What to fill in.
#[derive(Clone, Copy)]
pub(crate) enum Fill {
    /// No two fields of a message alike, so that none can be taken for another; all bools true.
    Distinct,
    /// The same, but only this bool is true, counted from zero.
    OnlyTrue(usize),
    /// What protobuf does not write unless the field is `optional`.
    Zero,
}

pub(crate) struct Sampler<'a> {
    schemas: &'a Map<String, Value>,
    fill: Fill,
    /// How many values were made.
    count: u64,
    pub(crate) bools: usize,
}

impl<'a> Sampler<'a> {
    pub(crate) fn new(schemas: &'a Map<String, Value>, fill: Fill) -> Self {
        Self { schemas, fill, count: 0, bools: 0 }
    }

    pub(crate) fn message(&mut self, name: &str) -> Value {
        let schema = self.schemas.get(name).unwrap_or_else(|| panic!("no schema of {name}"));
        self.value(schema)
    }

    fn value(&mut self, schema: &'a Value) -> Value {
        match reference(schema) {
            Some("Duration") => return self.span(),
            Some(name) => return self.message(name),
            None => {}
        }
        match type_of(schema) {
            Some("object") if schema.get("additionalProperties").is_some_and(Value::is_object) => {
                self.map(schema)
            }
            Some("object") => self.object(schema),
            Some("array") => json!([self.value(&schema["items"]), self.value(&schema["items"])]),
            Some("string") => self.string(schema),
            Some("integer") => self.integer(schema),
            Some("number") => self.number(),
            Some("boolean") => self.bool(),
            None => self.any(),
            Some(other) => panic!("no sample of a {other}"),
        }
    }

    fn object(&mut self, schema: &'a Value) -> Value {
        let properties = schema["properties"].as_object().into_iter().flatten();
        let is_zero = matches!(self.fill, Fill::Zero);
        let mut fields: Vec<(String, Value)> = Vec::new();
        for (name, schema) in properties {
            let mut value = self.value(schema);
            // Two enums may have a word in common.
            let is_enum = schema.get("enum").is_some() && !is_zero;
            while is_enum && fields.iter().any(|(_, other)| *other == value) {
                value = self.value(schema);
            }
            fields.push((name.clone(), value));
        }
        if !is_zero {
            check_distinct(&fields);
        }
        fields.into_iter().collect::<Map<_, _>>().into()
    }

    fn map(&mut self, schema: &'a Value) -> Value {
        let numbered = schema.get("propertyNames").is_some();
        let mut entry = || {
            let number = self.next();
            let key = if numbered { number.to_string() } else { self.text(number) };
            (key, self.value(&schema["additionalProperties"]))
        };
        // Of zero keys there can be only one.
        [entry(), entry()].into_iter().collect::<Map<_, _>>().into()
    }

    fn string(&mut self, schema: &Value) -> Value {
        let number = self.next();
        if schema["format"] == "date-time" {
            return json!(Time::from_micros(number as i64 * 86_400_000_001));
        }
        if schema["format"] == "uuid" && number > 0 {
            return json!(format!("01980f7e-0000-7000-8000-{number:012}"));
        }
        if let Some(values) = schema["enum"].as_array().filter(|_| number > 0) {
            return values[number as usize % values.len()].clone();
        }
        if schema["contentEncoding"] == "base64" && number > 0 {
            return json!(format!("{number:04}"));
        }
        json!(self.text(number))
    }

    fn text(&self, number: u64) -> String {
        if number == 0 { String::new() } else { format!("text {number}") }
    }

    fn span(&mut self) -> Value {
        json!(Span::from_micros(self.next() * 90_000_001))
    }

    fn integer(&mut self, schema: &Value) -> Value {
        let number = self.next();
        let max = schema["maximum"].as_u64().unwrap_or(u64::MAX);
        assert!(number <= max, "more values than {max}: the sample needs other numbers");
        // Large where it may be, so that a field that is too small shows.
        json!(if schema["format"] == "uint64" && number > 0 { (1 << 52) + number } else { number })
    }

    fn number(&mut self) -> Value {
        json!(self.next() as f64 * 0.25)
    }

    fn bool(&mut self) -> Value {
        let index = self.bools;
        self.bools += 1;
        match self.fill {
            Fill::Distinct => json!(true),
            Fill::OnlyTrue(one) => json!(index == one),
            Fill::Zero => json!(false),
        }
    }

    /// A payload that is any JSON value.
    fn any(&mut self) -> Value {
        match self.next() {
            0 => Value::Null,
            number => json!({"number": number, "list": [null, "ü", 0.5]}),
        }
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        if matches!(self.fill, Fill::Zero) { 0 } else { self.count }
    }
}

fn check_distinct(fields: &[(String, Value)]) {
    let plain = |value: &Value| value.is_string() || value.is_number();
    for (at, (name, value)) in fields.iter().enumerate() {
        let twin = fields[..at].iter().find(|(_, other)| plain(other) && other == value);
        assert!(twin.is_none(), "the samples of {name} and {twin:?} are alike");
    }
}
