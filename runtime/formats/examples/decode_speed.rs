//! How fast JSON lines become columns: `decode_speed FILE [ROUNDS]`, FILE made by the Nexmark generator.
//!
//! Measured: one core, batches of 8,192 records already in memory, decoder and column building, for the columns that
//! Nexmark q0 (all of bid), q5 (bid.auction and the times) and everything need. Not measured: reading the file, what
//! follows. Expected cost: each byte looked at once or twice (0.3 ns) plus about 10 ns for each value kept.

use std::{collections::BTreeMap, env, fs, hint::black_box, sync::Arc, time::Instant};

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use pelton_core::records::Records;

fn row(name: &str, columns: &[(&str, DataType)]) -> Field {
    let fields: Fields = columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect();
    Field::new(name, DataType::Struct(fields), true)
}

fn schemas() -> Vec<(&'static str, SchemaRef)> {
    let time = || DataType::Timestamp(TimeUnit::Millisecond, None);
    let (number, text) = (|| DataType::Int64, || DataType::Utf8);
    let person = [("id", number()), ("name", text()), ("emailAddress", text()), ("creditCard", text()), ("city", text()), ("state", text()), ("dateTime", time()), ("extra", text())];
    let auction = [
        ("id", number()), ("itemName", text()), ("description", text()), ("initialBid", number()), ("reserve", number()),
        ("dateTime", time()), ("expires", time()), ("seller", number()), ("category", number()), ("extra", text()),
    ];
    let bid = [("auction", number()), ("bidder", number()), ("price", number()), ("channel", text()), ("url", text()), ("dateTime", time()), ("extra", text())];
    let kind = || Field::new("event_type", DataType::Int32, true);
    let (person_time, auction_time) = (row("person", &[("dateTime", time())]), row("auction", &[("dateTime", time())]));
    let q0 = vec![kind(), person_time.clone(), auction_time.clone(), row("bid", &bid)];
    let q5 = vec![kind(), person_time, auction_time, row("bid", &[("auction", number()), ("dateTime", time())])];
    let all = vec![kind(), row("person", &person), row("auction", &auction), row("bid", &bid)];
    let whole_q5 = all.clone();
    vec![
        ("q0, nested columns pruned", Arc::new(Schema::new(q0))),
        ("q5, nested columns pruned", Arc::new(Schema::new(q5))),
        ("all columns", Arc::new(Schema::new(whole_q5))),
        ("event_type only", Arc::new(Schema::new(vec![kind()]))),
    ]
}

fn main() {
    let mut arguments = env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("usage: decode_speed FILE [ROUNDS]");
        return;
    };
    let rounds: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(5);
    let data = fs::read(&path).unwrap_or_default();
    let lines: Vec<&[u8]> = data.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect();
    let batches: Vec<Records> = lines
        .chunks(8_192)
        .map(|chunk| {
            let mut records = Records::default();
            chunk.iter().for_each(|line| records.values.push(Some(line)));
            records
        })
        .collect();
    println!("{} records, {:.0} bytes each", lines.len(), data.len() as f64 / lines.len() as f64);
    for (name, schema) in schemas() {
        let Ok(mut decoder) = pelton_formats::decoder("json", &BTreeMap::new(), &schema, &schema) else { return };
        let mut best = f64::MAX;
        for _ in 0..rounds {
            let start = Instant::now();
            for records in &batches {
                match decoder.decode(records) {
                    Ok(decoded) => {
                        assert!(decoded.bad.is_empty(), "{:?}", decoded.bad[0]);
                        black_box(decoded.batch);
                    }
                    Err(error) => eprintln!("{error}"),
                }
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        let (rows, bytes) = (lines.len() as f64 / best / 1e6, data.len() as f64 / best / 1e6);
        println!("{name:28} {rows:6.2} M rows/s   {bytes:6.0} MB/s");
    }
    infer_speed(&lines);
}

/// Schema inference over 1,000 samples of about 1 kB, made of four records each.
fn infer_speed(lines: &[&[u8]]) {
    let samples: Vec<Vec<u8>> = lines
        .chunks_exact(4)
        .take(1_000)
        .map(|four| {
            let mut sample = Vec::new();
            for (name, line) in ["a", "b", "c", "d"].into_iter().zip(four) {
                sample.extend_from_slice(if sample.is_empty() { b"{\"" } else { b",\"" });
                sample.extend_from_slice(name.as_bytes());
                sample.extend_from_slice(b"\":");
                sample.extend_from_slice(line);
            }
            sample.push(b'}');
            sample
        })
        .collect();
    let start = Instant::now();
    match pelton_formats::infer::infer(&samples) {
        Ok(schema) => {
            let found = start.elapsed();
            let misfits = schema.check(&samples, false).map_or(0, |bad| bad.len());
            println!("infer {} samples of 1 kB: {found:.1?}, with check {:.1?}, {misfits} misfits", samples.len(), start.elapsed());
        }
        Err(error) => println!("infer: {error}"),
    }
}
