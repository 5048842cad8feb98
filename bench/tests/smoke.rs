//! The whole comparison, from its flags to its files, with real servers.

use std::process::Command;

use serde_json::Value;

/// Needs a `windlass` that was built, which `cargo test` of this workspace does not build.
#[test]
#[ignore = "needs WINDLASS_BINARY, a path to a windlass: WINDLASS_BINARY=target/release/windlass cargo test -- --ignored"]
fn the_bare_loop_and_windlass_are_measured_and_nothing_is_left_behind() {
    let windlass = std::env::var("WINDLASS_BINARY").expect("WINDLASS_BINARY must name a windlass");
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (json, svg) = (directory.path().join("figures.json"), directory.path().join("plot.svg"));
    let data = directory.path().join("data");
    let output = Command::new(env!("CARGO_BIN_EXE_windlass-compare"))
        .args(["--quick", "--only", "bare,windlass", "--work", "cycles", "--clients", "2", "--batch", "10"])
        .args(["--seconds", "0.3", "--windlass", &windlass, "--data-dir"])
        .arg(&data)
        .args(["--json".as_ref(), json.as_os_str(), "--svg".as_ref(), svg.as_os_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("| bare loop") && table.contains("| windlass"), "{table}");
    let document: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let cycles =
        document["sheets"].as_array().unwrap().iter().find(|sheet| sheet["scenario"] == "cycles").unwrap();
    for contender in cycles["contenders"].as_array().unwrap() {
        assert!(contender["figures"]["cycles_per_second"]["median"].as_f64().unwrap() > 0.0, "{contender}");
    }
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg"));
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0, "directories were left behind");
}

#[test]
fn a_missing_windlass_is_an_error_that_says_what_to_do() {
    let compare = env!("CARGO_BIN_EXE_windlass-compare");
    let output = Command::new(compare).args(["--windlass", "/nowhere/windlass"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(said.contains("there is no /nowhere/windlass") && said.contains("bench/compare"), "{said}");
}

#[test]
fn a_plot_of_nothing_is_refused_before_anything_is_measured() {
    let compare = env!("CARGO_BIN_EXE_windlass-compare");
    let flags = ["--windlass", compare, "--work", "pickup", "--svg", "/nowhere/plot.svg"];
    let output = Command::new(compare).args(flags).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    assert!(said.contains("add cycles to --work"), "{said}");
}
