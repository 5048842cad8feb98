//! Parts of the program that need neither a process nor a server.

mod answers;
mod capturing;
mod fates_of_lines;
mod formats;
mod lines_of_items;
mod payloads;
mod tables_of_items;
mod what_flags_take;

#[path = "../../../src/cmd/work/capture.rs"]
mod capture;
#[path = "../../../src/cmd/work/facts.rs"]
mod facts;
#[path = "../../../src/feed/fates.rs"]
mod fates;
#[path = "../../../src/human.rs"]
pub(crate) mod human;
#[path = "../../../src/cmd/produce/item_line.rs"]
mod item_line;
#[path = "../../../src/feed/lines.rs"]
pub(crate) mod lines;
#[path = "../../../src/payload.rs"]
pub(crate) mod payload;
#[path = "../../../src/cmd/items/shown.rs"]
mod shown;
#[path = "../../../src/table.rs"]
pub(crate) mod table;
#[path = "../../../src/values.rs"]
mod values;
