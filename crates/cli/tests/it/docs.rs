use std::path::Path;

use crate::world::run;

#[test]
fn the_reference_is_what_the_program_says_of_itself() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/cli.md");
    let page = run(&["reference"]).ok();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap();
    assert!(
        checked_in == page,
        "docs/reference/cli.md is old: UPDATE_DOCS=1 cargo test -p windlass-cli docs"
    );
}
