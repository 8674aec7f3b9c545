#!/usr/bin/env bash
# Every figure, or those named: benches/run.sh PELTON [nexmark|windows|kafka|infer|plugins|state …]. See bench.py.
set -euo pipefail
pelton="$1"; shift
exec python3 "$(dirname "$0")/bench.py" --pelton "$pelton" "$@"
