//! What a script has created: tables, views, plugins and functions, by name.

use std::{collections::BTreeMap, sync::Arc};

use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use datafusion::sql::sqlparser::{
    ast::{Expr as Ast, Ident, Query, Spanned as _},
    tokenizer::{Location, Span},
};
use pelton_core::{
    graph::{MetadataColumn, TableSpec},
    plugin::PluginSpec,
};

use super::{
    fault::{Fault, Planned, nearest},
    functions::Functions,
    rel::{RelColumn, Role},
    scope::{Scope, ScopeColumn},
    table::{Catalog, Origin, Relation, Table, TableColumn},
    translate::{Clause, Translator},
};
use crate::{
    job::Environment,
    script::{
        options,
        statement::{ColumnDef, ColumnKind, CreateTable, ObjectKind},
    },
};

/// A table and how it was created.
#[derive(Debug, Clone)]
pub(crate) struct TableEntry {
    pub(crate) table: Arc<Table>,
    /// The CREATE statement, and the script's line it begins in.
    pub(crate) create: Arc<CreateTable>,
    pub(crate) line: u64,
    pub(crate) is_source: bool,
    pub(crate) is_sink: bool,
}

/// A view: its query and the names of its columns.
#[derive(Debug, Clone)]
pub(crate) struct ViewEntry {
    pub(crate) query: Box<Query>,
    pub(crate) columns: Vec<Ident>,
}

/// Everything by name.
#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) tables: BTreeMap<String, TableEntry>,
    pub(crate) views: BTreeMap<String, ViewEntry>,
    pub(crate) plugins: BTreeMap<String, Arc<PluginSpec>>,
    /// Functions of the script and the plugins they come from.
    pub(crate) functions: BTreeMap<String, String>,
}

impl Catalog for Objects {
    fn relation(&self, name: &str) -> Option<Relation> {
        if let Some(entry) = self.tables.get(name) {
            return Some(Relation::Table(Arc::clone(&entry.table)));
        }
        let view = self.views.get(name)?;
        Some(Relation::View { query: view.query.clone(), columns: view.columns.clone() })
    }

    fn names(&self) -> Vec<String> {
        self.tables.keys().chain(self.views.keys()).cloned().collect()
    }
}

impl Objects {
    /// Whether a table or view of this name may be created: `false` if it is there and IF NOT EXISTS says to keep it.
    pub(crate) fn is_free(&self, name: &Ident, if_not_exists: bool) -> Planned<bool> {
        let taken = if self.tables.contains_key(&name.value) {
            "table"
        } else if self.views.contains_key(&name.value) {
            "view"
        } else {
            return Ok(true);
        };
        if if_not_exists {
            return Ok(false);
        }
        Err(Fault::at(name.span, format!("there is a {taken} `{}` already: DROP it first, or write IF NOT EXISTS", name.value)))
    }

    /// Removes something. `false` if it was not there.
    pub(crate) fn remove(&mut self, what: ObjectKind, name: &str) -> bool {
        match what {
            ObjectKind::Table => self.tables.remove(name).is_some(),
            ObjectKind::View => self.views.remove(name).is_some(),
            ObjectKind::Function => self.functions.remove(name).is_some(),
            ObjectKind::Plugin => self.plugins.remove(name).is_some(),
        }
    }

    /// Names of a kind.
    pub(crate) fn names_of(&self, what: ObjectKind) -> Vec<&str> {
        match what {
            ObjectKind::Table => self.tables.keys().map(String::as_str).collect(),
            ObjectKind::View => self.views.keys().map(String::as_str).collect(),
            ObjectKind::Function => self.functions.keys().map(String::as_str).collect(),
            ObjectKind::Plugin => self.plugins.keys().map(String::as_str).collect(),
        }
    }

    /// Makes a table of its CREATE statement.
    pub(crate) fn table(&self, create: &Arc<CreateTable>, env: &Environment<'_>, functions: &Functions, line: u64) -> Planned<TableEntry> {
        let located = |(at, message): (Location, String)| Fault { at, message };
        let checked = options::check_table(&create.options, env, create.name.span.start).map_err(located)?;
        let inferred = self.inferred(create, env, &checked.options)?;
        let mut columns: Vec<(Ident, FieldRef, Option<Origin>, Option<&Ast>)> = Vec::new();
        let mut physical = Vec::new();
        // What the statement declares itself goes before what is found.
        for field in inferred.into_iter().filter(|field| !create.columns.iter().any(|column| &column.name.value == field.name())) {
            physical.push(Arc::clone(&field));
            let origin = Origin::Physical(physical.len() - 1);
            columns.push((Ident::with_span(create.name.span, field.name()), field, Some(origin), None));
        }
        for ColumnDef { name, kind } in &create.columns {
            if columns.iter().any(|(known, ..)| known.value == name.value) {
                return Err(Fault::at(name.span, format!("column `{}` stands twice", name.value)));
            }
            match kind {
                ColumnKind::Physical(field) => {
                    let field = if is_key(create, name) { Arc::new(field.as_ref().clone().with_nullable(false)) } else { Arc::clone(field) };
                    physical.push(Arc::clone(&field));
                    columns.push((name.clone(), field, Some(Origin::Physical(physical.len() - 1)), None));
                }
                ColumnKind::Metadata { field, key, is_virtual, at } => {
                    options::check_metadata(checked.connector, key, *is_virtual, *at).map_err(located)?;
                    let column = MetadataColumn { name: name.value.clone(), key: key.clone(), data_type: field.data_type().clone() };
                    columns.push((name.clone(), Arc::clone(field), Some(Origin::Metadata { column, is_virtual: *is_virtual }), None));
                }
                ColumnKind::Computed(ast) => {
                    let unknown = Arc::new(Field::new(&name.value, DataType::Null, true));
                    columns.push((name.clone(), unknown, None, Some(ast.as_ref())));
                }
            }
        }
        let translator = Translator { functions };
        let columns = computed_columns(columns, &translator)?;
        let names = |idents: &[Ident]| idents.iter().map(|ident| known(ident, &columns)).collect::<Planned<Vec<_>>>();
        let spec = TableSpec {
            name: create.name.value.clone(),
            options: checked.options,
            physical: Arc::new(Schema::new(physical)),
            primary_key: names(&create.primary_key)?,
            partition_by: names(&create.partition_by)?,
            line,
        };
        let watermark = create.watermark.as_ref().map(|(name, ast)| watermark(name, ast, &columns, &translator)).transpose()?;
        Ok(TableEntry {
            table: Arc::new(Table { spec: Arc::new(spec), columns, watermark }),
            create: Arc::clone(create),
            line,
            is_source: checked.connector.is_source,
            is_sink: checked.connector.is_sink,
        })
    }

    /// Columns inferred from samples, for `'pelton.schema.infer'`.
    fn inferred(&self, create: &CreateTable, env: &Environment<'_>, options: &BTreeMap<String, String>) -> Planned<Vec<FieldRef>> {
        let Some(how) = create.options.iter().find(|option| option.key == "pelton.schema.infer") else {
            if create.columns.is_empty() {
                let message = format!("table `{}` has no columns: declare them, or let them be found with 'pelton.schema.infer'", create.name.value);
                return Err(Fault::at(create.name.span, message));
            }
            return Ok(Vec::new());
        };
        let name = &create.name.value;
        let fault = |message: String| Fault { at: how.value_at, message };
        if let Some(column) = create.columns.iter().find(|column| matches!(column.kind, ColumnKind::Physical(_))) {
            let message = format!("`{name}` has columns and 'pelton.schema.infer': leave `{}` out, or the option", column.name.value);
            return Err(Fault::at(column.name.span, message));
        }
        let pinned = (env.pinned_schema)(name, None).map_err(fault)?;
        if let Some(pinned) = pinned {
            return super::pinned::read(&pinned).map_err(|reason| fault(format!("the pinned schema of `{name}`: {reason}")));
        }
        let plugin = match how.value.as_str() {
            "native" | "auto" | "true" => None,
            plugin => Some(self.plugins.get(plugin).ok_or_else(|| {
                let hint = nearest(plugin, self.plugins.keys().map(String::as_str));
                fault(format!("plugin `{plugin}` not found{hint}; 'native' infers without one"))
            })?),
        };
        let samples = (env.samples)(options).map_err(fault)?;
        if samples.is_empty() {
            return Err(fault(format!("columns of `{name}` cannot be inferred: there is no record to learn from")));
        }
        let schema = env
            .plugins
            .infer_schema(plugin.map(AsRef::as_ref), name, &samples)
            .map_err(|error| fault(format!("columns of `{name}` could not be inferred: {error}")))?;
        let fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
        (env.pinned_schema)(name, Some(&super::pinned::write(&fields))).map_err(fault)?;
        Ok(fields)
    }
}

fn is_key(create: &CreateTable, name: &Ident) -> bool {
    create.primary_key.iter().any(|key| key.value == name.value)
}

fn known(ident: &Ident, columns: &[TableColumn]) -> Planned<String> {
    if columns.iter().any(|column| column.field.name() == &ident.value) {
        return Ok(ident.value.clone());
    }
    let hint = nearest(&ident.value, columns.iter().map(|column| column.field.name().as_str()));
    Err(Fault::at(ident.span, format!("column `{}` not found{hint}", ident.value)))
}

/// Translates computed columns, which see all columns that are not computed.
fn computed_columns(
    columns: Vec<(Ident, FieldRef, Option<Origin>, Option<&Ast>)>,
    translator: &Translator<'_>,
) -> Planned<Vec<TableColumn>> {
    let scope = Scope {
        columns: columns
            .iter()
            .map(|(name, field, origin, _)| ScopeColumn {
                qualifier: None,
                name: name.value.clone(),
                column: RelColumn::new(Arc::clone(field), Role::Plain),
                hidden: origin.is_none(),
            })
            .collect(),
        outer: Vec::new(),
    };
    let computed: Vec<String> = columns.iter().filter(|(_, _, origin, _)| origin.is_none()).map(|(name, ..)| name.value.clone()).collect();
    columns
        .into_iter()
        .map(|(name, field, origin, ast)| match (origin, ast) {
            (Some(origin), _) => Ok(TableColumn { field, origin }),
            (None, Some(ast)) => {
                let expr = translator.expr(ast, &scope, Clause::ComputedColumn).map_err(|fault| {
                    let other = computed.iter().find(|other| fault.message.starts_with(&format!("column `{other}` not found")));
                    match other {
                        Some(other) => Fault { message: format!("`{other}` is computed too: a computed column reads columns that are not"), ..fault },
                        None => fault,
                    }
                })?;
                let field = translator.field(&expr, &scope.rel_columns(), &name.value, ast)?;
                let field: FieldRef = Arc::new(field.as_ref().clone().with_nullable(true));
                if matches!(field.data_type(), DataType::Null) {
                    return Err(Fault::at(ast.span(), format!("`{}` has no type: write CAST(NULL AS …)", name.value)));
                }
                Ok(TableColumn { field, origin: Origin::Computed(expr) })
            }
            (None, None) => Err(Fault::at(name.span, "a column without a type")),
        })
        .collect()
}

/// The time attribute's position and the WATERMARK expression.
fn watermark(name: &Ident, ast: &Ast, columns: &[TableColumn], translator: &Translator<'_>) -> Planned<(usize, datafusion::logical_expr::Expr)> {
    known(name, columns)?;
    let index = columns.iter().position(|column| column.field.name() == &name.value).unwrap_or_default();
    let scope = Scope {
        columns: columns
            .iter()
            .map(|column| ScopeColumn {
                qualifier: None,
                name: column.field.name().clone(),
                column: RelColumn::new(Arc::clone(&column.field), Role::Plain),
                hidden: false,
            })
            .collect(),
        outer: Vec::new(),
    };
    let is_time = |data_type: &DataType| matches!(data_type, DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _));
    let check = |data_type: &DataType, what: &str, span: Span| {
        if is_time(data_type) {
            return Ok(());
        }
        let found = translator.functions.type_name(data_type);
        Err(Fault::at(span, format!("{what} must be TIMESTAMP(p) or TIMESTAMP_LTZ(p) with p from 0 to 3, found {found}")))
    };
    check(columns[index].field.data_type(), &format!("the time attribute `{}`", name.value), name.span)?;
    let expr = translator.expr(ast, &scope, Clause::ComputedColumn)?;
    let field = translator.field(&expr, &scope.rel_columns(), "watermark", ast)?;
    check(field.data_type(), "a WATERMARK", ast.span())?;
    Ok((index, expr))
}
