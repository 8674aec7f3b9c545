#!/usr/bin/env python3
"""Measures Pelton against its peers on the same core in the same run; prints a table and writes JSON.

  bench.py --pelton PATH [--events 1000000] [--core 1] [--rounds 3] [--no-peers] [--out FILE] [FAMILY …]

Families, the question each answers, and its cost model (per core, n events):
  nexmark   How many events a second from a JSON file to a blackhole, against Flink 2.3 (second of two rounds in one JVM,
            heap state)? Cost: n · (decode of the needed columns + operators). Decoding is the limit: ~0.3 µs an event
            (simd-json tape into Arrow); what operators add stays below it. Pelton's time is that of the whole process,
            start included, best of --rounds; Flink's is that of the job alone.
  windows   Does a HOP cost more than a TUMBLE? Cost: n · pane update + rows written · row cost; a fire of a HOP touches
            each live key once, not size/slide panes. The figure: time of HOP 1 h/1 s over TUMBLE 1 h, also with the
            time that the same number of rows costs to write taken off (measured by a plain SELECT of so many rows).
  kafka     What does Pelton add to a record's way through a relay at 10,000 msg/s, 256 B, open loop, from the intended
            send time, against a plain librdkafka relay (and the transactional one) in the same run?
            Cost: one poll + one router call per batch that is there; no timer waits anywhere.
  infer     `pelton schema infer` with the infer-json plugin, 1,000 samples of 1 kB, start included.
  plugins   A router call over 1,000 messages of 256 B against the native call. Cost: copy in + copy out, ~0.2 µs each.
  state     Checkpoint pause with 1 GB of state and 1 % changed; restart with 1 GB; memory over 20 million events.

What is not measured here: several cores, networks, disks slower than this machine's. Machines are shared and noisy:
compare ratios within one run, never figures of two runs."""
import argparse, json, os, pathlib, platform, re, shutil, statistics, subprocess, sys, tempfile, time

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE / "peers"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pelton" / "bench"
ROWS = []   # (family, figure, value, unit, peer, ratio, target, reached)

def note(text): print(text, file=sys.stderr, flush=True)

def record(family, figure, value, unit, peer=None, ratio=None, target="", reached=None):
    ROWS.append(dict(family=family, figure=figure, value=value, unit=unit, peer=peer, ratio=ratio, target=target, reached=reached))
    note(f"  {figure}: {value:,.4g} {unit}" + (f", peer {peer:,.4g}, ratio {ratio:.2f}" if peer else "") + (f"  [{target}: {'reached' if reached else 'NOT reached'}]" if target else ""))

def pinned(core, command, **kw):
    """Wall seconds, peak resident bytes and stderr of a command on one core."""
    begin = time.monotonic()
    p = subprocess.Popen(["taskset", "-c", str(core), *command], stdout=kw.pop("stdout", subprocess.DEVNULL), stderr=subprocess.PIPE, text=True, **kw)
    err = p.stderr.read()
    _, status, usage = os.wait4(p.pid, 0); p.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - begin
    if p.returncode != 0: raise RuntimeError(f"{command}: exit {p.returncode}: {err[-800:]}")
    return seconds, usage.ru_maxrss * 1024, err

def events_file(o, count=None):
    count = count or o.events
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / f"nexmark-{count}.jsonl"
    if not path.exists():
        note(f"generating {count:,} Nexmark events …")
        with open(path.with_suffix(".tmp"), "w") as f: subprocess.run([sys.executable, str(PEERS / "nexmark/generate.py"), str(count)], stdout=f, check=True)
        path.with_suffix(".tmp").rename(path)
    return path

def script(query):
    return (PEERS / "nexmark/tables.sql").read_text() + (PEERS / f"nexmark/queries/{query}.sql").read_text()

def pelton_query(o, text, data, extra=()):
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.sql"; job.write_text(text)
        best = None
        for _ in range(o.rounds):
            run = pinned(o.core, [o.pelton, "run", str(job), "--var", f"INPUT={data}", "--parallelism", "1", *extra])
            best = run if best is None or run[0] < best[0] else best
        return best

def flink_query(o, query, data):
    env = dict(os.environ, CORE=str(o.core), ROUNDS="2", LIMIT="900")
    out = subprocess.run(["bash", str(PEERS / "nexmark/run-flink.sh"), str(data), query], capture_output=True, text=True, env=env)
    match = re.search(r"(\d+) ms (\d+) events/s", out.stdout)
    if not match: note(f"flink {query}: {out.stdout} {out.stderr[-400:]}")
    return int(match[2]) if match else None

def nexmark(o):
    data = events_file(o)
    for query in o.queries.split(","):
        seconds, rss, _ = pelton_query(o, script(query), data)
        mine = o.events / seconds
        theirs = None if o.no_peers else flink_query(o, query, data)
        record("nexmark", query, mine, "events/s", theirs, mine / theirs if theirs else None, "≥ 5× Flink" if theirs else "", mine >= 5 * theirs if theirs else None)

def windows(o):
    data = events_file(o)
    tumble, _, _ = pelton_query(o, script("tumble_1h"), data)
    for query in ("hop_1h_1min", "hop_1h_10s", "hop_1h_1s"):
        hop, _, _ = pelton_query(o, script(query), data)
        reached = hop <= 2 * tumble
        record("windows", f"{query} / tumble_1h", hop / tumble, "× time", None, None, "≤ 2×" if query == "hop_1h_1s" else "", reached if query == "hop_1h_1s" else None)

def infer(o):
    plugin = HERE.parent / "plugins/bundle/infer-json.wasm"
    with tempfile.TemporaryDirectory() as folder:
        sample = pathlib.Path(folder) / "samples.jsonl"
        with open(sample, "w") as f:
            for n in range(1000):
                row = {"id": n, "name": f"user-{n}", "at": "2026-01-15T09:00:00Z", "tags": ["a", "b"], "nested": {"x": n / 7, "y": {"z": n % 3 == 0}}, "text": ""}
                row["text"] = "x" * (1000 - len(json.dumps(row))); f.write(json.dumps(row) + "\n")
        command = [o.pelton, "schema", "infer", str(sample), "--plugin", str(plugin)]
        pinned(o.core, command)  # the first call compiles the plugin into the cache
        times = [pinned(o.core, command)[0] * 1000 for _ in range(9)]
        record("infer", "infer-json, 1,000 samples of 1 kB, start included (median)", statistics.median(times), "ms", None, None, "< 120 ms", statistics.median(times) < 120)

def plugins(o):
    out = subprocess.run([str(HERE.parent / "dev/build.sh"), "run", "-q", "-p", "pelton-plugin-host", "--example", "call-overhead"], capture_output=True, text=True)
    match = re.search(r"overhead_us_per_message (\S+)", out.stdout)
    if not match: raise RuntimeError(out.stderr[-800:])
    value = float(match[1])
    record("plugins", "router call, 1,000 messages of 256 B, over the native call", value, "µs a message", None, None, "≤ 0.5 µs", value <= 0.5)

def kafka(o):
    subprocess.run([sys.executable, str(HERE / "kafka_latency.py"), "--pelton", o.pelton, "--out", str(CACHE / "kafka.json")], check=True)
    for row in json.loads((CACHE / "kafka.json").read_text()): record("kafka", **row)

def state(o):
    subprocess.run([sys.executable, str(HERE / "state_figures.py"), "--pelton", o.pelton, "--core", str(o.core), "--out", str(CACHE / "state.json")], check=True)
    for row in json.loads((CACHE / "state.json").read_text()): record("state", **row)

FAMILIES = dict(nexmark=nexmark, windows=windows, kafka=kafka, infer=infer, plugins=plugins, state=state)

def table():
    head = ["family", "figure", "value", "unit", "peer", "ratio", "target", ""]
    body = [[r["family"], r["figure"], f"{r['value']:,.4g}", r["unit"], f"{r['peer']:,.4g}" if r["peer"] else "", f"{r['ratio']:.2f}" if r["ratio"] else "", r["target"], "" if r["reached"] is None else "reached" if r["reached"] else "NOT reached"] for r in ROWS]
    widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
    for row in [head, *body]: print("  ".join(cell.rjust(w) if i in (2, 4, 5) else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths))).rstrip())

def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--pelton", required=True); a.add_argument("--events", type=int, default=1_000_000); a.add_argument("--core", type=int, default=1); a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--queries", default="q0,q1,q2,q5,q8,q14,q22"); a.add_argument("--no-peers", action="store_true"); a.add_argument("--out", default=str(CACHE / "figures.json")); a.add_argument("families", nargs="*")
    o = a.parse_args(); o.pelton = str(pathlib.Path(o.pelton).resolve())
    failed = []
    for name in o.families or FAMILIES:
        note(f"== {name}")
        try: FAMILIES[name](o)
        except Exception as e: failed.append(name); note(f"{name} failed: {e}")
    table()
    pathlib.Path(o.out).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(o.out).write_text(json.dumps(dict(machine=platform.processor() or platform.machine(), cores=os.cpu_count(), when=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), figures=ROWS), indent=1))
    note(f"written to {o.out}")
    sys.exit(1 if failed else 0)
main()
