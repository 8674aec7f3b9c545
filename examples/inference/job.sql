-- The main job: an AI inference gateway's requests and responses, from raw records to features.
--   prompts are routed by meaning to ai.* topics · requests meet their responses within 30 s (timeouts show) ·
--   features per tenant and model over the last minute, every second · what cannot be read goes to the dead letters.
-- Run it with `make demo` (files) or `make demo-kafka` (topics: the tables below are then those of tables-kafka.sql).
SET 'pipeline.name' = 'inference';
SET 'execution.checkpointing.interval' = '500 ms';
SET 'table.exec.source.idle-timeout' = '5 s';

CREATE TABLE requests (
  request_id STRING, tenant STRING, user_id STRING, prompt STRING, model_version STRING, tokens INT, ts TIMESTAMP(3),
  header_model_version AS CAST(NULL AS STRING),    -- files have no headers; the topic does
  header_prompt_hash AS CAST(NULL AS STRING),
  trace_id AS CAST(NULL AS STRING),
  WATERMARK FOR ts AS ts - INTERVAL '2' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/requests.jsonl', 'format' = 'json');

CREATE PLUGIN infer WITH ('path' = '../../plugins/bundle/infer-json.wasm');
-- Its columns are inferred from samples by the plugin; only the event time is said here.
CREATE TABLE responses (
  answered_at AS TO_TIMESTAMP(ts),
  WATERMARK FOR answered_at AS answered_at - INTERVAL '2' SECOND
) WITH ('connector' = 'filesystem', 'path' = 'data/responses.jsonl', 'format' = 'json', 'pelton.schema.infer' = 'infer');

CREATE TABLE routed (
  request_id STRING, tenant STRING, model_version STRING, prompt_hash STRING, prompt STRING, ts TIMESTAMP(3), trace_id STRING
) WITH ('connector' = 'filesystem', 'path' = '${OUT}/routed', 'format' = 'json', 'pelton.router' = 'intent');

CREATE TABLE outcomes (
  request_id STRING, tenant STRING, model_version STRING, status STRING, latency_ms BIGINT, region STRING, ts TIMESTAMP(3)
) WITH ('connector' = 'filesystem', 'path' = '${OUT}/outcomes', 'format' = 'json');

CREATE TABLE features (
  window_start TIMESTAMP(3), window_end TIMESTAMP(3), tenant STRING, model_version STRING,
  requests BIGINT, errors BIGINT, timeouts BIGINT, tokens BIGINT, users BIGINT, latency_p95 DOUBLE
) WITH ('connector' = 'filesystem', 'path' = '${OUT}/features', 'format' = 'json');

-- statements: everything below is the same for files and topics

CREATE PLUGIN text WITH ('path' = '../../plugins/bundle/text.wasm');
CREATE PLUGIN intent WITH ('path' = '../../plugins/bundle/intent-router.wasm', 'timeout' = '100 ms', 'config' = '{
  "field": "/prompt", "threshold": 0.18, "fallback": "ai.general",
  "rules": [{"field": "/tenant", "pattern": "umbrella", "topic": "ai.restricted"}],
  "routes": [
    {"topic": "ai.code", "examples": ["write a function in python", "fix the bug in this rust code", "refactor a class in javascript", "explain this stack trace", "implement a parser in go"]},
    {"topic": "ai.summarise", "examples": ["summarise this report in three sentences", "give me the key points of the document", "shorten the paper to one paragraph"]},
    {"topic": "ai.translate", "examples": ["translate this sentence into german", "how do you say thank you in french", "translate into japanese"]},
    {"topic": "ai.analytics", "examples": ["show revenue per month", "plot active users by country as a chart", "which region had the highest churn last quarter"]}
  ]}');
CREATE FUNCTION redact AS 'redact' LANGUAGE WASM USING PLUGIN text;
CREATE FUNCTION prompt_hash AS 'prompt_hash' LANGUAGE WASM USING PLUGIN text;

-- A header goes before the body where both have one.
CREATE VIEW request AS
SELECT request_id, tenant, user_id, redact(prompt) AS prompt, COALESCE(header_prompt_hash, prompt_hash(prompt)) AS prompt_hash,
       COALESCE(header_model_version, model_version) AS model_version, tokens, ts, trace_id
FROM requests;

-- Left: a request without an answer within 30 s stays, with nulls.
CREATE VIEW outcome AS
SELECT q.request_id, q.tenant, q.user_id, q.model_version, q.tokens, q.ts, r.status, r.latency_ms, r.model.region AS region
FROM request AS q LEFT JOIN responses AS r
  ON q.request_id = r.request_id AND r.answered_at BETWEEN q.ts AND q.ts + INTERVAL '30' SECOND;

EXECUTE STATEMENT SET BEGIN
  INSERT INTO routed SELECT request_id, tenant, model_version, prompt_hash, prompt, ts, trace_id FROM request;
  INSERT INTO outcomes SELECT request_id, tenant, model_version, COALESCE(status, 'timeout'), latency_ms, region, ts FROM outcome;
  INSERT INTO features
  SELECT window_start, window_end, tenant, model_version,
         COUNT(*), COUNT(*) FILTER (WHERE status <> 'ok'), COUNT(*) FILTER (WHERE status IS NULL),
         SUM(CAST(tokens AS BIGINT)), COUNT(DISTINCT user_id), approx_percentile_cont(CAST(latency_ms AS DOUBLE), 0.95)
  FROM TABLE(HOP(TABLE outcome, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '1' MINUTE))
  GROUP BY window_start, window_end, tenant, model_version;
END;
