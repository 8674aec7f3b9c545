#!/usr/bin/env python3
"""The demo's input: requests and responses of an AI inference gateway, the same for the same seed.

  generate.py [REQUESTS=6000] [SEED=7]     writes data/requests.jsonl and data/responses.jsonl beside this file

Twelve minutes of traffic of four tenants and three model versions. Some records are out of order (up to 1.5 s), some
late (5 to 40 s), some malformed, some requests are never answered, some answers come after the 30 s that are waited."""
import json, pathlib, random, sys
from datetime import datetime, timedelta

count = int(sys.argv[1]) if len(sys.argv) > 1 else 6000
R = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 7)
BEGIN = datetime(2026, 1, 15, 9, 0, 0)
SPAN_MS = 12 * 60 * 1000
TENANTS = ["acme", "globex", "initech", "umbrella"]
MODELS = ["m-7b-1", "m-7b-2", "m-70b-1"]
LANG = ["python", "rust", "javascript", "go", "sql"]
THING = ["a parser", "a web server", "a binary search", "a rate limiter", "a retry loop", "a csv reader", "an LRU cache"]
TOPIC = ["the quarterly report", "this meeting transcript", "the incident timeline", "our privacy policy", "the release notes", "this research paper"]
TONGUE = ["German", "French", "Spanish", "Japanese", "Italian", "Polish"]
PHRASE = ["where is the station", "the invoice is overdue", "thank you for your patience", "please restart the device", "the order has shipped"]
METRIC = ["revenue", "active users", "churn", "error rate", "average order value", "latency"]
CUT = ["per month", "by country", "for the last quarter", "by product line", "per week", "by customer segment"]
CHAT = ["hi, how are you today?", "tell me a joke about penguins", "what is your favourite colour?", "good morning!", "I am bored, entertain me"]

def prompt():
    kind = R.random()
    if kind < 0.30: text = R.choice([f"write {R.choice(THING)} in {R.choice(LANG)}", f"fix the bug in this {R.choice(LANG)} function", f"refactor {R.choice(THING)} written in {R.choice(LANG)}", f"explain this {R.choice(LANG)} stack trace"])
    elif kind < 0.50: text = R.choice([f"summarise {R.choice(TOPIC)} in three sentences", f"give me the key points of {R.choice(TOPIC)}", f"shorten {R.choice(TOPIC)} to one paragraph"])
    elif kind < 0.70: text = R.choice([f"translate '{R.choice(PHRASE)}' into {R.choice(TONGUE)}", f"how do you say '{R.choice(PHRASE)}' in {R.choice(TONGUE)}"])
    elif kind < 0.88: text = R.choice([f"show {R.choice(METRIC)} {R.choice(CUT)}", f"plot {R.choice(METRIC)} {R.choice(CUT)} as a chart", f"which region had the highest {R.choice(METRIC)} {R.choice(CUT)}?"])
    else: text = R.choice(CHAT)
    if R.random() < 0.05: text += f" and send it to {R.choice(['ann', 'bob', 'eve'])}@example.com"
    return text

def stamp(ms): return (BEGIN + timedelta(milliseconds=ms)).strftime("%Y-%m-%d %H:%M:%S.") + f"{ms % 1000:03d}"

requests, responses = [], []
for n in range(count):
    at = int(n * SPAN_MS / count) + R.randrange(200)
    tenant = R.choices(TENANTS, [50, 30, 15, 5])[0]
    model = R.choices(MODELS, [60, 25, 15])[0]
    tokens = int(R.lognormvariate(5, 0.8)) + 1
    record = {"request_id": f"r{n:06d}", "tenant": tenant, "user_id": f"u{R.randrange(40)}", "prompt": prompt(),
              "model_version": model, "tokens": tokens, "ts": stamp(at)}
    line = json.dumps(record, ensure_ascii=False)
    arrives = at + R.randrange(1500)                                   # out of order, within the watermark's bound
    if R.random() < 0.004: arrives = at + R.randrange(5_000, 40_000)   # late
    fault = R.random()
    if fault < 0.001: line = line[: len(line) // 2]                    # cut off
    elif fault < 0.002: line = json.dumps(record | {"tokens": "many"}) # wrong type
    elif fault < 0.003: line = json.dumps(record | {"ts": None})       # no event time
    requests.append((arrives, n, line))
    if R.random() < 0.03: continue                                     # never answered
    latency = int(R.lognormvariate(7.2 if model == "m-70b-1" else 6.2, 0.6)) + 20
    if R.random() < 0.01: latency = R.randrange(31_000, 45_000)        # answered after the time that is waited
    status = R.choices(["ok", "error", "overloaded"], [94, 4, 2])[0]
    answer = {"request_id": record["request_id"], "status": status, "latency_ms": latency, "output_tokens": 0 if status != "ok" else int(R.lognormvariate(5.5, 0.7)),
              "model": {"version": model, "region": R.choice(["eu-1", "us-1", "us-2"])}, "ts": stamp(at + latency)}
    line = json.dumps(answer)
    if R.random() < 0.001: line = line.replace('"status"', "status")   # malformed
    responses.append((at + latency + R.randrange(1500), n, line))

here = pathlib.Path(__file__).resolve().parent / "data"
for name, rows in (("requests", requests), ("responses", responses)):
    text = "".join(line + "\n" for _, _, line in sorted(rows))
    (here / f"{name}.jsonl").write_text(text, encoding="utf-8")
    print(f"{name}.jsonl: {len(rows)} records, {len(text.encode()) // 1024} kB")
