//! Broken scripts: each is refused before anything runs, with exit code 2, the place, and what to do.

use crate::harness::{Place, text};

const TABLE: &str = "CREATE TABLE ev (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ('connector'='filesystem', 'path'='ev.jsonl', 'format'='json');\n";

/// Script behind the table (line 2 on), `line:` it must point at, and what the message must hold (any case).
const REFUSED: [(&str, &str, &[&str]); 43] = [
    ("SELEC k FROM ev;", "2:1", &["selec"]),
    ("SELECT k FRM ev;", "2:", &["frm"]),
    ("SELECT COUNT( FROM ev;", "2:", &["from"]),
    ("SELECT k FROM ev WHERE;", "2:", &[]),
    ("SELECT (k FROM ev;", "2:", &[]),
    ("SELECT 'abc FROM ev;", "2:", &[]),
    ("SELECT `k FROM ev;", "2:", &[]),
    ("SELECT nope FROM ev;", "2:8", &["nope"]),
    ("SELECT kk FROM ev;", "2:8", &["kk", "k"]),
    ("SELECT K FROM ev;", "2:8", &["K"]),
    ("SELECT k FROM evv;", "2:", &["evv", "ev"]),
    ("SELECT ev2.k FROM ev;", "2:", &["ev2"]),
    ("SELECT frobnicate(v) FROM ev;", "2:8", &["frobnicate"]),
    ("SELECT UPER(k) FROM ev;", "2:8", &["uper", "upper"]),
    ("SELECT UPPER(k, 'x') FROM ev;", "2:", &["upper", "1"]),
    ("SELECT k FROM ev WHERE COUNT(*) > 1;", "2:", &["where"]),
    ("SELECT CAST('abc' AS INT) FROM ev;", "2:", &["abc"]),
    ("SELECT CAST(v AS INTT) FROM ev;", "2:", &["intt"]),
    ("SELECT k FROM ev ORDER BY v;", "2:", &["order by"]),
    ("SELECT k FROM ev UNION ALL SELECT k, v FROM ev;", "2:", &["union"]),
    ("SELECT k FROM ev UNION SELECT k FROM ev;", "2:", &["union"]),
    ("SELECT k, COUNT(*) FROM ev GROUP BY k;", "2:", &["window"]),
    ("SELECT a.k FROM ev a JOIN ev b ON a.k = b.k;", "2:", &["join"]),
    ("SELECT k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts) FROM ev;", "2:", &["over"]),
    ("SELECT * FROM TABLE(SESSION(TABLE ev, DESCRIPTOR(ts), INTERVAL '1' MINUTE));", "2:", &["session"]),
    ("SELECT * FROM TABLE(TUMBLE(TABLE ev, DESCRIPTOR(v), INTERVAL '1' MINUTE));", "2:", &["v"]),
    ("SELECT * FROM TABLE(TUMBLE(TABLE ev, DESCRIPTOR(ts), INTERVAL '0' SECOND));", "2:", &["size"]),
    ("SELECT * FROM TABLE(HOP(TABLE ev, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '10' SECOND));", "2:", &["slide", "multiple"]),
    ("SELECT k FROM (SELECT k, v FROM ev;", "2:", &[]),
    ("CREATE TABLE x (a INT) WITH ('connector'='carrier-pigeon');", "2:", &["carrier-pigeon", "kafka"]),
    ("CREATE TABLE x (a INT) WITH ('connector'='filesystem', 'pth'='x', 'format'='json');", "2:", &["pth", "path"]),
    ("CREATE TABLE x (a INT) WITH ('connector'='filesystem', 'format'='json');", "2:", &["path"]),
    ("CREATE TABLE x (a INT) WITH ('connector'='filesystem', 'path'='x', 'format'='jsonn');", "2:", &["jsonn", "json"]),
    ("CREATE TABLE x (a INT, a STRING) WITH ('connector'='blackhole');", "2:", &["a"]),
    ("CREATE TABLE ev (a INT) WITH ('connector'='blackhole');", "2:", &["ev", "exist"]),
    ("CREATE TABLE x (a STRING, WATERMARK FOR a AS a) WITH ('connector'='filesystem', 'path'='ev.jsonl', 'format'='json');", "2:", &["timestamp"]),
    ("CREATE TABLE x (a INT, WATERMARK FOR b AS b) WITH ('connector'='filesystem', 'path'='ev.jsonl', 'format'='json');", "2:", &["b"]),
    ("CREATE TABLE x (a DECIMAL(50, 2)) WITH ('connector'='blackhole');", "2:", &["38"]),
    ("CREATE TABLE x (a INT) WITH ('connector'='blackhole');\nINSERT INTO x SELECT k, v FROM ev;", "3:", &["2", "1"]),
    ("INSERT INTO nowhere SELECT k FROM ev;", "2:", &["nowhere"]),
    ("SET 'execution.checkpointing.intervall' = '1 s';", "2:", &["intervall", "execution.checkpointing.interval"]),
    ("SET 'execution.checkpointing.interval' = 'soon';", "", &["soon"]),
    ("SELECT '${NO_SUCH_VARIABLE}' FROM ev;", "2:", &["NO_SUCH_VARIABLE"]),
];

#[test]
fn each_broken_script_is_refused_with_its_place_and_a_hint() {
    let place = Place::new();
    place.write("ev.jsonl", "{\"k\":\"a\",\"v\":1,\"ts\":\"2024-01-01 00:00:00.000\"}\n");
    let mut faults = Vec::new();
    for (script, at, parts) in REFUSED {
        let output = place.run(&format!("{TABLE}{script}\n"), &["--output", "jsonl"]);
        let message = text(&output.stderr);
        let lower = message.to_lowercase();
        let mut fault = |what: &str| faults.push(format!("{script}\n    {what}\n    {}", message.trim().replace('\n', "\n    ")));
        if output.status.code() != Some(2) {
            fault(&format!("exit {:?}, expected 2", output.status.code()));
        }
        if !message.contains(&format!("job.sql:{at}")) {
            fault(&format!("does not say job.sql:{at}"));
        }
        for part in parts.iter().filter(|part| !lower.contains(&part.to_lowercase())) {
            fault(&format!("does not say `{part}`"));
        }
        if lower.contains("panicked") || message.contains("DataFusion") || message.contains("sqlparser") || message.contains("ParserError") {
            fault("shows our insides");
        }
        if !output.stdout.is_empty() {
            fault("printed rows before it refused");
        }
    }
    assert!(faults.is_empty(), "{} faults\n\n{}", faults.len(), faults.join("\n\n"));
}

#[test]
fn a_missing_script_and_wrong_arguments_are_refused() {
    let place = Place::new();
    for arguments in [&["run", "no-such.sql"][..], &["run"], &["runn", "job.sql"], &["run", "job.sql", "--parallelism", "0"]] {
        place.write("job.sql", "SELECT 1;");
        let output = place.command(arguments).output().expect("the binary starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
        assert!(!output.stderr.is_empty());
    }
}
