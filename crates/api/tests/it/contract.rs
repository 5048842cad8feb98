//! What the other tests compare: the protobuf schema as compiled, and the JSON schemas as published.

use std::path::PathBuf;

use prost_reflect::{DescriptorPool, MessageDescriptor};
use protox::file::{ChainFileResolver, File, FileResolver, GoogleFileResolver};
use serde_json::{Map, Value};
use windlass_api::openapi;

use crate::schema;

const PROTO: &str = "windlass/v1/windlass.proto";

/// A file of the repository, by its path from the root.
pub(crate) fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The schema as the code has it: the file may be about to be written.
struct Written;

impl FileResolver for Written {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        if name == PROTO {
            File::from_source(name, &schema::write())
        } else {
            Err(protox::Error::file_not_found(name))
        }
    }
}

pub(crate) struct Contract {
    pub(crate) pool: DescriptorPool,
    /// By the names of the messages.
    pub(crate) schemas: Map<String, Value>,
}

impl Contract {
    pub(crate) fn load() -> Self {
        let mut resolver = ChainFileResolver::new();
        resolver.add(Written);
        resolver.add(GoogleFileResolver::new());
        let mut compiler = protox::Compiler::with_file_resolver(resolver);
        compiler.include_imports(true).open_file(PROTO).expect("the schema compiles");
        let files = compiler.file_descriptor_set();
        let pool = DescriptorPool::from_file_descriptor_set(files).expect("what protox makes is sound");
        let Value::Object(schemas) = openapi::document()["components"]["schemas"].take() else {
            panic!("the schemas of the document are an object")
        };
        Self { pool, schemas }
    }

    pub(crate) fn message(&self, name: &str) -> MessageDescriptor {
        let message = self.pool.get_message_by_name(&format!("windlass.v1.{name}"));
        message.unwrap_or_else(|| panic!("{name} is missing from {PROTO}"))
    }

    /// Every message of the schema, those that the compiler makes for maps left out.
    pub(crate) fn messages(&self) -> impl Iterator<Item = MessageDescriptor> {
        self.pool.all_messages().filter(|m| m.package_name() == "windlass.v1" && !m.is_map_entry())
    }
}

/// The component that a schema refers to.
pub(crate) fn reference(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str().map(|path| path.trim_start_matches("#/components/schemas/"))
}

/// The type of a schema's values, null left aside. `None`: any.
pub(crate) fn type_of(schema: &Value) -> Option<&str> {
    let mut several = schema["type"].as_array().into_iter().flatten().filter_map(Value::as_str);
    schema["type"].as_str().or_else(|| several.find(|name| *name != "null"))
}

pub(crate) fn is_nullable(schema: &Value) -> bool {
    let null = |name: &Value| name == "null";
    schema["type"].as_array().is_some_and(|types| types.iter().any(null))
        || schema["anyOf"]
            .as_array()
            .is_some_and(|choices| choices.iter().any(|choice| null(&choice["type"])))
}
