#!/usr/bin/env bash
# The demo over files: the job runs through once; a second run is killed with kill -9 half-way and started again; both
# must have written the same rows. Usage: demo.sh PELTON [OUT]
set -euo pipefail
pelton="$1"; out="${2:-$(mktemp -d)}"
cd "$(dirname "$0")"
rate="${RATE:-3000}"   # rows a second and source, so that there is something to watch and to kill
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }

# rows DIR: every visible row under it, prefixed by its sub-folder, sorted
rows() { (cd "$1" && find . -type f -not -name '.*' -print0 | sort -z | while IFS= read -r -d '' file; do sed "s|^|$(dirname "$file") |" "$file"; done | LC_ALL=C sort); }
lines() { rows "$1" | wc -l; }
run() { "$pelton" run job.sql --var "OUT=$1" --state-dir "$1/state" "${@:2}"; }

say "1. The whole job, uninterrupted"
rm -rf "$out"/reference "$out"/result
run "$out/reference" 2> >(tee "$out.log" >&2)
for sink in routed outcomes features; do printf '  %-9s %6d rows\n' "$sink" "$(lines "$out/reference/$sink")"; done

say "2. The same job, slowed down, killed with kill -9 half-way"
"$pelton" run job.sql --var "OUT=$out/result" --state-dir "$out/result/state" --set "pelton.source.rows-per-second=$rate" & job=$!
sleep "${KILL_AFTER:-1.2}"
kill -9 "$job" 2>/dev/null || { echo "the job had already ended: lower RATE or KILL_AFTER"; exit 1; }
wait "$job" 2>/dev/null || true
for sink in routed outcomes features; do printf '  %-9s %6d rows so far\n' "$sink" "$(lines "$out/result/$sink" 2>/dev/null || echo 0)"; done

say "3. Started again: it goes on from its last checkpoint"
run "$out/result"

say "4. Compared"
fault=0
for sink in routed outcomes features; do
  if cmp -s <(rows "$out/reference/$sink") <(rows "$out/result/$sink"); then
    printf '  %-9s %6d rows, equal to the uninterrupted run\n' "$sink" "$(lines "$out/result/$sink")"
  else
    printf '  %-9s DIFFERS\n' "$sink"; diff <(rows "$out/reference/$sink") <(rows "$out/result/$sink") | head -5; fault=1
  fi
done
[ "$fault" = 0 ] || exit 1

say "Prompts routed by meaning"
for topic in "$out"/result/routed/*/; do printf '  %-14s %5d   e.g. %s\n' "$(basename "$topic")" "$(lines "$topic")" "$(rows "$topic" | head -1 | sed -E 's/.*"prompt":"([^"]*)".*/\1/' | cut -c1-60)"; done

say "A minute of features, every second (the last three of acme's m-7b-1)"
rows "$out/result/features" | sed 's/^[^{]*//' | grep '"tenant":"acme","model_version":"m-7b-1"' | tail -3

say "Answers that did not come in time"
rows "$out/result/outcomes" | grep -c '"status":"timeout"' | sed 's/$/ requests timed out/; s/^/  /'

say "Dead letters: what could not be read, and why"
"$pelton" dlq ls --state-dir "$out/result/state" | head -8
printf '\nResults are in %s\n' "$out/result"
