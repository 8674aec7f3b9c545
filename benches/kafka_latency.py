#!/usr/bin/env python3
"""Latency of Kafka → intent-router → Kafka against plain librdkafka relays, all in one run on one machine.

  kafka_latency.py --pelton PATH --out FILE [--rate 10000] [--seconds 15]

Open loop: each record carries the time it was meant to be sent at, so a stall counts for every record behind it. The
floor (peers/kafka-floor) is built on first use. Each pair is measured twice, in turn; the better of each is compared."""
import argparse, json, os, pathlib, re, subprocess, sys, tempfile, time
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "pelton"

JOB = """SET 'pipeline.name' = 'latency-{n}';
SET 'execution.checkpointing.interval' = '{interval}';
CREATE PLUGIN intent WITH ('path' = '{root}/plugins/bundle/intent-router.wasm', 'config' = '{{"threshold": 0.5, "fallback": "{to}", "routes": [{{"topic": "{to}", "examples": ["write a function", "fix the bug"]}}]}}');
CREATE TABLE source (value BYTES) WITH ('connector' = 'kafka', 'topic' = '{from_}', 'properties.bootstrap.servers' = '{brokers}', 'properties.group.id' = 'latency-{n}', 'scan.startup.mode' = 'earliest-offset', 'format' = 'raw');
CREATE TABLE sink (value BYTES) WITH ('connector' = 'kafka', 'topic' = '{to}', 'properties.bootstrap.servers' = '{brokers}', 'format' = 'raw', 'pelton.router' = 'intent', 'properties.linger.ms' = '1', 'sink.delivery-guarantee' = '{guarantee}', 'sink.transactional-id-prefix' = 'latency-{n}');
INSERT INTO sink SELECT value FROM source;
"""

def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--pelton", required=True); a.add_argument("--out", required=True); a.add_argument("--rate", type=int, default=10_000); a.add_argument("--seconds", type=int, default=15)
    o = a.parse_args()
    floor = CACHE / "floor-target/release/kafka-floor"
    subprocess.run(["cargo", "build", "-q", "--release", "--manifest-path", str(HERE / "peers/kafka-floor/Cargo.toml"), "--target-dir", str(CACHE / "floor-target")], check=True)
    work = pathlib.Path(tempfile.mkdtemp())
    env = dict(os.environ, BASE_PORT="19692", PARTITIONS="1", SERVICES_HOME=os.environ.get("SERVICES_HOME", str(CACHE / "services")))
    kafka = lambda *args: subprocess.run([str(ROOT / "tests/kafka/kafka.sh"), *args], env=env, check=True, capture_output=True, text=True).stdout.strip().splitlines()[-1:]
    brokers = kafka("start")[0]
    def figures(text): return tuple(float(x) for x in re.search(r"p50 (\S+) p90 \S+ p99 (\S+)", text).groups())
    def relay(mode, *commit): return figures(subprocess.run([str(floor), brokers, mode, str(o.rate), str(o.seconds), "1", *commit], capture_output=True, text=True, check=True).stdout)
    def through(n, guarantee, interval):
        names = dict(FROM=f"lat-in-{n}", TO=f"lat-out-{n}")
        job = work / f"job-{n}.sql"
        job.write_text(JOB.format(n=n, interval=interval, root=ROOT, from_=names["FROM"], to=names["TO"], brokers=brokers, guarantee=guarantee))
        meter = subprocess.Popen([str(floor), brokers, "external", str(o.rate), str(o.seconds), "1"], env=dict(os.environ, **names), stdout=subprocess.PIPE, text=True)
        time.sleep(2)
        pelton = subprocess.Popen([o.pelton, "run", str(job), "--parallelism", "1", "--state-dir", str(work / f"state-{n}")], stderr=subprocess.PIPE, text=True)
        out, _ = meter.communicate(timeout=o.seconds + 60)
        pelton.terminate(); err = pelton.communicate()[1]
        if "p50" not in out: raise RuntimeError(out + err[-600:])
        return figures(out)
    rows, stamp = [], int(time.time())
    try:
        for label, mode, commit, guarantee, interval in (("at least once", "relay", (), "at-least-once", "1 s"), ("exactly once, commit every 5 ms", "relay-txn", ("5",), "exactly-once", "5 ms")):
            floors, ours = [], []
            for n in range(2):
                floors.append(relay(mode, *commit)); ours.append(through(f"{stamp}-{mode}-{n}", guarantee, interval))
            for i, quantile in enumerate(("p50", "p99")):
                peer, value = min(f[i] for f in floors), min(m[i] for m in ours)
                rows.append(dict(figure=f"relay through intent-router, {label}, {quantile}", value=value, unit="ms", peer=peer, ratio=value / peer, target="≤ 1.3× the plain relay", reached=value <= 1.3 * peer))
    finally: kafka("stop")
    pathlib.Path(o.out).write_text(json.dumps(rows))
main()
