//! What goes where: rules, fallback, faults; and how well meaning is found on prompts it has not seen.

use intent_router::{Record, Route, Settings};

const CONFIG: &str = r#"{
  "field": "/prompt", "threshold": 0.12, "fallback": "ai.general",
  "rules": [ {"header": "route", "pattern": "ai.code.>", "topic": "ai.forced"},
             {"field": "/tenant", "pattern": "acme*", "topic": "ai.acme"} ],
  "routes": [
    {"topic": "ai.code", "examples": ["write a function in python", "fix the bug in this rust code",
      "refactor a class in javascript", "explain this stack trace", "implement a parser in go",
      "why does my sql query fail with a syntax error", "add unit tests to this method"]},
    {"topic": "ai.summarise", "examples": ["summarise this report in three sentences", "give me the key points of the document",
      "shorten the paper to one paragraph", "what is the main message of this article", "tl;dr of the meeting notes"]},
    {"topic": "ai.translate", "examples": ["translate this sentence into german", "how do you say thank you in french",
      "translate into japanese", "what does this spanish word mean in english", "put this text into polish"]},
    {"topic": "ai.analytics", "examples": ["show revenue per month", "plot active users by country as a chart",
      "which region had the highest churn last quarter", "average order value by customer segment", "compare sales of this year with last year"]}
  ]}"#;

/// Prompts that are not among the examples, with the topic a person would choose.
const UNSEEN: [(&str, &str); 32] = [
    ("write a retry loop in go", "ai.code"),
    ("please fix this python function, it returns the wrong value", "ai.code"),
    ("refactoring a large javascript module", "ai.code"),
    ("explain the following java stack trace", "ai.code"),
    ("implement binary search in rust", "ai.code"),
    ("there is a bug in my code", "ai.code"),
    ("write unit tests for the parser", "ai.code"),
    ("my sql has a syntax error near select", "ai.code"),
    ("summarise the incident timeline in three sentences", "ai.summarise"),
    ("give me the key points of our privacy policy", "ai.summarise"),
    ("shorten the release notes to one paragraph", "ai.summarise"),
    ("summary of the quarterly report please", "ai.summarise"),
    ("tl;dr of this paper", "ai.summarise"),
    ("what is the main message of the document", "ai.summarise"),
    ("key points of the meeting", "ai.summarise"),
    ("summarising an article", "ai.summarise"),
    ("translate 'the invoice is overdue' into Italian", "ai.translate"),
    ("how do you say 'where is the station' in Polish", "ai.translate"),
    ("translation of this letter into german", "ai.translate"),
    ("what does this french word mean", "ai.translate"),
    ("put the sentence into japanese", "ai.translate"),
    ("translate into Spanish: good morning", "ai.translate"),
    ("how do I say please in german", "ai.translate"),
    ("translating a menu from french", "ai.translate"),
    ("show active users per month", "ai.analytics"),
    ("plot churn by country as a chart", "ai.analytics"),
    ("which region had the highest revenue", "ai.analytics"),
    ("average latency by customer segment", "ai.analytics"),
    ("compare revenue with last quarter", "ai.analytics"),
    ("charts of users by region", "ai.analytics"),
    ("highest sales per country", "ai.analytics"),
    ("show me the order value per week", "ai.analytics"),
];

fn route() -> Route {
    Route::new(Settings::read(CONFIG).expect("settings"))
}

fn check(value: &str, headers: &[(&str, &str)], expected: Result<&str, &str>) {
    let headers: Vec<_> = headers.iter().map(|(n, v)| ((*n).to_owned(), Some(v.as_bytes().to_vec()))).collect();
    let mut route = route();
    let got = route.decide(&Record { value: Some(value.as_bytes()), headers: &headers });
    match (got, expected) {
        (Ok(verdict), Ok(topic)) => assert_eq!(verdict.topic, topic, "{value}"),
        (Err(error), Err(part)) => assert!(error.contains(part), "{value}: {error}"),
        (got, expected) => panic!("{value}: {got:?}, expected {expected:?}"),
    }
}

#[test]
fn finds_the_meaning_of_prompts_it_has_not_seen() {
    let mut route = route();
    let mut wrong = Vec::new();
    for (prompt, expected) in UNSEEN {
        let value = format!("{{\"prompt\":\"{prompt}\"}}");
        let verdict = route.decide(&Record { value: Some(value.as_bytes()), headers: &[] }).expect("valid");
        if verdict.topic != expected {
            wrong.push(format!("{prompt} → {} ({:?})", verdict.topic, verdict.score));
        }
    }
    // Nine of ten: hashed letters and words have no knowledge of the world.
    assert!(wrong.len() * 10 <= UNSEEN.len(), "{} of {}: {wrong:#?}", wrong.len(), UNSEEN.len());
}

#[test]
fn sends_small_talk_to_the_fallback() {
    for prompt in ["hi, how are you today?", "good morning!", "tell me a joke about penguins", "", "zzz qqq", "€"] {
        check(&format!("{{\"prompt\":\"{prompt}\"}}"), &[], Ok("ai.general"));
    }
}

#[test]
fn rules_come_first_and_header_rules_do_not_look_at_the_value() {
    check("no json at all", &[("route", "ai.code.fast")], Ok("ai.forced"));
    check(r#"{"prompt":"translate into german","tenant":"acme-eu"}"#, &[("route", "ai.code")], Ok("ai.acme"));
    check(r#"{"prompt":"translate into german","tenant":"other"}"#, &[("other", "ai.code.x")], Ok("ai.translate"));
}

#[test]
fn refuses_records_without_a_prompt() {
    check("no json at all", &[], Err("no JSON"));
    check("{\"prompt\":", &[], Err("no JSON"));
    check("{}", &[], Err("no text at /prompt"));
    check("{\"prompt\":null}", &[], Err("no text at /prompt"));
    check("{\"prompt\":[1]}", &[], Err("no text at /prompt"));
    let mut route = route();
    assert_eq!(route.decide(&Record { value: None, headers: &[] }).expect("tombstone").topic, "ai.general");
}

#[test]
fn decides_the_same_whatever_came_before() {
    let mut used = route();
    for (prompt, _) in UNSEEN {
        let value = format!("{{\"prompt\":\"{prompt}\"}}");
        let record = Record { value: Some(value.as_bytes()), headers: &[] };
        let fresh = route().decide(&record).map(|verdict| (verdict.topic.to_owned(), verdict.score)).expect("valid");
        let got = used.decide(&record).map(|verdict| (verdict.topic.to_owned(), verdict.score)).expect("valid");
        assert_eq!(got, fresh);
    }
}
