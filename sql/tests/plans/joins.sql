-- Two streams with a time attribute, one table without, and a sink.
CREATE TABLE l (id STRING, lv INT, row_ ROW<a INT, b ROW<c STRING, d BIGINT>>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
  WITH ('connector' = 'filesystem', 'path' = 'l', 'format' = 'json');
CREATE TABLE r (id STRING, rv INT, expires TIMESTAMP(3), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
  WITH ('connector' = 'filesystem', 'path' = 'r', 'format' = 'json');
CREATE TABLE n (id INT, arr ARRAY<STRING>, m MAP<STRING, INT>, objs ARRAY<ROW<k STRING, v DOUBLE>>)
  WITH ('connector' = 'filesystem', 'path' = 'n', 'format' = 'json');
CREATE TABLE z (k STRING, e BIGINT, lts AS TO_TIMESTAMP_LTZ(e, 3), WATERMARK FOR lts AS lts - INTERVAL '1' SECOND)
  WITH ('connector' = 'filesystem', 'path' = 'z', 'format' = 'json');
CREATE TABLE out_ (id STRING NOT NULL, total BIGINT, twice AS total * 2) WITH ('connector' = 'blackhole');
CREATE VIEW lw AS SELECT * FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(ts), INTERVAL '5' SECOND));
CREATE VIEW rw AS SELECT * FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '5' SECOND));
---
SELECT l.id, l.lv, r.rv FROM l LEFT JOIN r ON l.id = r.id AND r.ts BETWEEN l.ts - INTERVAL '2' SECOND AND l.ts + INTERVAL '3' SECOND AND r.rv > l.lv;

SELECT l.id, r.rv FROM l, r WHERE l.id = r.id AND l.ts > r.ts - INTERVAL '1' MINUTE AND r.ts >= l.ts AND l.lv > 3;

SELECT l.lv, r.rv FROM l JOIN r ON l.ts = r.ts;

SELECT l.id, l.lv, r.rv FROM l FULL JOIN r ON l.id IS NOT DISTINCT FROM r.id AND r.ts BETWEEN l.ts AND l.ts + INTERVAL '3' SECOND;

SELECT lw.id, lw.lv, rw.rv, lw.window_start FROM lw LEFT JOIN rw ON lw.id = rw.id AND rw.rv > 15 AND lw.window_start = rw.window_start AND lw.window_end = rw.window_end;

SELECT lw.id, lw.lv FROM lw WHERE NOT EXISTS (SELECT * FROM rw WHERE lw.id = rw.id AND lw.window_start = rw.window_start AND lw.window_end = rw.window_end);

SELECT window_start, window_end, COUNT(*) FROM (SELECT l.ts AS ts, r.rv AS rv FROM l JOIN r ON l.id = r.id AND r.ts BETWEEN l.ts AND l.ts + INTERVAL '3' SECOND) j, LATERAL TABLE(nothing(rv)) GROUP BY window_start, window_end;

SELECT window_start, COUNT(*) FROM TABLE(TUMBLE((SELECT l.ts AS ts, r.rv AS rv FROM l JOIN r ON l.id = r.id AND r.ts BETWEEN l.ts AND l.ts + INTERVAL '3' SECOND), DESCRIPTOR(ts), INTERVAL '5' SECOND)) GROUP BY window_start, window_end;
