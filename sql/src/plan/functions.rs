//! What the planner asks of the expression layer: which functions there are, and Flink's semantics of an expression.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{DFSchema, DataFusionError, Result, TableReference, config::ConfigOptions, plan_err},
    logical_expr::{AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF, expr::ScalarFunction, planner::ExprPlanner},
    sql::{planner::ContextProvider, sqlparser::ast::Expr as Ast},
};
use hashbrown::HashMap;

use super::{fault::Planned, rel::RelColumn};

/// The functions a script can call.
pub(crate) struct Functions {
    scalars: HashMap<String, Arc<ScalarUDF>>,
    aggregates: HashMap<String, Arc<AggregateUDF>>,
    tables: HashMap<String, Arc<ScalarUDF>>,
    planners: Vec<Arc<dyn ExprPlanner>>,
    options: ConfigOptions,
}

impl Functions {
    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        let scalars = datafusion::functions::all_default_functions().into_iter().map(|f| (f.name().to_owned(), f)).collect();
        let aggregates =
            datafusion::functions_aggregate::all_default_aggregate_functions().into_iter().map(|f| (f.name().to_owned(), f)).collect();
        Self {
            scalars,
            aggregates,
            tables: HashMap::new(),
            planners: vec![
                Arc::new(datafusion::functions_nested::planner::FieldAccessPlanner),
                Arc::new(datafusion::functions_nested::planner::NestedFunctionPlanner),
                Arc::new(datafusion::functions::core::planner::CoreFunctionPlanner::default()),
            ],
            options: ConfigOptions::default(),
        }
    }
    pub(crate) fn is_aggregate(&self, name: &str) -> bool {
        self.aggregates.contains_key(&name.to_lowercase())
    }
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.scalars.contains_key(&name.to_lowercase())
    }
    pub(crate) fn is_table_function(&self, name: &str) -> bool {
        self.tables.contains_key(&name.to_lowercase())
    }
    pub(crate) fn table_function_names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }
    pub(crate) fn names(&self) -> Vec<String> {
        self.scalars.keys().chain(self.aggregates.keys()).cloned().collect()
    }
    pub(crate) fn rewrite_syntax(&self, _ast: &mut Ast) -> Planned<()> {
        Ok(())
    }
    pub(crate) fn semantics(&self, expr: Expr, _schema: &DFSchema) -> Result<Expr> {
        Ok(expr)
    }
    pub(crate) fn folded(&self, expr: Expr, _columns: &[RelColumn]) -> std::result::Result<Expr, String> {
        Ok(expr)
    }
    pub(crate) fn common_type(&self, a: &DataType, b: &DataType) -> Option<DataType> {
        (a == b).then(|| a.clone())
    }
    pub(crate) fn cast(&self, expr: Expr, _from: &DataType, to: &DataType) -> Result<Expr> {
        Ok(datafusion::logical_expr::cast(expr, to.clone()))
    }
    pub(crate) fn type_name(&self, data_type: &DataType) -> String {
        data_type.to_string()
    }
}

pub(crate) fn interval_shift(call: &ScalarFunction) -> Option<(&Expr, &Expr, i64)> {
    let _ = call;
    None
}

impl ContextProvider for Functions {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        plan_err!("table `{name}` inside an expression")
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let name = name.to_lowercase();
        self.scalars.get(&name).or_else(|| self.tables.get(&name)).cloned()
    }

    fn get_higher_order_meta(&self, _name: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        self.aggregates.get(&name.to_lowercase()).cloned()
    }

    fn get_window_meta(&self, _name: &str) -> Option<Arc<WindowUDF>> {
        None
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &self.options
    }

    fn udf_names(&self) -> Vec<String> {
        self.scalars.keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.aggregates.keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        Vec::new()
    }
}

#[expect(dead_code, reason = "kept until the expression layer is there")]
type Unused = DataFusionError;
