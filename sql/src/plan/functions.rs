//! What the planner asks of the expression layer: which functions there are, and Flink's semantics of an expression.
//!
//! A session of `sql/expr` with a script's plugin functions added. Table functions are kept apart: they give an array
//! per row, which the planner unnests, and cannot be called anywhere else.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{DataType, Field};
use chrono_tz::Tz;
use datafusion::{
    common::{DFSchema, DataFusionError, Result},
    logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, expr::ScalarFunction},
    sql::sqlparser::ast::Expr as Ast,
};
use pelton_core::{
    error::RuntimeError,
    plugin::{PluginFunction, Volatility as PluginVolatility},
};
use pelton_sql_expr::{RowError, Session};

/// The functions a script can call.
#[derive(Clone)]
pub(crate) struct Functions {
    session: Session,
    /// Functions that come from plugins, by name in capitals, and whether they make rows.
    added: BTreeMap<String, (Arc<ScalarUDF>, bool)>,
}

impl Functions {
    /// The built-in functions, with local time in `zone`.
    pub(crate) fn new(zone: Tz) -> Self {
        Self { session: Session::new(zone), added: BTreeMap::new() }
    }

    /// Adds a plugin's function under a name of the script.
    pub(crate) fn add(&mut self, name: &str, function: PluginFunction) {
        let is_table = function.is_table;
        let function = Arc::new(ScalarUDF::from(PluginCall::new(name, function)));
        self.session.add_scalar(name, Arc::clone(&function));
        self.added.insert(name.to_ascii_uppercase(), (function, is_table));
    }

    /// Removes a function of the script.
    pub(crate) fn remove(&mut self, name: &str) {
        self.added.remove(&name.to_ascii_uppercase());
        self.session.remove(name);
    }

    /// From now on local time is `zone`'s.
    pub(crate) fn set_zone(&mut self, zone: Tz) {
        let mut session = Session::new(zone);
        for (name, (function, _)) in &self.added {
            session.add_scalar(name, Arc::clone(function));
        }
        self.session = session;
    }

    pub(crate) fn is_aggregate(&self, name: &str) -> bool {
        self.session.is_aggregate(name)
    }

    /// Whether a scalar function of this name can be called.
    pub(crate) fn knows(&self, name: &str) -> bool {
        self.session.is_scalar(name)
    }

    pub(crate) fn is_table_function(&self, name: &str) -> bool {
        self.added.get(&name.to_ascii_uppercase()).is_some_and(|(_, is_table)| *is_table)
    }

    pub(crate) fn table_function_names(&self) -> Vec<String> {
        self.added.iter().filter(|(_, (_, is_table))| *is_table).map(|(name, _)| name.clone()).collect()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.session.function_names()
    }

    /// `ast`, its names already positions, as an expression with final types.
    pub(crate) fn translate(&self, ast: &Ast, schema: &DFSchema) -> Result<Expr> {
        self.session.translate(ast, schema)
    }

    /// The type in which two columns of a UNION meet.
    pub(crate) fn common_type(&self, a: &DataType, b: &DataType) -> Option<DataType> {
        pelton_sql_expr::common_type(a, b)
    }

    pub(crate) fn cast(&self, expr: Expr, from: &DataType, to: &DataType) -> Result<Expr> {
        self.session.cast(expr, from, to)
    }

    pub(crate) fn type_name(&self, data_type: &DataType) -> String {
        pelton_sql_expr::type_name(data_type)
    }
}

/// The parts of `time ± interval` where it is a call.
pub(crate) fn interval_shift(call: &ScalarFunction) -> Option<(&Expr, &Expr, i64)> {
    pelton_sql_expr::interval_shift(call)
}

/// A plugin's function as DataFusion calls it.
#[derive(Debug)]
struct PluginCall {
    name: String,
    function: PluginFunction,
    signature: Signature,
}

impl PluginCall {
    fn new(name: &str, function: PluginFunction) -> Self {
        let volatility = match function.volatility {
            PluginVolatility::Immutable => Volatility::Immutable,
            PluginVolatility::Stable => Volatility::Stable,
            PluginVolatility::Volatile => Volatility::Volatile,
        };
        let signature = if function.arguments.is_empty() {
            Signature::nullary(volatility)
        } else {
            Signature::exact(function.arguments.clone(), volatility)
        };
        Self { name: name.to_owned(), function, signature }
    }
}

// Functions of a script are told apart by name.
impl PartialEq for PluginCall {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for PluginCall {}

impl std::hash::Hash for PluginCall {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for PluginCall {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(match self.function.is_table {
            true => DataType::List(Arc::new(Field::new("item", self.function.returns.clone(), true))),
            false => self.function.returns.clone(),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.into_iter().map(|value| value.into_array(rows)).collect::<Result<Vec<_>>>()?;
        let result = self.function.call.invoke(&arrays, rows).map_err(|error| match error {
            // A row it refuses: the batch is halved until that row stands alone.
            RuntimeError::Data { step, reason, .. } => {
                let reason = if step.is_empty() { reason } else { format!("{step}: {reason}") };
                DataFusionError::External(Box::new(RowError { reason }))
            }
            other => DataFusionError::External(Box::new(other)),
        })?;
        Ok(ColumnarValue::Array(result))
    }
}
