#!/usr/bin/env bash
# A real Apache Kafka (KRaft) for tests and demos, from Maven's packages. Needs a JDK 17 and mvn.
#   kafka.sh install | start | stop [ID] | kill ID | kill | tool NAME ARGS…
# `start` prints the bootstrap servers as its last line and returns when every broker answers. Brokers that run already
# stay. `stop` and `kill` end brokers by their pid files, all of them or the one of that ID, and wait until they are gone.
# Tools (with --bootstrap-server added): topics, groups, configs, offsets, transactions, or a class.
#   BASE_PORT (19092)      broker i listens on BASE_PORT+i, its controller on BASE_PORT+100+i
#   BROKERS (1)            how many
#   SERVICES_HOME          folder of data, logs and pid files (default: pelton/services in the user's cache folder)
#   KAFKA_LIBS             folder of Kafka's jars, downloaded once and shared by all (default: in the user's cache folder)
#   KAFKA_VERSION, HEAP (512m), PARTITIONS (4), AUTO_CREATE (true), LOG (warn)
set -euo pipefail

here="$(cd "$(dirname "$0")" && pwd)"
version="${KAFKA_VERSION:-4.2.0}"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/pelton/services"
home="${SERVICES_HOME:-$cache}/kafka"
libs="${KAFKA_LIBS:-$cache/kafka-libs-$version}"
base="${BASE_PORT:-19092}"
count="${BROKERS:-1}"
heap="${HEAP:-512m}"

last_broker() { echo $((count - 1)); }

run_java() {
  java -Xmx"$heap" -Xms128m -XX:+UseG1GC -Dlog4j2.configurationFile="$home/log4j2.properties" -cp "$libs/*" "$@"
}

# Another process may be downloading: the second waits for the first.
install_libs() {
  mkdir -p "$home"
  if [ ! -d "$libs" ]; then
    mkdir -p "$(dirname "$libs")"
    (
      flock 9
      [ -d "$libs" ] && exit 0
      echo "kafka: downloading Apache Kafka $version (once, about 120 MB)" >&2
      rm -rf "$libs.part"
      mvn -q -f "$here/pom.xml" -Dkafka.version="$version" dependency:copy-dependencies -DoutputDirectory="$libs.part" >&2
      mv "$libs.part" "$libs"
    ) 9> "$libs.lock"
  fi
  printf '%s\n' "rootLogger.level=${LOG:-warn}" rootLogger.appenderRef.c.ref=c appender.c.name=c appender.c.type=CONSOLE \
    appender.c.layout.type=PatternLayout 'appender.c.layout.pattern=%d{ISO8601} %p %c{1} %m%n' > "$home/log4j2.properties"
}

servers() {
  local list=""
  for i in $(seq 0 "$(last_broker)"); do list="$list,127.0.0.1:$((base + i))"; done
  echo "${list:1}"
}

is_alive() { [ -e "$1/pid" ] && kill -0 "$(cat "$1/pid")" 2> /dev/null; }

configure() { # ID FOLDER VOTERS
  local replicas=$((count < 3 ? count : 3))
  cat > "$2/server.properties" << PROPERTIES
process.roles=broker,controller
node.id=$1
controller.quorum.voters=$3
listeners=PLAINTEXT://127.0.0.1:$((base + $1)),CONTROLLER://127.0.0.1:$((base + 100 + $1))
advertised.listeners=PLAINTEXT://127.0.0.1:$((base + $1))
controller.listener.names=CONTROLLER
log.dirs=$2/data
num.partitions=${PARTITIONS:-4}
auto.create.topics.enable=${AUTO_CREATE:-true}
offsets.topic.replication.factor=$replicas
offsets.topic.num.partitions=8
transaction.state.log.replication.factor=$replicas
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=8
group.initial.rebalance.delay.ms=0
group.coordinator.rebalance.protocols=classic,consumer
log.cleaner.backoff.ms=1000
PROPERTIES
}

start() {
  install_libs
  local voters=""
  for i in $(seq 0 "$(last_broker)"); do voters="$voters,$i@127.0.0.1:$((base + 100 + i))"; done
  [ -e "$home/cluster" ] || run_java kafka.tools.StorageTool random-uuid > "$home/cluster" 2> /dev/null
  for i in $(seq 0 "$(last_broker)"); do
    local dir="$home/broker-$i"
    mkdir -p "$dir"
    is_alive "$dir" && continue
    configure "$i" "$dir" "${voters:1}"
    [ -e "$dir/data/meta.properties" ] || run_java kafka.tools.StorageTool format -t "$(cat "$home/cluster")" -c "$dir/server.properties" > "$dir/format.log" 2>&1
    java -Xmx"$heap" -Xms128m -XX:+UseG1GC -Dlog4j2.configurationFile="$home/log4j2.properties" -cp "$libs/*" \
      kafka.Kafka "$dir/server.properties" > "$dir/log" 2>&1 < /dev/null &
    echo $! > "$dir/pid"
  done
  for i in $(seq 0 "$(last_broker)"); do
    local dir="$home/broker-$i" answers=""
    for _ in $(seq 1 600); do
      if (exec 3<> "/dev/tcp/127.0.0.1/$((base + i))") 2> /dev/null; then answers=yes; break; fi
      is_alive "$dir" || break
      sleep 0.1
    done
    if [ -z "$answers" ]; then
      echo "kafka: broker $i does not answer on port $((base + i)); the end of $dir/log:" >&2
      tail -n 20 "$dir/log" >&2
      exit 1
    fi
  done
  servers
}

end() { # SIGNAL [ID]
  for dir in "$home"/broker-${2:-*}; do
    [ -e "$dir/pid" ] || continue
    local pid
    pid="$(cat "$dir/pid")"
    kill "-$1" "$pid" 2> /dev/null || true
    for _ in $(seq 1 300); do kill -0 "$pid" 2> /dev/null || break; sleep 0.1; done
    rm -f "$dir/pid"
  done
}

tool() { # NAME ARGS…
  local name="$1" class
  shift
  case "$name" in
    topics) class=org.apache.kafka.tools.TopicCommand ;;
    groups) class=org.apache.kafka.tools.consumer.group.ConsumerGroupCommand ;;
    configs) class=kafka.admin.ConfigCommand ;;
    offsets) class=org.apache.kafka.tools.GetOffsetShell ;;
    transactions) class=org.apache.kafka.tools.TransactionsCommand ;;
    *) class="$name" ;;
  esac
  heap=256m
  run_java "$class" --bootstrap-server "$(servers)" "$@"
}

case "${1:-}" in
  install) install_libs; echo "kafka $version in $libs" ;;
  start) start ;;
  stop) end TERM "${2:-}" ;;
  kill) end KILL "${2:-}" ;;
  tool) shift; tool "$@" ;;
  *) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
