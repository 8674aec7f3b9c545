//! Mutated scripts: tokens dropped, doubled, swapped and replaced. This shows that nothing panics and that the time is
//! bounded; what is said about such scripts is shown in `bad`.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};

use datafusion::sql::sqlparser::tokenizer::Tokenizer;
use pelton_sql_expr::FlinkDialect;

use super::{cases, plan, statements};

/// A generator of numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % end.max(1)
    }
}

fn corpus() -> Vec<String> {
    let answers = |text: &str| -> Vec<String> {
        text.split("\n\n").filter_map(|paragraph| paragraph.split_once("\n=> ").map(|(script, _)| script.to_owned())).collect()
    };
    let mut scripts = answers(include_str!("good.sql"));
    scripts.extend(answers(include_str!("bad.txt")));
    scripts.extend(cases().into_values());
    scripts
}

fn tokens(script: &str) -> Vec<String> {
    match Tokenizer::new(&FlinkDialect::default(), script).tokenize() {
        Ok(tokens) => tokens.iter().map(ToString::to_string).collect(),
        Err(_) => script.split_inclusive(' ').map(str::to_owned).collect(),
    }
}

/// Odd pieces, put where a token was.
const ODD: [&str; 18] =
    ["", "(", ")", "<", ">>", "'", "`", "\"", ";", "--", "/*", "${NAME}", "${", "\u{0}", "💥", "9999999999999999999999", "INTERVAL", "$$"];

fn mutate(tokens: &[String], words: &[String], numbers: &mut Numbers) -> String {
    let mut tokens = tokens.to_vec();
    for _ in 0..=numbers.below(3) {
        if tokens.is_empty() {
            break;
        }
        let at = numbers.below(tokens.len());
        match numbers.below(6) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, tokens[at].clone()),
            2 => {
                let other = numbers.below(tokens.len());
                tokens.swap(at, other);
            }
            3 => tokens[at] = ODD[numbers.below(ODD.len())].to_owned(),
            4 => tokens.truncate(at),
            _ => tokens[at].clone_from(&words[numbers.below(words.len())]),
        }
    }
    tokens.concat()
}

fn check(rounds: usize, seed: u64, run: impl Fn(&str) + std::panic::RefUnwindSafe) {
    let corpus: Vec<Vec<String>> = corpus().iter().map(|script| tokens(script)).collect();
    let words: Vec<String> = corpus.iter().flatten().filter(|token| !token.trim().is_empty()).cloned().collect();
    let mut numbers = Numbers(seed);
    for _ in 0..rounds {
        let script = mutate(&corpus[numbers.below(corpus.len())], &words, &mut numbers);
        let started = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| run(&script)));
        assert!(ended.is_ok(), "panicked on\n{script}");
        assert!(started.elapsed() < Duration::from_secs(5), "{:?} for\n{script}", started.elapsed());
    }
}

#[test]
fn mutated_scripts_are_read_without_a_panic_in_bounded_time() {
    check(20_000, 1, |script| drop(statements(script)));
}

#[test]
fn mutated_scripts_are_planned_without_a_panic_in_bounded_time() {
    check(1_500, 2, |script| {
        if let Err(error) = plan(script) {
            assert!(error.line >= 1 && error.column >= 1, "{error}");
            assert!(error.line <= script.lines().count().max(1) as u64 + 1, "{error}");
        }
    });
}
