//! Aggregates under Flink's names, with Flink's types.
//!
//! Flink's SUM of INT is INT and AVG of INT a truncated INT: such calls become an expression around DataFusion's
//! aggregates (`AVG(i)` → `CAST(sum(i) / count(i) AS INT)`), so that every aggregate is one whose state can be kept,
//! merged and taken back. FIRST_VALUE and LAST_VALUE leave out nulls, as Flink's do.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{Result, ScalarValue, plan_err},
    functions_aggregate::{
        all_default_aggregate_functions, approx_distinct::approx_distinct_udaf, array_agg::array_agg_udaf, average::avg_udaf, count::count_udaf,
        first_last::{first_value_udaf, last_value_udaf},
        grouping::grouping_udaf,
        min_max::{max_udaf, min_udaf},
        percentile_cont::percentile_cont_udaf,
        stddev::{stddev_pop_udaf, stddev_udaf},
        string_agg::string_agg_udaf,
        sum::sum_udaf,
        variance::{var_pop_udaf, var_samp_udaf},
    },
    logical_expr::{AggregateUDF, expr::NullTreatment},
};

use crate::{
    calls::{Extras, plain},
    cast::cast_to,
    decimal,
    func::Typed,
    operators,
    session::Session,
    types::{Arithmetic, MAX_PRECISION, as_decimal, is_integer, is_numeric, type_name},
};

const NAMES: [&str; 20] = [
    "COUNT", "SUM", "AVG", "MIN", "MAX", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "VARIANCE", "VAR_POP", "VAR_SAMP", "LISTAGG", "FIRST_VALUE",
    "LAST_VALUE", "ARRAY_AGG", "APPROX_COUNT_DISTINCT", "PERCENTILE", "SUM0", "GROUPING", "GROUPING_ID",
];

/// Aggregates that Flink has and this does not.
const MISSING: [&str; 3] = ["COLLECT", "JSON_OBJECTAGG", "JSON_ARRAYAGG"];

pub(crate) fn names() -> impl Iterator<Item = String> {
    NAMES.iter().map(|name| (*name).to_owned()).chain(all_default_aggregate_functions().into_iter().map(|udaf| udaf.name().to_ascii_uppercase()))
}

/// Whether `name`, in capitals, is an aggregate.
pub(crate) fn is_aggregate(name: &str) -> bool {
    NAMES.contains(&name) || MISSING.contains(&name) || by_name(name).is_some()
}

/// DataFusion's aggregates beyond Flink's, under their own names.
fn by_name(name: &str) -> Option<Arc<AggregateUDF>> {
    let lower = name.to_ascii_lowercase();
    all_default_aggregate_functions().into_iter().find(|udaf| udaf.name() == lower || udaf.aliases().contains(&lower))
}

/// `name(arguments)`.
pub(crate) fn call(name: &str, arguments: Vec<Typed>, mut extras: Extras, session: &Session) -> Result<Typed> {
    let mode = session.mode();
    if MISSING.contains(&name) {
        return plan_err!("the aggregate {name} is not built yet");
    }
    match name {
        "COUNT" => {
            if arguments.is_empty() {
                return plan_err!("COUNT takes a value, or * for all rows");
            }
            plain(name, &count_udaf(), arguments, extras, mode)
        }
        "SUM" | "SUM0" => sum(one(name, arguments)?, &extras, session),
        "AVG" => average(one(name, arguments)?, &extras, session),
        "MIN" | "MAX" => {
            let value = one(name, arguments)?;
            if matches!(value.data_type, DataType::List(_) | DataType::Map(..) | DataType::Struct(_)) {
                return plan_err!("{name} takes a value that has an order, got {}", type_name(&value.data_type));
            }
            plain(name, &if name == "MIN" { min_udaf() } else { max_udaf() }, vec![value], extras, mode)
        }
        "STDDEV" | "STDDEV_SAMP" => spread(name, &stddev_udaf(), one(name, arguments)?, extras, session),
        "STDDEV_POP" => spread(name, &stddev_pop_udaf(), one(name, arguments)?, extras, session),
        "VARIANCE" | "VAR_SAMP" => spread(name, &var_samp_udaf(), one(name, arguments)?, extras, session),
        "VAR_POP" => spread(name, &var_pop_udaf(), one(name, arguments)?, extras, session),
        "LISTAGG" => {
            let mut arguments = arguments.into_iter();
            let (Some(value), separator, None) = (arguments.next(), arguments.next(), arguments.next()) else {
                return plan_err!("LISTAGG takes a text and perhaps a separator");
            };
            let value = cast_to(value, &DataType::Utf8.into(), mode)?;
            let separator = separator.unwrap_or_else(|| Typed::literal(ScalarValue::Utf8(Some(",".to_owned()))));
            if separator.text().is_none() {
                return plan_err!("LISTAGG: the separator must be a constant text");
            }
            let joined = plain(name, &string_agg_udaf(), vec![value, separator], extras, mode)?;
            cast_text(joined)
        }
        "FIRST_VALUE" | "LAST_VALUE" => {
            let value = one(name, arguments)?;
            if extras.nulls.take_if(|nulls| *nulls == NullTreatment::IgnoreNulls).is_some() || extras.nulls.is_none() {
                let known = value.expr.clone().is_not_null();
                extras.filter = Some(Box::new(match extras.filter.take() {
                    Some(filter) => filter.and(known),
                    None => known,
                }));
            }
            plain(name, &if name == "FIRST_VALUE" { first_value_udaf() } else { last_value_udaf() }, vec![value], extras, mode)
        }
        // Planners replace the call by the number of the row's grouping set, a BIGINT.
        "GROUPING" | "GROUPING_ID" => {
            let which = plain(name, &grouping_udaf(), arguments, extras, mode)?;
            Ok(Typed::new(datafusion::logical_expr::cast(which.expr, DataType::Int64), DataType::Int64))
        }
        "ARRAY_AGG" => plain(name, &array_agg_udaf(), vec![one(name, arguments)?], extras, mode),
        "APPROX_COUNT_DISTINCT" => {
            let counted = plain(name, &approx_distinct_udaf(), vec![one(name, arguments)?], extras, mode)?;
            cast_to(Typed::new(datafusion::logical_expr::cast(counted.expr, DataType::Int64), DataType::Int64), &DataType::Int64.into(), mode)
        }
        "PERCENTILE" => {
            let mut arguments = arguments.into_iter();
            let (Some(value), Some(share), None) = (arguments.next(), arguments.next(), arguments.next()) else {
                return plan_err!("PERCENTILE takes a number and a share from 0 to 1");
            };
            let double = |value| cast_to(value, &DataType::Float64.into(), mode);
            let share = double(share)?;
            let share = Typed::new(crate::fold(share.expr)?, DataType::Float64);
            plain(name, &percentile_cont_udaf(), vec![double(value)?, share], extras, mode)
        }
        _ => {
            let Some(udaf) = by_name(name) else { return plan_err!("aggregate `{name}` not found") };
            let mut arguments = arguments;
            if udaf.supports_within_group_clause() && !extras.order_by.is_empty() {
                // PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x): what is ordered is the first argument.
                let key = extras.order_by.first().map(|sort| sort.expr.clone());
                if let Some(key) = key {
                    let double = Typed::new(datafusion::logical_expr::cast(key, DataType::Float64), DataType::Float64);
                    arguments.insert(0, double);
                }
                extras.order_by.clear();
            }
            let arguments = arguments.into_iter().map(|argument| decimal_as_double(argument, session)).collect::<Result<_>>()?;
            plain(name, &udaf, arguments, extras, mode)
        }
    }
}

/// DataFusion's statistics are over doubles.
fn decimal_as_double(value: Typed, session: &Session) -> Result<Typed> {
    match value.data_type {
        DataType::Decimal128(..) => {
            let cast = cast_to(value, &DataType::Float64.into(), session.mode())?;
            Ok(Typed::new(crate::fold(cast.expr)?, cast.data_type))
        }
        _ => Ok(value),
    }
}

fn cast_text(value: Typed) -> Result<Typed> {
    match value.data_type {
        DataType::Utf8 => Ok(value),
        _ => Ok(Typed::new(datafusion::logical_expr::cast(value.expr, DataType::Utf8), DataType::Utf8)),
    }
}

fn one(name: &str, mut arguments: Vec<Typed>) -> Result<Typed> {
    match (arguments.pop(), arguments.len()) {
        (Some(value), 0) => Ok(value),
        (None, _) => plan_err!("{name} takes 1 argument, got none"),
        (_, more) => plan_err!("{name} takes 1 argument, got {}", more + 1),
    }
}

fn number(name: &str, value: &Typed) -> Result<()> {
    if is_numeric(&value.data_type) { Ok(()) } else { plan_err!("{name} takes a number, got {}", type_name(&value.data_type)) }
}

/// SUM has the type of its argument; decimals get all 38 digits.
fn sum(value: Typed, extras: &Extras, session: &Session) -> Result<Typed> {
    number("SUM", &value)?;
    let mode = session.mode();
    let result = match &value.data_type {
        DataType::Decimal128(_, scale) => DataType::Decimal128(MAX_PRECISION, *scale),
        other => other.clone(),
    };
    cast_to(wide_sum(value, extras, session)?, &result.into(), mode)
}

/// The sum as BIGINT, DOUBLE or DECIMAL(38, s).
fn wide_sum(value: Typed, extras: &Extras, session: &Session) -> Result<Typed> {
    let wide = match &value.data_type {
        DataType::Decimal128(_, scale) => DataType::Decimal128(MAX_PRECISION, *scale),
        DataType::Float32 | DataType::Float64 => DataType::Float64,
        _ => DataType::Int64,
    };
    plain("SUM", &sum_udaf(), vec![cast_to(value, &wide.into(), session.mode())?], extras.clone(), session.mode())
}

/// AVG of whole numbers is cut to their type, of decimals it has at least six digits behind the point.
fn average(value: Typed, extras: &Extras, session: &Session) -> Result<Typed> {
    number("AVG", &value)?;
    let mode = session.mode();
    let data_type = value.data_type.clone();
    if !is_integer(&data_type) && as_decimal(&data_type).is_none() {
        let value = cast_to(value, &DataType::Float64.into(), mode)?;
        let mean = plain("AVG", &avg_udaf(), vec![value], extras.clone(), mode)?;
        return cast_to(mean, &data_type.into(), mode);
    }
    let count = plain("COUNT", &count_udaf(), vec![value.clone()], extras.clone(), mode)?;
    let total = wide_sum(value, extras, session)?;
    match data_type {
        DataType::Decimal128(_, scale) => Ok(decimal::calculation(Arithmetic::Divide, total, count, MAX_PRECISION, scale.max(6))),
        whole => cast_to(operators::arithmetic(Arithmetic::Divide, total, count, mode)?, &whole.into(), mode),
    }
}

fn spread(name: &str, udaf: &Arc<AggregateUDF>, value: Typed, extras: Extras, session: &Session) -> Result<Typed> {
    number(name, &value)?;
    let mode = session.mode();
    let data_type = value.data_type.clone();
    let double = cast_to(value, &DataType::Float64.into(), mode)?;
    let spread = plain(name, udaf, vec![double], extras, mode)?;
    let result = match data_type {
        DataType::Decimal128(_, scale) => DataType::Decimal128(MAX_PRECISION, scale.max(6)),
        other => other,
    };
    cast_to(spread, &result.into(), mode)
}
