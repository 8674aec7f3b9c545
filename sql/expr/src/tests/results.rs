//! Expressions as scripts write them, against Flink's results: one row per line of the table below.

use std::sync::Arc;

use arrow::{
    array::{
        ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder,
        TimestampMillisecondArray,
    },
    datatypes::{DataType, Field, Schema},
};
use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{Expr, ExprSchemable},
    physical_expr::aggregate::AggregateExprBuilder,
    sql::sqlparser::parser::Parser,
};

use crate::{FlinkDialect, RowError, Session, cast::Mode, cast::cast_array, parse_zone, physical, type_name};

fn batch() -> RecordBatch {
    let decimals = Decimal128Array::from(vec![Some(123_456), Some(-1), None]).with_precision_and_scale(12, 4).expect("digits that fit");
    let mut list = ListBuilder::new(StringBuilder::new());
    list.append_value([Some("p"), None, Some("q")]);
    list.append_value(Vec::<Option<&str>>::new());
    list.append(false);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i", Arc::new(Int32Array::from(vec![Some(7), Some(-7), None]))),
        ("b", Arc::new(Int64Array::from(vec![Some(9_000_000_000), Some(-1), None]))),
        ("x", Arc::new(Float64Array::from(vec![Some(2.5), Some(-0.0), None]))),
        ("d", Arc::new(decimals)),
        ("s", Arc::new(StringArray::from(vec![Some(" Hello, Wörld "), Some("a,b,,c"), None]))),
        ("j", Arc::new(StringArray::from(vec![Some(r#"{"a":{"b":[1,"x"]},"n":null}"#), Some("no json"), None]))),
        ("ts", Arc::new(TimestampMillisecondArray::from(vec![Some(1_582_983_959_123), Some(-1), None]))),
        ("dt", Arc::new(Date32Array::from(vec![Some(18_321), Some(0), None]))),
        ("f", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]))),
        ("a", Arc::new(list.finish())),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, column)| column).collect()).expect("columns of one length")
}

/// The values of the three rows as text, and the type; or what is wrong.
fn shown(sql: &str, zone: &str) -> String {
    let batch = batch();
    let schema = DFSchema::try_from(batch.schema().as_ref().clone()).expect("distinct names");
    let dialect = FlinkDialect::default();
    let ast = Parser::new(&dialect).try_with_sql(sql).and_then(|mut parser| parser.parse_expr());
    let ast = match ast {
        Ok(ast) => ast,
        Err(error) => return error.to_string(),
    };
    let zone = parse_zone(zone).expect("a zone");
    let expr = match Session::new(zone).translate(&ast, &schema) {
        Ok(expr) => expr,
        Err(error) => return error.strip_backtrace().trim_start_matches("Error during planning: ").to_owned(),
    };
    let found = expr.get_type(&schema).expect("a type");
    let column = physical(&expr, &schema).and_then(|physical| physical.evaluate(&batch)).and_then(|value| value.into_array(batch.num_rows()));
    match column {
        Ok(column) => {
            assert_eq!(column.data_type(), &found, "{sql}: the value has the type that was planned");
            let texts = cast_array(&column, &DataType::Utf8.into(), Mode { zone, lenient: false }).expect("values have texts");
            let texts: Vec<_> = arrow::array::AsArray::as_string::<i32>(&texts).iter().map(|text| text.unwrap_or("∅").to_owned()).collect();
            format!("{} {}", texts.join(" | "), type_name(&found))
        }
        Err(error) => RowError::find(&error).map_or_else(|| error.to_string(), |reason| format!("bad row: {reason}")),
    }
}

fn check(table: &[(&str, &str)]) {
    let wrong: Vec<String> = table
        .iter()
        .filter_map(|(sql, expected)| {
            let found = shown(sql, "UTC");
            (found != *expected).then(|| format!("{sql}\n  expected {expected}\n  found    {found}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn arithmetic_has_flinks_types_and_ends() {
    check(&[
        ("i + 1", "8 | -6 | ∅ INT"),
        ("2147483647 + i - i + 1", "-2147483648 | -2147483648 | ∅ INT"),
        ("b + 1", "9000000001 | 0 | ∅ BIGINT"),
        ("i / 2", "3 | -3 | ∅ INT"),
        ("i % 4", "3 | -3 | ∅ INT"),
        ("MOD(i, 3)", "1 | -1 | ∅ INT"),
        ("i / (i - 7)", "bad row: division by zero"),
        ("i <> 7 AND i / (i - 7) > 0", "FALSE | FALSE | ∅ BOOLEAN"),
        ("d + 1", "13.3456 | 0.9999 | ∅ DECIMAL(15, 4)"),
        ("d / 3", "4.115200000000000 | -0.000033333333333 | ∅ DECIMAL(23, 15)"),
        ("0.908 * i", "6.356 | -6.356 | ∅ DECIMAL(15, 3)"),
        ("-i", "-7 | 7 | ∅ INT"),
        ("POWER(i, 2)", "49.0 | 49.0 | ∅ DOUBLE"),
        ("ROUND(d, 2)", "12.35 | 0.00 | ∅ DECIMAL(11, 2)"),
        ("i + s", "INT + STRING has no meaning: texts are joined by ||, numbers in texts need a CAST"),
    ]);
}

#[test]
fn casts_are_javas() {
    check(&[
        ("CAST(x AS STRING)", "2.5 | -0.0 | ∅ STRING"),
        ("CAST(1e300 AS STRING)", "1.0E300 | 1.0E300 | 1.0E300 STRING"),
        ("CAST(b AS INT)", "410065408 | -1 | ∅ INT"),
        ("CAST(i > 0 AS STRING)", "TRUE | FALSE | ∅ STRING"),
        ("CAST(i AS VARCHAR(1))", "7 | - | ∅ STRING"),
        ("CAST(ts AS STRING)", "2020-02-29 13:45:59.123 | 1969-12-31 23:59:59.999 | ∅ STRING"),
        ("CAST('abc' AS INT)", "CAST('abc' AS INT): expected a whole number"),
        ("TRY_CAST(s AS INT)", "∅ | ∅ | ∅ INT"),
        ("TRY_CAST(' 12 ' AS INT)", "12 | 12 | 12 INT"),
        ("CAST(f AS INT)", "1 | 0 | ∅ INT"),
        ("CAST(dt AS TIMESTAMP(3))", "2020-02-29 00:00:00.000 | 1970-01-01 00:00:00.000 | ∅ TIMESTAMP(3)"),
    ]);
}

#[test]
fn conditions_have_three_values() {
    check(&[
        ("i > 0 AND x > 0", "TRUE | FALSE | ∅ BOOLEAN"),
        ("s LIKE '%o%'", "TRUE | FALSE | ∅ BOOLEAN"),
        ("i IN (7, 8)", "TRUE | FALSE | ∅ BOOLEAN"),
        ("i BETWEEN -7 AND 0", "FALSE | TRUE | ∅ BOOLEAN"),
        ("CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' END", "pos | neg | ∅ STRING"),
        ("COALESCE(s, 'none')", " Hello, Wörld  | a,b,,c | none STRING"),
        ("NULLIF(i, 7)", "∅ | -7 | ∅ INT"),
        ("IF(i > 0, 1, 2)", "1 | 2 | 2 INT"),
        ("GREATEST(i, 3)", "7 | 3 | ∅ INT"),
        ("i IS NOT DISTINCT FROM NULL", "FALSE | FALSE | TRUE BOOLEAN"),
    ]);
}

/// The value of an expression of aggregates over all rows, and its type.
fn aggregated(sql: &str) -> String {
    let batch = batch();
    let schema = DFSchema::try_from(batch.schema().as_ref().clone()).expect("distinct names");
    let dialect = FlinkDialect::default();
    let ast = Parser::new(&dialect).try_with_sql(sql).and_then(|mut parser| parser.parse_expr()).expect("an expression");
    let expr = match Session::default().translate(&ast, &schema) {
        Ok(expr) => expr,
        Err(error) => return error.strip_backtrace().trim_start_matches("Error during planning: ").to_owned(),
    };
    let found = expr.get_type(&schema).expect("a type");
    let value = expr
        .transform_up(|node| {
            let Expr::AggregateFunction(call) = &node else { return Ok(Transformed::no(node)) };
            let rows = match &call.params.filter {
                Some(filter) => {
                    let keep = physical(filter, &schema)?.evaluate(&batch)?.into_array(batch.num_rows())?;
                    arrow::compute::filter_record_batch(&batch, arrow::array::AsArray::as_boolean(&keep))?
                }
                None => batch.clone(),
            };
            let args = call.params.args.iter().map(|arg| physical(arg, &schema)).collect::<datafusion::common::Result<Vec<_>>>()?;
            let columns = args.iter().map(|arg| arg.evaluate(&rows)?.into_array(rows.num_rows())).collect::<datafusion::common::Result<Vec<_>>>()?;
            let function = AggregateExprBuilder::new(Arc::clone(&call.func), args).schema(batch.schema()).alias("value").build()?;
            let mut accumulator = function.create_accumulator()?;
            accumulator.update_batch(&columns)?;
            Ok(Transformed::yes(Expr::Literal(accumulator.evaluate()?, None)))
        })
        .and_then(|expr| crate::fold(expr.data));
    match value {
        Ok(Expr::Literal(value, _)) => {
            assert_eq!(value.data_type(), found, "{sql}: the value has the type that was planned");
            format!("{value} {}", type_name(&found))
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn aggregates_have_flinks_types() {
    let check = |sql: &str, expected: &str| assert_eq!(aggregated(sql), expected, "{sql}");
    check("SUM(i)", "0 INT");
    check("SUM(d)", "12.3455 DECIMAL(38, 4)");
    check("AVG(b)", "4499999999 BIGINT");
    check("AVG(d)", "6.172750 DECIMAL(38, 6)");
    check("AVG(x)", "1.25 DOUBLE");
    check("COUNT(*)", "3 BIGINT");
    check("COUNT(s)", "2 BIGINT");
    check("SUM(i) FILTER (WHERE i > 0)", "7 INT");
    check("MIN(s)", " Hello, Wörld  STRING");
    check("STDDEV_POP(x)", "1.25 DOUBLE");
    check("VAR_SAMP(x)", "3.125 DOUBLE");
    check("LISTAGG(s, '|')", " Hello, Wörld |a,b,,c STRING");
    check("LISTAGG(CAST(i AS STRING))", "7,-7 STRING");
    check("FIRST_VALUE(s)", " Hello, Wörld  STRING");
    check("LAST_VALUE(i)", "-7 INT");
    check("CAST(SUM(i) AS DOUBLE) / COUNT(*)", "0 DOUBLE");
    check("SUM(s)", "SUM takes a number, got STRING");
    check("APPROX_COUNT_DISTINCT(s)", "2 BIGINT");
    check("APPROX_PERCENTILE_CONT(x, 0.5)", "1.25 DOUBLE");
    check("MEDIAN(x)", "1.25 DOUBLE");
    check("COUNT(DISTINCT s)", "2 BIGINT");
    check("BIT_AND(i)", "1 INT");
    check("APPROX_PERCENTILE_CONT(d, 0.5)", "6.17275 DOUBLE");
    check("CORR(x, i)", "1 DOUBLE");
    check("BOOL_AND(f)", "false BOOLEAN");
}

#[test]
fn texts_are_counted_in_characters() {
    check(&[
        ("UPPER(s)", " HELLO, WÖRLD  | A,B,,C | ∅ STRING"),
        ("INITCAP(s)", " Hello, WöRld  | A,B,,C | ∅ STRING"),
        ("CHAR_LENGTH(s)", "14 | 6 | ∅ INT"),
        ("SUBSTRING(s FROM 2 FOR 3)", "Hel | ,b, | ∅ STRING"),
        ("SUBSTRING(s, -3)", "ld  | ,,c | ∅ STRING"),
        ("s || '!'", " Hello, Wörld ! | a,b,,c! | ∅ STRING"),
        ("CONCAT_WS('|', s, 'x')", " Hello, Wörld |x | a,b,,c|x | x STRING"),
        ("SPLIT_INDEX(s, ',', 1)", " Wörld  | b | ∅ STRING"),
        ("REGEXP_EXTRACT(s, '([A-Z])(\\w+)', 2)", "ello | ∅ | ∅ STRING"),
        ("REGEXP_REPLACE(s, '[aeiou]', '_')", " H_ll_, Wörld  | _,b,,c | ∅ STRING"),
        ("POSITION('l' IN s)", "4 | 0 | ∅ INT"),
        ("MD5('a')", "0cc175b9c0f1b6a831c399e269772661 | 0cc175b9c0f1b6a831c399e269772661 | 0cc175b9c0f1b6a831c399e269772661 STRING"),
    ]);
}

#[test]
fn times_have_parts_and_are_cut() {
    check(&[
        ("EXTRACT(YEAR FROM ts)", "2020 | 1970 | ∅ BIGINT"),
        ("HOUR(ts)", "13 | 0 | ∅ BIGINT"),
        ("DAYOFWEEK(ts)", "7 | 5 | ∅ BIGINT"),
        ("FLOOR(ts TO HOUR)", "2020-02-29 13:00:00.000 | 1969-12-31 23:00:00.000 | ∅ TIMESTAMP(3)"),
        ("CEIL(ts TO DAY)", "2020-03-01 00:00:00.000 | 1970-01-01 00:00:00.000 | ∅ TIMESTAMP(3)"),
        ("ts - INTERVAL '1:30' HOUR TO MINUTE", "2020-02-29 12:15:59.123 | 1969-12-31 22:29:59.999 | ∅ TIMESTAMP(3)"),
        ("dt + INTERVAL '1' DAY", "2020-03-01 | 1970-01-02 | ∅ DATE"),
        ("TO_TIMESTAMP('06/05/2020', 'dd/MM/yyyy') = TIMESTAMP '2020-05-06 00:00:00'", "TRUE | TRUE | TRUE BOOLEAN"),
        ("TO_DATE('2020-02-29')", "2020-02-29 | 2020-02-29 | 2020-02-29 DATE"),
        ("UNIX_TIMESTAMP('2020-01-01 00:00:00')", "1577836800 | 1577836800 | 1577836800 BIGINT"),
        ("FROM_UNIXTIME(i)", "1970-01-01 00:00:07 | 1969-12-31 23:59:53 | ∅ STRING"),
        ("TIMESTAMPDIFF(SECOND, TIMESTAMP '1970-01-01 00:00:00', ts)", "1582983959 | 0 | ∅ INT"),
        ("TIMESTAMPADD(DAY, 1, ts)", "2020-03-01 13:45:59.123 | 1970-01-01 23:59:59.999 | ∅ TIMESTAMP(3)"),
        ("DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm')", "2020-02-29 13:45 | 1969-12-31 23:59 | ∅ STRING"),
    ]);
    assert_eq!(shown("CAST(TO_TIMESTAMP_LTZ(0, 3) AS TIMESTAMP(3))", "Asia/Shanghai").split(" | ").next(), Some("1970-01-01 08:00:00.000"));
}

#[test]
fn json_is_built_and_read() {
    check(&[
        ("JSON_OBJECT('i' VALUE i, 's' VALUE f)", "{\"i\":7,\"s\":true} | {\"i\":-7,\"s\":false} | {\"i\":null,\"s\":null} STRING"),
        ("JSON_OBJECT('i' VALUE i ABSENT ON NULL)", "{\"i\":7} | {\"i\":-7} | {} STRING"),
        ("JSON_ARRAY(i, JSON_OBJECT('k' VALUE 1))", "[7,{\"k\":1}] | [-7,{\"k\":1}] | [{\"k\":1}] STRING"),
        ("JSON_STRING(a)", "[\"p\",null,\"q\"] | [] | ∅ STRING"),
        ("JSON_VALUE(j, '$.a.b[1]')", "x | ∅ | ∅ STRING"),
        ("JSON_VALUE(j, '$.a.b[0]' RETURNING INT)", "1 | ∅ | ∅ INT"),
        ("JSON_VALUE(j, 'lax $.zz' DEFAULT 'd' ON EMPTY DEFAULT 'e' ON ERROR)", "d | d | ∅ STRING"),
        ("JSON_QUERY(j, '$.a')", "{\"b\":[1,\"x\"]} | ∅ | ∅ STRING"),
        ("JSON_EXISTS(j, '$.a')", "TRUE | FALSE | ∅ BOOLEAN"),
        ("JSON_VALUE(j, 'a')", "JSON path 'a': it begins with $"),
    ]);
}

#[test]
fn arrays_and_maps_are_made_and_read() {
    check(&[
        ("a[1]", "p | ∅ | ∅ STRING"),
        ("CARDINALITY(a)", "3 | 0 | ∅ INT"),
        ("ARRAY_CONTAINS(a, 'q')", "TRUE | FALSE | ∅ BOOLEAN"),
        ("ARRAY[i, i * 2][2]", "14 | -14 | ∅ INT"),
        ("MAP['x', i]['x']", "7 | -7 | ∅ INT"),
        ("ROW(i, f)", "(7, TRUE) | (-7, FALSE) | (NULL, NULL) ROW<`f0` INT, `f1` BOOLEAN>"),
        ("ARRAY_JOIN(ARRAY_REVERSE(a), '-')", "q-p |  | ∅ STRING"),
        ("ARRAY_SLICE(ARRAY[1, 2, 3], 2)[2]", "3 | 3 | 3 INT"),
        ("ARRAY_MAX(ARRAY[1, i, 3])", "7 | 3 | 3 INT"),
        ("a[0]", "an array's positions begin with 1, got 0"),
    ]);
}
