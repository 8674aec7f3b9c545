-- The demo's tables as topics: put before the statements of job.sql by demo-kafka.sh.
SET 'pipeline.name' = 'inference-kafka';
SET 'execution.checkpointing.interval' = '500 ms';
SET 'table.exec.source.idle-timeout' = '5 s';

CREATE TABLE requests (
  request_id STRING, tenant STRING, user_id STRING, prompt STRING, model_version STRING, tokens INT, ts TIMESTAMP(3),
  header_model_version STRING METADATA FROM 'headers.model_version' VIRTUAL,
  header_prompt_hash STRING METADATA FROM 'headers.prompt_hash' VIRTUAL,
  trace_id STRING METADATA FROM 'headers.trace_id' VIRTUAL,
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH ('connector' = 'kafka', 'topic' = '${PREFIX}ai.inference.request', 'properties.bootstrap.servers' = '${BROKERS}',
        'properties.group.id' = '${PREFIX}inference', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json');

CREATE PLUGIN infer WITH ('path' = '../../plugins/bundle/infer-json.wasm');
CREATE TABLE responses (
  answered_at AS TO_TIMESTAMP(ts),
  WATERMARK FOR answered_at AS answered_at - INTERVAL '2' SECOND
) WITH ('connector' = 'kafka', 'topic' = '${PREFIX}ai.inference.response', 'properties.bootstrap.servers' = '${BROKERS}',
        'properties.group.id' = '${PREFIX}inference', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json',
        'pelton.schema.infer' = 'infer');

CREATE TABLE routed (
  request_id STRING, tenant STRING, model_version STRING, prompt_hash STRING, prompt STRING, ts TIMESTAMP(3), trace_id STRING
) WITH ('connector' = 'kafka', 'topic' = '${PREFIX}ai.general', 'properties.bootstrap.servers' = '${BROKERS}', 'format' = 'json',
        'pelton.router' = 'intent', 'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '${PREFIX}inference');

CREATE TABLE outcomes (
  request_id STRING, tenant STRING, model_version STRING, status STRING, latency_ms BIGINT, region STRING, ts TIMESTAMP(3)
) WITH ('connector' = 'kafka', 'topic' = '${PREFIX}ai.inference.outcome', 'properties.bootstrap.servers' = '${BROKERS}', 'format' = 'json',
        'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '${PREFIX}inference');

CREATE TABLE features (
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), tenant STRING, model_version STRING,
  requests BIGINT, errors BIGINT, timeouts BIGINT, tokens BIGINT, users BIGINT, latency_p95 DOUBLE
) WITH ('connector' = 'kafka', 'topic' = '${PREFIX}ai.inference.features', 'properties.bootstrap.servers' = '${BROKERS}', 'format' = 'json',
        'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '${PREFIX}inference');

