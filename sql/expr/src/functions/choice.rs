//! Functions that choose: IF, COALESCE, NULLIF, GREATEST, LEAST. All are CASE expressions, so that what is not chosen is
//! not evaluated.

use arrow::datatypes::DataType;
use datafusion::{
    common::{Result, ScalarValue, plan_err},
    logical_expr::{Expr, Operator},
};

use super::{Bind, Call, Param, Spec};
use crate::{
    func::Typed,
    operators,
    translate::{boolean, case_of},
    types::type_name,
};

use Param::{Any, Bool};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "IF", params: &[Bool, Any, Any], optional: 0, rest: None, bind: if_else },
    Spec { name: "COALESCE", params: &[Any], optional: 0, rest: Some(Any), bind: coalesce },
    Spec { name: "IFNULL", params: &[Any, Any], optional: 0, rest: None, bind: coalesce },
    Spec { name: "NULLIF", params: &[Any, Any], optional: 0, rest: None, bind: null_if },
    Spec { name: "GREATEST", params: &[Any], optional: 0, rest: Some(Any), bind: |call| extreme(call, Operator::GtEq) },
    Spec { name: "LEAST", params: &[Any], optional: 0, rest: Some(Any), bind: |call| extreme(call, Operator::LtEq) },
    Spec { name: "TYPEOF", params: &[Any], optional: 0, rest: None, bind: type_of },
];

fn if_else(call: &Call<'_>) -> Result<Bind> {
    let [condition, results @ ..] = call.args else { return plan_err!("IF takes 3 arguments") };
    let results = operators::unified("IF", results.to_vec(), call.mode())?;
    Ok(Bind::Expr(case_of(vec![condition.clone()], results)))
}

fn coalesce(call: &Call<'_>) -> Result<Bind> {
    let values = operators::unified(call.name, call.args.to_vec(), call.mode())?;
    if values.len() == 1 {
        return Ok(Bind::Expr(values[0].clone()));
    }
    let (_, before) = values.split_last().unwrap_or((&values[0], &[]));
    let whens = before.iter().map(|value| boolean(Expr::IsNotNull(Box::new(value.expr.clone())))).collect();
    Ok(Bind::Expr(case_of(whens, values)))
}

fn null_if(call: &Call<'_>) -> Result<Bind> {
    let [value, other] = call.args else { return plan_err!("NULLIF takes 2 arguments") };
    let equal = operators::comparison(Operator::Eq, value.clone(), other.clone(), call.mode())?;
    let null = Typed::new(Expr::Literal(ScalarValue::try_from(&value.data_type)?, None), value.data_type.clone());
    Ok(Bind::Expr(case_of(vec![equal], vec![null, value.clone()])))
}

/// Null if any argument is null.
fn extreme(call: &Call<'_>, op: Operator) -> Result<Bind> {
    let values = operators::unified(call.name, call.args.to_vec(), call.mode())?;
    let mut values = values.into_iter();
    let Some(mut best) = values.next() else { return plan_err!("{} takes at least 1 argument, got none", call.name) };
    if matches!(best.data_type, DataType::List(_) | DataType::Map(..) | DataType::Struct(_)) {
        return plan_err!("{} takes values that have an order, got {}", call.name, type_name(&best.data_type));
    }
    for value in values {
        let keeps = operators::binary(best.clone(), op, value.clone(), DataType::Boolean);
        let null = Typed::new(Expr::Literal(ScalarValue::try_from(&value.data_type)?, None), value.data_type.clone());
        let unknown = boolean(Expr::IsNull(Box::new(keeps.expr.clone())));
        best = case_of(vec![keeps, unknown], vec![best, null, value]);
    }
    Ok(Bind::Expr(best))
}

fn type_of(call: &Call<'_>) -> Result<Bind> {
    Ok(Bind::Expr(Typed::literal(ScalarValue::Utf8(Some(type_name(call.data_type(0)))))))
}
