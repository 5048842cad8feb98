//! Pages of the reference that are made from tables in the code.

use std::path::Path;

use windlass_server::{config, metrics};

fn check(page: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(page);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, generated).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == generated,
        "docs/reference/{page} is out of date: run `UPDATE_DOCS=1 cargo test -p windlass-server docs`"
    );
}

#[test]
fn the_page_about_configuration_says_what_the_table_says() {
    check("configuration.md", &config::reference());
}

#[test]
fn the_page_about_metrics_says_what_the_table_says() {
    check("metrics.md", &metrics::reference());
}
