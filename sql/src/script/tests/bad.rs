//! Scripts that are refused: `bad.txt` holds paragraphs of a script and, behind `=>`, its place and parts of the message.

use super::plan;

#[test]
fn each_bad_script_is_refused_at_its_place_with_what_was_found() {
    let mut faults = Vec::new();
    let mut count = 0;
    for paragraph in include_str!("bad.txt").split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let (script, expected) = paragraph.rsplit_once("\n=> ").expect("an answer behind =>");
        let (place, parts) = expected.trim_end().split_once(' ').expect("a place and parts of the message");
        count += 1;
        let got = match plan(script) {
            Ok(_) => "accepted".to_owned(),
            Err(error) => {
                let shown = script.lines().nth(error.line as usize - 1).unwrap_or_default();
                assert_eq!(error.source_line, shown, "{script}");
                error.to_string()
            }
        };
        let there = got.starts_with(&format!("{place}: ")) && parts.split(" | ").all(|part| got.contains(part));
        let insides = ["Parser", "Token", "sqlparser", "DataFusion", "Some(", "EOF", "Keyword"].iter().find(|word| got.contains(**word));
        if !there || insides.is_some() {
            faults.push(format!("{script}\ngot      => {got}\nexpected => {expected}"));
        }
    }
    assert!(count >= 100, "{count} scripts");
    assert!(faults.is_empty(), "{} of {count}\n\n{}", faults.len(), faults.join("\n\n"));
}

#[test]
fn places_are_those_of_the_script_before_variables_are_replaced() {
    let script = "SET 'pipeline.name' = '${LONG}';\nSET 'pipeline.name' = '${LONG}' 'x';";
    let error = plan(script).map(|_| ()).expect_err("`x` is too much");
    assert_eq!((error.line, error.column), (2, 33), "{error}");
    assert_eq!(error.source_line, "SET 'pipeline.name' = '${LONG}' 'x';");
    let error = plan("SELECT '${QUOTE}").map(|_| ()).expect_err("the quote closes");
    assert_eq!(error.line, 1, "{error}");
}

#[test]
fn columns_are_counted_in_characters() {
    let error = plan("SELECT 'ääää', 'ß' FROM nö").map(|_| ()).expect_err("no such table");
    assert_eq!((error.line, error.column), (1, 25), "{error}");
}
