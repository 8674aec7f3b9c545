CREATE TABLE t (a INT, b STRING NOT NULL COMMENT 'it''s b', c DECIMAL(10, 2)) COMMENT 'all' WITH ('connector' = 'x', 'k' = 'v',)
=> table t (a INT; b STRING NOT NULL; c DECIMAL(10, 2); connector=x; k=v)

create temporary table if not exists `my table` (`a b` int, PRIMARY KEY (`a b`) NOT ENFORCED) with ('connector'='x');
=> table my table (a b INT; key a b; connector=x)

CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED, b AS a + 1 COMMENT 'c') PARTITIONED BY (a) WITH ('c' = 'x')
=> table t (a INT; b := a + 1; key a; by a; c=x)

CREATE TABLE t (a INT, CONSTRAINT pk PRIMARY KEY (a) NOT ENFORCED) WITH ('c' = 'x')
=> table t (a INT; key a; c=x)

CREATE TABLE t (k STRING METADATA FROM 'key', `offset` BIGINT NOT NULL METADATA VIRTUAL, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH ('c' = 'x')
=> table t (k STRING from 'key'; offset BIGINT NOT NULL from 'offset' virtual; ts TIMESTAMP(3); watermark ts := ts - INTERVAL '5' SECOND; c=x)

CREATE TABLE t (row_ ROW<a INT NOT NULL, b ROW(c STRING, d ARRAY<BIGINT>)>, m MAP<STRING, ARRAY<ROW<x INT>>>, watermark INT, `primary` INT) WITH ('c' = 'x')
=> table t (row_ ROW<`a` INT NOT NULL, `b` ROW<`c` STRING, `d` ARRAY<BIGINT>>>; m MAP<STRING, ARRAY<ROW<`x` INT>>>; watermark INT; primary INT; c=x)

CREATE SOURCE s (a INT) WITH ('c' = 'x'); CREATE SINK k (a INT) WITH ('c' = 'x')
=> table s (a INT; c=x)
=> table k (a INT; c=x)

CREATE TABLE t WITH ('connector' = 'x', 'pelton.schema.infer' = 'native')
=> table t (connector=x; pelton.schema.infer=native)

CREATE TABLE t (PRIMARY KEY (id) NOT ENFORCED) WITH ('pelton.schema.infer' = 'native')
=> table t (key id; pelton.schema.infer=native)

CREATE VIEW v AS SELECT a FROM t
=> view v () SELECT a FROM t

CREATE TEMPORARY VIEW IF NOT EXISTS v (x COMMENT 'c', y) COMMENT 'd' AS SELECT a, b FROM t
=> view v (x, y) if new SELECT a, b FROM t

CREATE MATERIALIZED VIEW v AS SELECT a FROM t EMIT ON WINDOW CLOSE
=> view v () SELECT a FROM t

CREATE PLUGIN p WITH ('path' = 'p.wasm', 'config' = '{"a": [1; 2]}'); CREATE TEMPORARY SYSTEM FUNCTION f AS 'g' LANGUAGE WASM USING PLUGIN p;
=> plugin p (path=p.wasm; config={"a": [1; 2]})
=> function f = p.g

INSERT INTO t SELECT a, b FROM s
=> insert t () SELECT a, b FROM s

INSERT INTO t (a, `b c`) VALUES (1, 'x'), (2, 'y')
=> insert t (a, b c) VALUES (1, 'x'), (2, 'y')

INSERT INTO t (SELECT a FROM s)
=> insert t () (SELECT a FROM s)

INSERT INTO t WITH x AS (SELECT 1 AS a) SELECT a FROM x
=> insert t () WITH x AS (SELECT 1 AS a) SELECT a FROM x

EXECUTE INSERT INTO t SELECT 1
=> insert t () SELECT 1

EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1; INSERT INTO b SELECT 2; END;
=> set of insert a () SELECT 1 & insert b () SELECT 2

BEGIN STATEMENT SET; INSERT INTO a SELECT CASE WHEN x THEN 1 END FROM t; END; SELECT 1
=> set of insert a () SELECT CASE WHEN x THEN 1 END FROM t
=> query SELECT 1

SET 'a.b' = 'c d'; SET a.b-c = 10 s; SET table.local-time-zone = Europe/Berlin; SET x = true -- yes
=> a.b = c d
=> a.b-c = 10 s
=> table.local-time-zone = Europe/Berlin
=> x = true

SET; RESET; RESET 'a.b'; RESET a.b
=> ShowSettings
=> Reset(None)
=> reset a.b
=> reset a.b

SELECT a FROM t; (SELECT 1); VALUES (1); WITH x AS (SELECT 1) SELECT * FROM x
=> query SELECT a FROM t
=> query (SELECT 1)
=> query VALUES (1)
=> query WITH x AS (SELECT 1) SELECT * FROM x

;;SELECT ';' /* ; */ -- ;
;
=> query SELECT ';'

EXPLAIN SELECT 1; EXPLAIN PLAN FOR INSERT INTO t SELECT 1; EXPLAIN ESTIMATED_COST, CHANGELOG_MODE SELECT 1; EXPLAIN STATEMENT SET BEGIN INSERT INTO a SELECT 1; END
=> explain SELECT 1
=> explain insert t () SELECT 1
=> explain SELECT 1
=> explain insert a () SELECT 1

SHOW TABLES; SHOW VIEWS; SHOW USER FUNCTIONS; SHOW PLUGINS
=> Show(Tables)
=> Show(Views)
=> Show(Functions)
=> Show(Plugins)

SELECT '${NAME}', '${LONG}' /* ${UNSET} */ -- ${UNSET}
=> query SELECT 'value', 'a value longer than the name'

CREATE TABLE t (a INT) WITH ('topic' = 'ai.${model}', 'path' = '${NAME}')
=> table t (a INT; topic=ai.${model}; path=value)

SELECT /*+ BROADCAST(a), STATE_TTL('a' = '1d', 'b' = '2d') */ a FROM t
=> query SELECT a FROM t

SELECT x FROM TUMBLE(t, ts, INTERVAL '1' MINUTE)
=> query SELECT x FROM TUMBLE(t, ts, INTERVAL '1' MINUTE)

SELECT 'it''s; -- no comment', `a``b`, `;` FROM `t$late`
=> query SELECT 'it''s; -- no comment', `a``b`, `;` FROM `t$late`

CREATE TABLE t (a TIMESTAMP_LTZ(3), b TIMESTAMP(0) WITH LOCAL TIME ZONE, c TIMESTAMP WITHOUT TIME ZONE, d DOUBLE PRECISION, e DEC, f CHAR, g CHARACTER VARYING(3), h INT ARRAY, i TIME(3)) WITH ('c' = 'x')
=> table t (a TIMESTAMP_LTZ(3); b TIMESTAMP_LTZ(0); c TIMESTAMP(6); d DOUBLE; e DECIMAL(10, 0); f VARCHAR(1); g VARCHAR(3); h ARRAY<INT>; i TIME(3); c=x)
