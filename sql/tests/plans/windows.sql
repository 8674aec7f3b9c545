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
SELECT id, window_start, window_end, COUNT(*) AS c, SUM(lv) AS s FROM lw WHERE lv > 2 GROUP BY id, window_start, window_end HAVING COUNT(*) > 1;

SELECT window_end, MAX(lv) FROM TABLE(HOP(DATA => TABLE l, TIMECOL => DESCRIPTOR(ts), SLIDE => INTERVAL '1' SECOND, SIZE => INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;

SELECT window_start, COUNT(*) FROM CUMULATE(l, ts, INTERVAL '1' HOUR, INTERVAL '1' DAY) GROUP BY window_start, window_end;

SELECT id, window_start, SUM(row_.b.d) FROM lw WHERE window_start > TIMESTAMP '2020-01-01 00:00:00' GROUP BY id, window_start, window_end;

WITH w5 AS (SELECT id, window_start AS ws, window_end AS we, window_time AS rt, SUM(lv) AS sv FROM lw GROUP BY id, window_start, window_end, window_time)
SELECT id, window_start, window_end, SUM(sv) AS total FROM TABLE(TUMBLE(TABLE w5, DESCRIPTOR(rt), INTERVAL '10' SECOND)) GROUP BY id, window_start, window_end;

SELECT starttime, MAX(c) FROM (SELECT id, window_start AS starttime, window_end AS endtime, COUNT(*) AS c FROM lw GROUP BY id, window_start, window_end) GROUP BY starttime, endtime;

SELECT id, window_start, COUNT(*) AS c, GROUPING(id) AS g FROM lw GROUP BY window_start, window_end, GROUPING SETS ((id), ());

SELECT DISTINCT window_start, window_end, id FROM lw;

SELECT k, window_start, window_time, COUNT(*) FROM TABLE(TUMBLE(TABLE z, DESCRIPTOR(lts), INTERVAL '1' DAY)) GROUP BY k, window_start, window_end, window_time;
