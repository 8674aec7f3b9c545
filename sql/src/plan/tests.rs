//! Relations as the planner makes them, over two streams, as text.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::{
    common::ScalarValue,
    logical_expr::{Expr, lit},
    sql::sqlparser::{ast::Statement, parser::Parser},
};
use pelton_core::graph::TableSpec;
use pelton_sql_expr::FlinkDialect;

use super::{
    functions::Functions,
    optimize::optimize,
    prune::prune,
    query::{Ctes, Planner},
    rel::{Op, Rel, at},
    show::{show, window},
    table::{Catalog, Origin, Relation, Table, TableColumn},
    translate::Translator,
};

struct TwoStreams;

impl Catalog for TwoStreams {
    fn relation(&self, name: &str) -> Option<Relation> {
        let time = DataType::Timestamp(TimeUnit::Millisecond, None);
        let inner = DataType::Struct(vec![Field::new("c", DataType::Utf8, true), Field::new("d", DataType::Int64, true)].into());
        let row = DataType::Struct(vec![Field::new("a", DataType::Int32, true), Field::new("b", inner, true)].into());
        let names = DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
        let fields = match name {
            "l" => vec![("id", DataType::Utf8), ("lv", DataType::Int32), ("row_", row), ("ts", time)],
            "r" => vec![("id", DataType::Utf8), ("rv", DataType::Int32), ("names", names), ("ts", time)],
            _ => return None,
        };
        let fields: Vec<_> = fields.into_iter().map(|(name, data_type)| Arc::new(Field::new(name, data_type, true))).collect();
        let spec = TableSpec {
            name: name.to_owned(),
            options: BTreeMap::new(),
            physical: Arc::new(Schema::new(fields.clone())),
            primary_key: Vec::new(),
            partition_by: Vec::new(),
            line: 1,
        };
        let columns = fields.into_iter().enumerate().map(|(i, field)| TableColumn { field, origin: Origin::Physical(i) }).collect();
        let second: Expr = lit(ScalarValue::new_interval_mdn(0, 0, 1_000_000_000));
        Some(Relation::Table(Arc::new(Table { spec: Arc::new(spec), columns, watermark: Some((3, at(3) - second)) })))
    }

    fn names(&self) -> Vec<String> {
        vec!["l".to_owned(), "r".to_owned()]
    }
}

fn text(rel: &Rel, depth: usize, out: &mut String) {
    let input = rel.inputs().iter().flat_map(|input| input.columns.clone()).collect::<Vec<_>>();
    let exprs = |exprs: &[Expr]| exprs.iter().map(|e| show(e, &input)).collect::<Vec<_>>().join(", ");
    let line = match &rel.op {
        Op::Scan { table } => format!("scan {}", table.spec.name),
        Op::Values { rows } => format!("values {}", rows.iter().map(|row| format!("({})", exprs(row))).collect::<Vec<_>>().join(", ")),
        Op::Calc { predicate, exprs: list, .. } => {
            format!("calc {}{}", exprs(list), predicate.iter().map(|p| format!(" where {}", show(p, &input))).collect::<String>())
        }
        Op::Assign { window: windows, .. } => format!("assign {}", window(windows)),
        Op::WindowAggregate { windowing, keys, aggregates, edges, .. } => {
            let by = if matches!(windowing, super::rel::Windowing::Time { .. }) { "time" } else { "edges" };
            let keys: Vec<_> = keys.iter().map(|&key| input[key].name()).collect();
            format!("aggregate {} by {by} keys ({}) [{}] {edges:?}", window(windowing.window()), keys.join(", "), exprs(aggregates))
        }
        Op::WindowJoin { kind, keys, residual, .. } => {
            format!("window join {} on {}{}", kind.word(), keys.len(), residual.iter().map(|r| format!(" and {}", show(r, &input))).collect::<String>())
        }
        Op::IntervalJoin { kind, keys, lower_ms, upper_ms, residual, .. } => {
            let rest = residual.iter().map(|r| format!(" and {}", show(r, &input))).collect::<String>();
            format!("interval join {} on {} [{lower_ms}, {upper_ms}]{rest}", kind.word(), keys.len())
        }
        Op::Union { .. } => "union".to_owned(),
        Op::Unnest { list, outer, .. } => format!("unnest {}{}", show(list, &input), if *outer { " outer" } else { "" }),
    };
    out.push_str(&format!("{}{line}\n", "  ".repeat(depth)));
    for input in rel.inputs() {
        text(input, depth + 1, out);
    }
}

fn plan(sql: &str) -> Result<String, String> {
    let functions = Functions::new(chrono_tz::Tz::UTC);
    let planner = Planner {
        catalog: &TwoStreams,
        translator: Translator { functions: &functions },
        zone: "UTC".to_owned(),
        open_views: RefCell::default(),
    };
    let statements = Parser::parse_sql(&FlinkDialect::default(), sql).map_err(|error| error.to_string())?;
    let [Statement::Query(query)] = statements.as_slice() else { return Err("one query".to_owned()) };
    let rel = planner
        .query(query, &Ctes::new())
        .map_err(|fault| format!("{}:{}: {}", fault.at.line, fault.at.column, fault.message))?;
    let names = rel.columns.iter().map(|column| column.name().to_owned()).collect::<Vec<_>>().join(", ");
    let mut out = format!("({names})\n");
    for rel in prune(&[optimize(&rel)]) {
        text(&rel, 0, &mut out);
    }
    Ok(out)
}

#[track_caller]
fn check(sql: &str, expected: &str) {
    let expected: Vec<&str> = expected.lines().map(str::trim_end).filter(|line| !line.trim().is_empty()).collect();
    let indent = expected.first().map_or(0, |line| line.len() - line.trim_start().len());
    let expected: String = expected.iter().map(|line| format!("{}\n", line.get(indent..).unwrap_or_default())).collect();
    let got = plan(sql).unwrap_or_else(|error| format!("{error}\n"));
    assert!(got == expected, "{sql}\ngot:\n{got}expected:\n{expected}");
}

#[test]
fn filters_and_projections_become_one_and_read_only_what_they_need() {
    check(
        "SELECT x + 1 FROM (SELECT lv AS x, id FROM l WHERE lv > 2) WHERE id = 'a'",
        "
        (EXPR$0)
        calc lv + 1 where (lv > 2) AND (id = 'a')
          scan l",
    );
    check(
        "SELECT l.row_.b.c, l.* FROM l",
        "
        (c, id, lv, row_, ts)
        calc row_.b.c, id, lv, row_, ts
          scan l",
    );
}

#[test]
fn an_aggregate_above_a_window_function_takes_its_windows_from_the_time_attribute() {
    check(
        "SELECT k, window_start, COUNT(*) AS c FROM (SELECT id AS k, lv * 2 AS v, window_start, window_end \
         FROM HOP(l, ts, INTERVAL '1' SECOND, INTERVAL '1' MINUTE)) WHERE v > 4 GROUP BY k, window_start, window_end HAVING SUM(v) > 7",
        "
        (k, window_start, c)
        calc k, window_start, agg0 where CAST<INT>(agg1) > 7
          aggregate hop 1 min by 1 s by time keys (k) [count(1), sum(arg3)] [Start]
            calc id, ts, CAST(v AS Int64) where v > 4
              calc id, ts, lv * 2
                scan l",
    );
}

#[test]
fn a_cascade_groups_by_edges_under_other_names() {
    check(
        "SELECT s, MAX(c) FROM (SELECT id, window_start AS s, window_end AS e, COUNT(*) AS c FROM TUMBLE(l, ts, INTERVAL '5' SECOND) \
         GROUP BY id, window_start, window_end) GROUP BY s, e",
        "
        (s, EXPR$1)
        calc window_start, agg0
          aggregate tumble 5 s by edges keys () [max(c)] [Start]
            calc window_start, window_end, agg0
              aggregate tumble 5 s by time keys (id) [count(1)] [Start, End]
                calc id, ts
                  scan l",
    );
}

#[test]
fn joins_are_told_apart_by_what_bounds_them() {
    check(
        "SELECT l.lv, r.rv FROM l LEFT JOIN r ON l.id = r.id AND r.rv > l.lv \
         AND r.ts BETWEEN l.ts - INTERVAL '2' SECOND AND l.ts + INTERVAL '3' SECOND",
        "
        (lv, rv)
        calc lv, rv
          interval join left on 1 [-2000, 3000] and rv > lv
            calc id, lv, ts
              scan l
            calc id, rv, ts
              scan r",
    );
    check(
        "SELECT l.lv FROM l, r WHERE l.id = r.id AND l.ts > r.ts - INTERVAL '1' SECOND AND r.ts >= l.ts AND l.lv > 3",
        "
        (lv)
        calc lv
          interval join inner on 1 [0, 999]
            calc id, lv, ts where lv > 3
              scan l
            calc id, ts
              scan r",
    );
    check(
        "SELECT a.lv, b.rv FROM TUMBLE(l, ts, INTERVAL '5' SECOND) a LEFT JOIN TUMBLE(r, ts, INTERVAL '5' SECOND) b \
         ON a.id = b.id AND a.window_start = b.window_start AND a.window_end = b.window_end AND b.rv > 15",
        "
        (lv, rv)
        calc lv, rv
          window join left on 1
            calc id, lv, window_start, window_end
              assign tumble 5 s
                calc id, lv, ts
                  scan l
            calc id, rv, window_start, window_end
              assign tumble 5 s
                calc id, rv, ts where rv > 15
                  scan r",
    );
    check(
        "SELECT a.lv FROM TUMBLE(l, ts, INTERVAL '5' SECOND) a WHERE NOT EXISTS (SELECT * FROM TUMBLE(r, ts, INTERVAL '5' SECOND) b \
         WHERE a.id = b.id AND a.window_start = b.window_start AND a.window_end = b.window_end)",
        "
        (lv)
        calc lv
          window join anti on 1
            calc id, lv, window_start, window_end
              assign tumble 5 s
                calc id, lv, ts
                  scan l
            calc id, window_start, window_end
              assign tumble 5 s
                calc id, ts
                  scan r",
    );
    check(
        "SELECT l.lv FROM l JOIN r ON l.id = r.id",
        "1:25: regular joins are not built yet: without a bound on time their state grows for ever. Bound it by time: \
         AND r.`ts` BETWEEN l.`ts` - INTERVAL '10' SECOND AND l.`ts` + INTERVAL '10' SECOND",
    );
}

#[test]
fn other_relations() {
    check(
        "SELECT id, x FROM r CROSS JOIN UNNEST(names) AS t(x) WHERE x <> 'b' AND rv > 1",
        "
        (id, x)
        calc id, x where x != 'b'
          unnest names
            calc id, names where rv > 1
              scan r",
    );
    check("SELECT a + 1 AS b FROM (VALUES (1, 'x'), (2, 'y')) AS t(a, s)", "(b)\nvalues (1 + 1), (2 + 1)");
    check("SELECT 1 AS one", "(one)\nvalues (1)");
    check(
        "SELECT id FROM l UNION ALL SELECT id FROM r WHERE rv > 1",
        "
        (id)
        union
          calc id
            scan l
          calc id where rv > 1
            scan r",
    );
    check(
        "SELECT id, COUNT(*), GROUPING(id) FROM TUMBLE(l, ts, INTERVAL '5' SECOND) GROUP BY window_start, window_end, ROLLUP (id)",
        "
        (id, EXPR$1, EXPR$2)
        calc id, agg0, CAST(CASE WHEN grouping = 0 THEN 0 WHEN grouping = 1 THEN 1 ELSE 0 END AS Int64)
          aggregate tumble 5 s by time keys (id, grouping) [count(1)] []
            union
              calc id, ts, 0
                scan l
              calc NULL, ts, 1
                scan l",
    );
    check(
        "SELECT DISTINCT window_start, window_end, id FROM TUMBLE(l, ts, INTERVAL '5' SECOND)",
        "
        (window_start, window_end, id)
        calc window_start, window_end, id
          aggregate tumble 5 s by time keys (id) [] [Start, End]
            calc id, ts
              scan l",
    );
}

#[test]
fn refusals_say_where_what_and_how_else() {
    for (sql, expected) in [
        ("SELECT nope FROM l", "1:8: column `nope` not found; known are `id`, `lv`, `row_`, `ts`"),
        ("SELECT id FROM l WHERE COUNT(*) > 1", "1:24: aggregate COUNT is not allowed in WHERE: conditions on groups stand in HAVING"),
        ("SELECT lv + UPPER(id, 'x') FROM l", "1:13: UPPER takes 1 argument, got 2"),
        ("SELECT uper(id) FROM l", "1:8: function `uper` not found; did you mean `UPPER`?"),
    ] {
        check(sql, expected);
    }
}
