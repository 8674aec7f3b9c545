#!/usr/bin/env python3
"""Runs SQL cases and compares with the expected rows.

  compare.py --run 'pelton run --output jsonl {sql}' [DIR|GROUP ...] [-v] [-j N] [--known FILE]

A case is a folder with case.sql and expected.jsonl (final rows, any order) or expected.error (must be refused: exit code not 0).
`{sql}` is a copy of case.sql in which ${DIR} is the case's folder. The runner prints one JSON object a line; an "op" field of
+I/+U adds the row and -U/-D removes it. Floats compare within 1e-9. FILE lists cases that differ on purpose or for now, a
line each: `group/name: reason`. Such a case must still fail: one that passes is reported, so that the list stays true.
Closes with 'N passed, N failed'."""
import argparse, collections, concurrent.futures, json, math, pathlib, shlex, subprocess, sys, tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE / "cases" if (HERE / "cases").is_dir() else HERE

def canonical(v):
    if isinstance(v, float): return ("num", float(f"{v:.9e}")) if math.isfinite(v) else ("num", str(v))
    if isinstance(v, bool) or v is None: return v
    if isinstance(v, int): return ("num", float(f"{v:.9e}")) if abs(v) < 2**53 else ("int", v)
    if isinstance(v, list): return ("list", tuple(canonical(x) for x in v))
    if isinstance(v, dict): return ("map", tuple(sorted((k, canonical(x)) for k, x in v.items())))
    return v

def rows(text, fold):
    bag = collections.Counter()
    for line in text.splitlines():
        if not line.strip(): continue
        o = json.loads(line)
        op = o.pop("op", "+I") if fold else "+I"
        key = tuple((k, canonical(v)) for k, v in o.items())
        bag[key] += 1 if op in ("+I", "+U") else -1
    return +bag, [k for k, n in bag.items() if n < 0]

def run(case, template, timeout):
    text = (case / "case.sql").read_text().replace("${DIR}", str(case))
    with tempfile.NamedTemporaryFile("w", suffix=".sql", delete=False) as f: f.write(text)
    try:
        p = subprocess.run(shlex.split(template.replace("{sql}", f.name)), capture_output=True, text=True, timeout=timeout, cwd=case)
    except subprocess.TimeoutExpired: return "timed out"
    finally: pathlib.Path(f.name).unlink(missing_ok=True)
    if (case / "expected.error").exists():
        if p.returncode == 0: return "accepted, but must be refused: " + (case / "expected.error").read_text().strip()[:160]
        if "panicked" in p.stderr: return "panicked: " + p.stderr.strip()[-200:]
        return None if p.stderr.strip() else "refused without a word"
    if p.returncode != 0: return f"exit {p.returncode}: " + p.stderr.strip()[-300:]
    try: got, negative = rows(p.stdout, True)
    except ValueError as e: return f"no JSON lines: {e}: {p.stdout[:120]!r}"
    want, _ = rows((case / "expected.jsonl").read_text(), False)
    if negative: return f"retracts rows that were never there: {negative[:2]}"
    if got == want: return None
    return f"missing {sum((want - got).values())}, extra {sum((got - want).values())}; missing e.g. {dict(next(iter(want - got), ()))} extra e.g. {dict(next(iter(got - want), ()))}"

def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--run", required=True); a.add_argument("-v", action="store_true"); a.add_argument("-j", type=int, default=2)
    a.add_argument("--timeout", type=float, default=30); a.add_argument("--known"); a.add_argument("where", nargs="*")
    o = a.parse_args()
    known = {l.split(":")[0].strip(): l.split(":", 1)[1].strip() for l in open(o.known) if ":" in l and not l.startswith("#")} if o.known else {}
    bases = [pathlib.Path(w).resolve() if pathlib.Path(w).is_dir() else ROOT / w for w in o.where] or [ROOT]
    cases = sorted({c.parent for b in bases for c in b.rglob("case.sql")})
    groups = collections.defaultdict(lambda: [0, 0])
    with concurrent.futures.ThreadPoolExecutor(o.j) as pool:
        for case, fault in zip(cases, pool.map(lambda c: run(c, o.run, o.timeout), cases)):
            name = f"{case.parent.name}/{case.name}"
            if name in known:
                if fault: print(f"known {name}: {known[name]}"); continue
                fault = f"passes, but {o.known} lists it: take it out"
            groups[case.parent.name][fault is not None] += 1
            if fault: print(f"FAIL {case.parent.name}/{case.name}: {fault}")
            elif o.v: print(f"ok   {case.parent.name}/{case.name}")
    for g, (p, f) in sorted(groups.items()): print(f"{g:15} {p:3} passed {f:3} failed")
    print(f"{sum(p for p, _ in groups.values())} passed, {sum(f for _, f in groups.values())} failed")
    sys.exit(any(f for _, f in groups.values()))
main()
