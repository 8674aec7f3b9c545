#!/usr/bin/env bash
# Every test, in the order in which a fault is cheapest to find. `dev/test.sh quick` leaves out those that need a broker.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/pelton/target}"
export PELTON="$CARGO_TARGET_DIR/debug/pelton"
begin=$SECONDS
step() { printf '\n== %s (after %d s)\n' "$1" "$((SECONDS - begin))"; }

step "SQL cases: Flink's own answers"
python3 tests/cases/compare.py -j 2 --known tests/cases/known-differences.txt --run "$PELTON run --output jsonl {sql}"

step "unit, operator, golden and job tests"
if [ "${1:-}" = quick ]; then
  dev/build.sh test --workspace -- --skip broker
else
  dev/build.sh test --workspace
fi

printf '\n== all tests passed in %d s\n' "$((SECONDS - begin))"
