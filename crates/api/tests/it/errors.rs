//! Every code has its paragraph.

use std::fs;

use windlass_api::{Code, openapi};

use crate::contract::repository;

#[test]
fn every_code_has_a_heading_with_its_status_and_there_are_no_others() {
    let page = fs::read_to_string(repository("docs/reference/errors.md")).unwrap();
    let headings: Vec<_> = page.lines().filter(|line| line.starts_with("## `")).collect();
    let statuses = |code: &Code| code.statuses().map(|one| one.to_string()).collect::<Vec<_>>().join(", ");
    let heading = |code: &Code| format!("## `{code}` · {}", statuses(code));
    assert_eq!(headings, Code::ALL.iter().map(heading).collect::<Vec<_>>());
}

#[test]
fn a_large_head_has_a_status_of_its_own_in_the_openapi_document() {
    let document = openapi::document();
    let reply = &document["components"]["responses"]["431"];
    assert_eq!(reply["description"], "`error.code` is `too_large`.");
    let produce = &document["paths"]["/v1/queue.produce"]["post"]["responses"]["431"];
    assert_eq!(produce["$ref"], "#/components/responses/431");
}

#[test]
fn every_paragraph_says_when_it_comes_what_to_do_and_what_is_in_the_details() {
    let page = fs::read_to_string(repository("docs/reference/errors.md")).unwrap();
    for section in page.split("\n## `").skip(1) {
        let code = section.split('`').next().unwrap();
        for part in ["**When:** ", "**What to do:** ", "**Details:** "] {
            assert!(section.contains(part), "`{code}` lacks its {part:?}");
        }
    }
}

#[test]
fn a_code_is_found_by_its_name_and_by_no_other() {
    for code in Code::ALL {
        assert_eq!(Code::parse(code.as_str()), Some(*code));
    }
    assert_eq!(Code::parse("Internal"), None);
    assert_eq!(Code::parse(""), None);
}
