-- Fills the demo's topics from the files: values as they are, malformed ones too, and headers as a gateway would set them.
SET 'pipeline.name' = 'inference-load';
CREATE TABLE request_lines (line STRING) WITH ('connector' = 'filesystem', 'path' = 'data/requests.jsonl', 'format' = 'raw');
CREATE TABLE response_lines (line STRING) WITH ('connector' = 'filesystem', 'path' = 'data/responses.jsonl', 'format' = 'raw');
CREATE TABLE requests (line STRING, headers MAP<STRING, BYTES> METADATA)
WITH ('connector' = 'kafka', 'topic' = '${PREFIX}ai.inference.request', 'properties.bootstrap.servers' = '${BROKERS}', 'format' = 'raw');
CREATE TABLE responses (line STRING)
WITH ('connector' = 'kafka', 'topic' = '${PREFIX}ai.inference.response', 'properties.bootstrap.servers' = '${BROKERS}', 'format' = 'raw');
EXECUTE STATEMENT SET BEGIN
  INSERT INTO requests SELECT line, MAP['trace_id', ENCODE(SUBSTRING(MD5(line), 1, 16), 'UTF-8'), 'prompt_hash', ENCODE(SUBSTRING(SHA256(line), 1, 16), 'UTF-8')] FROM request_lines;
  INSERT INTO responses SELECT line FROM response_lines;
END;
