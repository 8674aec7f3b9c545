//! Calls of functions that are not built in (plugins), and of aggregates.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{Result, ScalarValue, plan_err},
    logical_expr::{
        AggregateUDF, Expr, ScalarUDF, SortExpr,
        expr::{AggregateFunction, NullTreatment, ScalarFunction},
        type_coercion::functions::{UDFCoercionExt, fields_with_udf},
    },
    sql::sqlparser::ast::{
        DuplicateTreatment, Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
        NullTreatment as AstNulls, OrderByExpr,
    },
};

use crate::{
    aggregates,
    cast::{Mode, cast_to},
    func::Typed,
    translate::{Translator, as_boolean},
    types::type_name,
};

fn fields(arguments: &[Typed]) -> Vec<FieldRef> {
    arguments.iter().map(|argument| Arc::new(Field::new("", argument.data_type.clone(), true))).collect()
}

/// Arguments cast to what the function's signature takes.
fn coerced<F: UDFCoercionExt>(name: &str, function: &F, arguments: Vec<Typed>, mode: Mode) -> Result<Vec<Typed>> {
    let given = arguments.iter().map(|argument| type_name(&argument.data_type)).collect::<Vec<_>>().join(", ");
    let Ok(wanted) = fields_with_udf(&fields(&arguments), function) else {
        return plan_err!("{name} cannot be called with ({given})");
    };
    arguments.into_iter().zip(wanted).map(|(argument, field)| cast_to(argument, &field.data_type().clone().into(), mode)).collect()
}

/// A call of a function that was added to the session.
pub(crate) fn scalar(name: &str, function: &Arc<ScalarUDF>, arguments: Vec<Typed>, mode: Mode) -> Result<Typed> {
    let arguments = coerced(name, function.as_ref(), arguments, mode)?;
    let types: Vec<DataType> = arguments.iter().map(|argument| argument.data_type.clone()).collect();
    let scalars: Vec<Option<&ScalarValue>> = arguments.iter().map(Typed::value).collect();
    let arg_fields = fields(&arguments);
    let field = function.return_field_from_args(datafusion::logical_expr::ReturnFieldArgs { arg_fields: &arg_fields, scalar_arguments: &scalars });
    let result = match field {
        Ok(field) => field.data_type().clone(),
        Err(_) => function.return_type(&types)?,
    };
    let args = arguments.into_iter().map(|argument| argument.expr).collect();
    Ok(Typed::new(Expr::ScalarFunction(ScalarFunction { func: Arc::clone(function), args }), result))
}

/// What stands around the arguments of an aggregate.
#[derive(Clone, Default)]
pub(crate) struct Extras {
    pub(crate) distinct: bool,
    pub(crate) filter: Option<Box<Expr>>,
    pub(crate) order_by: Vec<SortExpr>,
    pub(crate) nulls: Option<NullTreatment>,
}

impl Translator<'_> {
    pub(crate) fn aggregate(&mut self, name: &str, function: &Function) -> Result<Typed> {
        let FunctionArguments::List(list) = &function.args else { return plan_err!("{name} is an aggregate: write {name}(…)") };
        let mut extras = Extras { distinct: list.duplicate_treatment == Some(DuplicateTreatment::Distinct), ..Extras::default() };
        let mut arguments = Vec::new();
        for argument in &list.args {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(ast)) => arguments.push(self.expr(ast)?),
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) if name == "COUNT" => arguments.push(Typed::literal(ScalarValue::Int64(Some(1)))),
                other => return plan_err!("{name} does not take `{other}`"),
            }
        }
        if let Some(filter) = &function.filter {
            let filter = self.expr(filter)?;
            extras.filter = Some(Box::new(as_boolean(filter, "FILTER")?.expr));
        }
        let mut order: Vec<&OrderByExpr> = function.within_group.iter().collect();
        let mut nulls = function.null_treatment;
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::OrderBy(by) => order.extend(by),
                FunctionArgumentClause::IgnoreOrRespectNulls(treatment) => nulls = Some(*treatment),
                other => return plan_err!("{name}: `{other}` is not built"),
            }
        }
        extras.nulls = nulls.map(|treatment| match treatment {
            AstNulls::IgnoreNulls => NullTreatment::IgnoreNulls,
            AstNulls::RespectNulls => NullTreatment::RespectNulls,
        });
        extras.order_by = order.into_iter().map(|by| self.sort(by)).collect::<Result<_>>()?;
        if let Some(added) = self.session.aggregates.get(name) {
            return plain(name, added, arguments, extras, self.mode());
        }
        aggregates::call(name, arguments, extras, self.session)
    }

    fn sort(&mut self, by: &OrderByExpr) -> Result<SortExpr> {
        let key: &Ast = &by.expr;
        let asc = by.options.asc.unwrap_or(true);
        // Flink's nulls are the smallest values.
        Ok(SortExpr { expr: self.expr(key)?.expr, asc, nulls_first: by.options.nulls_first.unwrap_or(asc) })
    }
}

/// An aggregate as it is, its arguments cast as its signature says.
pub(crate) fn plain(name: &str, function: &Arc<AggregateUDF>, arguments: Vec<Typed>, extras: Extras, mode: Mode) -> Result<Typed> {
    let arguments = coerced(name, function.as_ref(), arguments, mode)?;
    let result = function.return_field(&fields(&arguments))?.data_type().clone();
    let args = arguments.into_iter().map(|argument| argument.expr).collect();
    let call = AggregateFunction::new_udf(Arc::clone(function), args, extras.distinct, extras.filter, extras.order_by, extras.nulls);
    Ok(Typed::new(Expr::AggregateFunction(call), result))
}
