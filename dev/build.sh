#!/usr/bin/env bash
# Runs cargo with the project's target directory, and says what it does and how long it took.
#   dev/build.sh build -p pelton-cli
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/pelton/target}"
if [ "${1:-}" = build ] && [ ! -e "$CARGO_TARGET_DIR/debug/pelton" ]; then
  echo "build: first build on this machine: RocksDB, DataFusion, wasmtime and librdkafka are compiled once, about 30 minutes on 2 cores; later builds take seconds to minutes"
fi
begin=$SECONDS
# CI and dumb terminals get one line a minute instead of a progress bar.
if [ ! -t 2 ]; then
  ( while sleep 60; do echo "build: cargo $1 … $(( (SECONDS - begin) / 60 )) min"; done ) & ticker=$!
  trap 'kill $ticker 2>/dev/null || true' EXIT
  cargo "$@"
else
  cargo "$@"
fi
echo "build: cargo $1 took $((SECONDS - begin)) s (in $CARGO_TARGET_DIR)"
