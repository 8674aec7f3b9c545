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
SELECT * FROM l;

SELECT row_.b.c, row_.a + 1, lv FROM l WHERE row_.a > 0;

SELECT id FROM l UNION ALL SELECT id FROM r WHERE rv > 1;

SELECT id, x FROM n CROSS JOIN UNNEST(arr) AS t(x);

SELECT id, kk, vv FROM n LEFT JOIN UNNEST(m) AS t(kk, vv) ON TRUE WHERE vv > 1;

SELECT id, k, v FROM n, UNNEST(objs);

SELECT 1 AS one, 'x' AS name;

SELECT a + 1 AS b FROM (VALUES (1, 'x'), (2, 'y')) AS t(a, s);

INSERT INTO out_ SELECT id, lv FROM l;

INSERT INTO out_ (total, id) SELECT CAST(lv AS BIGINT), id FROM l;

EXECUTE STATEMENT SET BEGIN
  INSERT INTO out_ SELECT id, COUNT(*) FROM lw GROUP BY id, window_start, window_end;
  INSERT INTO out_ SELECT id, SUM(lv) FROM lw GROUP BY id, window_start, window_end;
END;
