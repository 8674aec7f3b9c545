#!/usr/bin/env bash
# The demo between topics, exactly once: fills two topics, runs the statements of job.sql over them, kills the job with
# kill -9 half-way, starts it again, and compares what read_committed readers see with the file demo's rows.
# A broker is started for it (tests/kafka/kafka.sh) unless BROKERS=host:port names one. Usage: demo-kafka.sh PELTON
set -euo pipefail
pelton="$1"; here="$(cd "$(dirname "$0")" && pwd)"; root="$here/../.."; out="$(mktemp -d)"
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
if [ -z "${BROKERS:-}" ]; then
  export BASE_PORT="${BASE_PORT:-19592}" AUTO_CREATE=true PARTITIONS=4
  export SERVICES_HOME="${SERVICES_HOME:-$out/services}"
  say "Starting a Kafka broker"
  # Read into a variable of its own: `BROKERS` also tells the script how many brokers to start.
  servers="$(BROKERS=1 "$root/tests/kafka/kafka.sh" start)"; export BROKERS="$servers"
  trap 'BROKERS=1 "$root/tests/kafka/kafka.sh" stop' EXIT
  echo "  $BROKERS"
fi
export PREFIX="${PREFIX:-demo-$$-}" OUT="$out"
cd "$here"
{ cat tables-kafka.sql; sed -n '/^-- statements/,$p' job.sql; } > "$out/job.sql"
sed "s|\.\./\.\./plugins|$root/plugins|g" -i "$out/job.sql"

say "1. Filling ${PREFIX}ai.inference.request and …response"
"$pelton" run load-kafka.sql

say "2. The job, killed with kill -9 half-way"
"$pelton" run "$out/job.sql" --state-dir "$out/state" --set "pelton.source.rows-per-second=${RATE:-3000}" & job=$!
sleep "${KILL_AFTER:-2}"; kill -9 "$job" 2>/dev/null || true; wait "$job" 2>/dev/null || true

say "3. Started again"
"$pelton" run "$out/job.sql" --state-dir "$out/state"

say "4. What read_committed readers see, against the file demo"
"$pelton" run job.sql --var "OUT=$out/files" --state-dir "$out/files-state" 2> /dev/null
count_topic() { # count_topic TOPIC: records a read_committed reader gets, and how many of them are distinct
  cat > "$out/count.sql" <<SQL
CREATE TABLE t (line STRING) WITH ('connector' = 'kafka', 'topic' = '$1', 'properties.bootstrap.servers' = '${BROKERS}', 'format' = 'raw',
  'properties.group.id' = '${PREFIX}count', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset');
SELECT line FROM t;
SQL
  "$pelton" run "$out/count.sql" --output jsonl 2> /dev/null | LC_ALL=C sort > "$out/rows"; printf '%d %d' "$(wc -l < "$out/rows")" "$(uniq "$out/rows" | wc -l)"
}
fault=0
compare() { # compare NAME WANT TOPIC…
  local name="$1" want="$2" rows=0 distinct=0 r d; shift 2
  for topic in "$@"; do read -r r d <<< "$(count_topic "$topic")"; rows=$((rows + r)); distinct=$((distinct + d)); done
  printf '  %-9s %6d records, %6d distinct, %6d rows in the file demo' "$name" "$rows" "$distinct" "$want"
  if [ "$rows" = "$want" ] && [ "$rows" = "$distinct" ]; then echo "   equal"; else echo "   DIFFERS"; fault=1; fi
}
lines() { find "$1" -type f -not -name '.*' -exec cat {} + | wc -l; }
compare outcomes "$(lines "$out/files/outcomes")" "${PREFIX}ai.inference.outcome"
compare features "$(lines "$out/files/features")" "${PREFIX}ai.inference.features"
compare routed "$(lines "$out/files/routed")" ai.code ai.summarise ai.translate ai.analytics ai.restricted ai.general
exit "$fault"
