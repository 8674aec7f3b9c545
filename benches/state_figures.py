#!/usr/bin/env python3
"""State: memory over many events, checkpoint pause and restart time with a gigabyte of state.

  state_figures.py --pelton PATH --core N --out FILE [--keys 4000000] [--events 20000000]

Window state: `keys` keys in one long TUMBLE, each with a 200-byte text as MAX, and a one-day interval join side. Join
state is filled by rows that wait for partners. What is measured:
  pause    the longest time between two rows of output of a pass-through query in the same job while checkpoints run
           with 1 % of the keys changing between two of them (rows are stamped as they are written)
  restart  kill -9, start again: time to the first new output row
  memory   peak resident bytes of the process over `events` events, against pelton.state.memory + 300 MB"""
import argparse, json, os, pathlib, random, signal, subprocess, sys, tempfile, time

def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--pelton", required=True); a.add_argument("--core", default="1"); a.add_argument("--out", required=True)
    a.add_argument("--keys", type=int, default=4_000_000); a.add_argument("--events", type=int, default=20_000_000)
    o = a.parse_args()
    work = pathlib.Path(tempfile.mkdtemp()); rows = []
    budget = 512 << 20

    def job(name, fields, number, query, extra=""):
        (work / f"{name}.sql").write_text(f"""SET 'pipeline.name' = '{name}';
SET 'pelton.state.memory' = '512 mb';
SET 'execution.checkpointing.interval' = '5 s';
CREATE TABLE gen ({fields}) WITH ('connector' = 'datagen', {number}{extra});
{query}
""")
        return work / f"{name}.sql"

    # Memory: state far larger than the budget, events one after the other.
    memory = job("memory", "id BIGINT, pad STRING, n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts",
                 f"'number-of-rows' = '{o.events}', 'fields.id.kind' = 'random', 'fields.id.min' = '0', 'fields.id.max' = '{o.keys}', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{o.events}', 'fields.pad.length' = '100'",
                 "CREATE TABLE out (id BIGINT, c BIGINT, m STRING) WITH ('connector' = 'blackhole');\nINSERT INTO out SELECT id, COUNT(*), MAX(pad) FROM TABLE(TUMBLE(TABLE gen, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY id, window_start, window_end;")
    begin = time.monotonic()
    p = subprocess.Popen(["taskset", "-c", o.core, o.pelton, "run", str(memory), "--parallelism", "1", "--state-dir", str(work / "memory-state")], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    err = p.stderr.read(); _, status, usage = os.wait4(p.pid, 0)
    if status != 0: raise RuntimeError(f"memory job: {err[-600:]}")
    peak, seconds = usage.ru_maxrss * 1024, time.monotonic() - begin
    rows.append(dict(figure=f"peak memory, {o.events:,} events, {o.keys:,} keys, budget 512 MB", value=peak / 2**20, unit="MB", target="≤ budget + 300 MB", reached=peak <= budget + (300 << 20)))
    rows.append(dict(figure="events a second in that run", value=o.events / seconds, unit="events/s"))

    # Pause and restart: a long-running job with about 1 GB of window and join state.
    folder = work / "big-state"; out = work / "out"
    count = 100_000_000
    big = job("big", "id BIGINT, pad STRING, n BIGINT, ts AS TO_TIMESTAMP_LTZ(n, 3), WATERMARK FOR ts AS ts",
              f"'number-of-rows' = '{count}', 'rows-per-second' = '150000', 'fields.id.kind' = 'random', 'fields.id.min' = '0', 'fields.id.max' = '{o.keys}', 'fields.n.kind' = 'sequence', 'fields.n.start' = '1', 'fields.n.end' = '{count}', 'fields.pad.length' = '150'",
              f"""CREATE TABLE passed (n BIGINT) WITH ('connector' = 'print');
CREATE TABLE agg (id BIGINT, c BIGINT, m STRING) WITH ('connector' = 'blackhole');
EXECUTE STATEMENT SET BEGIN
INSERT INTO passed SELECT n FROM gen WHERE MOD(n, 100) = 0;
INSERT INTO agg SELECT id, COUNT(*), MAX(pad) FROM TABLE(TUMBLE(TABLE gen, DESCRIPTOR(ts), INTERVAL '10' DAY)) GROUP BY id, window_start, window_end;
END;""")
    def start(): return subprocess.Popen(["taskset", "-c", o.core, o.pelton, "run", str(big), "--parallelism", "1", "--state-dir", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)
    def size(): return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) if folder.exists() else 0
    p = start(); fd = p.stdout.fileno(); longest, last, begin = 0.0, None, time.monotonic()
    reached = False
    while time.monotonic() - begin < 240:
        if not os.read(fd, 1 << 16): break
        now = time.monotonic()
        if size_known := (now - begin) > 1 and int(now - begin) % 5 == 0: reached = reached or size() > (1 << 30)
        if last is not None and reached: longest = max(longest, now - last)
        last = now
        if reached and now - begin > 60: break
    p.send_signal(signal.SIGKILL); p.wait()
    state = size()
    rows.append(dict(figure=f"longest gap between output rows while checkpoints run, {state / 2**30:.1f} GB of state", value=longest * 1000, unit="ms", target="≤ 50 ms", reached=longest <= 0.05))
    begin = time.monotonic(); p = start(); os.read(p.stdout.fileno(), 1); first = time.monotonic() - begin
    p.send_signal(signal.SIGKILL); p.wait()
    rows.append(dict(figure=f"restart with {state / 2**30:.1f} GB of state, first row out", value=first, unit="s", target="≤ 5 s", reached=first <= 5))
    pathlib.Path(o.out).write_text(json.dumps(rows))
main()
