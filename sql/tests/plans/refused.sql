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
SELECT nope FROM l;

SELECT l.nope FROM l;

SELECT row_.x FROM l;

SELECT id FROM l JOIN r ON l.id = r.id;

SELECT ts FROM l, r;

SELECT frobnicate(lv) FROM l;

SELECT UPPER(id, 'x') FROM l;

SELECT id FROM l WHERE COUNT(*) > 1;

SELECT id, COUNT(*) FROM l GROUP BY id;

SELECT COUNT(*) FROM l;

SELECT id, COUNT(*) FROM lw GROUP BY id, window_start;

SELECT id, lv, COUNT(*) FROM lw GROUP BY id, window_start, window_end;

SELECT id FROM l UNION ALL SELECT id, rv FROM r;

SELECT id FROM l UNION SELECT id FROM r;

SELECT id FROM l ORDER BY id;

SELECT id FROM l LIMIT 3;

SELECT DISTINCT id FROM l;

SELECT id, ROW_NUMBER() OVER (PARTITION BY id ORDER BY ts) FROM l;

SELECT id, (SELECT MAX(rv) FROM r) FROM l;

SELECT CAST('abc' AS INT) FROM l;

SELECT * FROM missing;

SELECT * FROM TABLE(TUMBLE(TABLE l, DESCRIPTOR(lv), INTERVAL '5' SECOND));

SELECT * FROM TABLE(HOP(TABLE l, DESCRIPTOR(ts), INTERVAL '3' SECOND, INTERVAL '10' SECOND));

SELECT * FROM TABLE(SESSION(TABLE l PARTITION BY id, DESCRIPTOR(ts), INTERVAL '5' SECOND));

SELECT l.id FROM l JOIN r ON l.id = r.id AND r.ts > l.ts;

SELECT l.id FROM l JOIN r ON l.id = r.id AND r.expires BETWEEN l.ts AND l.ts + INTERVAL '1' SECOND;

SELECT lw.id FROM lw JOIN rw ON lw.id = rw.id AND lw.window_start = rw.window_start;

SELECT lw.id FROM lw JOIN (SELECT * FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(ts), INTERVAL '6' SECOND))) rw ON lw.id = rw.id AND lw.window_start = rw.window_start AND lw.window_end = rw.window_end;

INSERT INTO out_ SELECT id FROM l;

INSERT INTO out_ SELECT lv, id FROM l;

INSERT INTO out_ (id, twice) SELECT id, lv FROM l;

INSERT INTO out_ (total) SELECT lv FROM l;

SELECT * FROM `l$late`;
