//! A script from its first statement to its last: the catalog it builds up, and the actions it asks for.
//!
//! All INSERTs of a script become one job, so that a table is read once whatever it feeds; the job stands where the last
//! of them does. Each SELECT is a job of its own.

use std::{cell::RefCell, collections::BTreeMap, sync::Arc};

use arrow::{
    array::{ArrayRef, BooleanArray, RecordBatch, StringArray},
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit},
};
use datafusion::sql::sqlparser::{
    ast::{Ident, Query, Spanned as _},
    parser::Parser,
    tokenizer::{Location, Span},
};
use pelton_core::{
    graph::{Graph, MetadataColumn, TableSpec},
    plugin::PluginSpec,
};
use pelton_sql_expr::FlinkDialect;
use serde_json::{Value, json};

use crate::{
    job::{Action, Environment, Job, ScriptError},
    plan::{
        fault::{Fault, Planned, nearest},
        functions::Functions,
        insert::{SinkPlan, print},
        lower::lower,
        query::{Ctes, Planner},
        rel::{Rel, RelColumn, Role, at, remap},
        scope::Scope,
        steps::Steps,
        table::{Catalog, Origin, Relation, Table, TableColumn},
        translate::{Clause, Translator},
    },
    script::{
        options, parse,
        source::Source,
        statement::{ColumnKind, CreateTable, Explained, Insert, ObjectKind, Show, Spanned, Statement},
        types,
    },
};

/// Plans a script: what to do, in its order. Nothing runs before the whole script is planned.
///
/// # Errors
/// The first fault, with its place.
pub fn plan_script(text: &str, environment: &Environment<'_>) -> Result<Vec<Action>, ScriptError> {
    let source = Source::new(text, environment.variables)?;
    let statements = parse::parse(&source)?;
    let zone = statements.iter().rev().find_map(|spanned| match &spanned.statement {
        Statement::Set { key, value, .. } if key == ZONE => Some((value.clone(), spanned.at)),
        _ => None,
    });
    let (zone_name, zone_at) = zone.unwrap_or_else(|| ("UTC".to_owned(), Location { line: 1, column: 1 }));
    let zone = pelton_sql_expr::parse_zone(&zone_name).map_err(|message| source.error(zone_at, message))?;
    let mut session = Session {
        environment,
        source: &source,
        zone: zone.name().to_owned(),
        functions: Functions::new(zone),
        tables: BTreeMap::new(),
        views: BTreeMap::new(),
        function_names: BTreeMap::new(),
        plugins: BTreeMap::new(),
        settings: BTreeMap::new(),
        actions: Vec::new(),
        sinks: Vec::new(),
        inserts_at: 0,
    };
    for statement in &statements {
        session.statement(statement).map_err(|fault| {
            let at = if fault.at.line == 0 { statement.at } else { fault.at };
            source.error(at, fault.message)
        })?;
    }
    session.finish().map_err(|fault| source.error(fault.at, fault.message))
}

const ZONE: &str = "table.local-time-zone";

struct View {
    query: Box<Query>,
    columns: Vec<Ident>,
}

struct Session<'a> {
    environment: &'a Environment<'a>,
    source: &'a Source,
    zone: String,
    functions: Functions,
    tables: BTreeMap<String, (Arc<Table>, String)>,
    views: BTreeMap<String, View>,
    /// Functions of the script, with the plugin they come from.
    function_names: BTreeMap<String, String>,
    plugins: BTreeMap<String, Arc<PluginSpec>>,
    settings: BTreeMap<String, String>,
    actions: Vec<Action>,
    sinks: Vec<SinkPlan>,
    /// Where among the actions the job of all INSERTs goes.
    inserts_at: usize,
}

impl Catalog for Session<'_> {
    fn relation(&self, name: &str) -> Option<Relation> {
        if let Some((table, _)) = self.tables.get(name) {
            return Some(Relation::Table(Arc::clone(table)));
        }
        self.views.get(name).map(|view| Relation::View { query: view.query.clone(), columns: view.columns.clone() })
    }

    fn names(&self) -> Vec<String> {
        self.tables.keys().chain(self.views.keys()).cloned().collect()
    }
}

fn at_place(at: Location, message: impl Into<String>) -> Fault {
    Fault { at, message: message.into() }
}

impl Session<'_> {
    fn statement(&mut self, spanned: &Spanned) -> Planned<()> {
        match &spanned.statement {
            Statement::CreateTable(create) => self.create_table(create, spanned.at),
            Statement::CreateView { name, columns, query, if_not_exists } => {
                if self.is_taken(ObjectKind::View, name, *if_not_exists)? {
                    return Ok(());
                }
                // Planned once for its faults; again wherever it is read.
                self.plan_query(query)?;
                self.views.insert(name.value.clone(), View { query: query.clone(), columns: columns.clone() });
                Ok(())
            }
            Statement::CreateFunction { name, export, plugin, if_not_exists } => self.create_function(name, export, plugin, *if_not_exists),
            Statement::CreatePlugin { name, options, if_not_exists } => {
                if self.is_taken(ObjectKind::Plugin, name, *if_not_exists)? {
                    return Ok(());
                }
                let options = options.iter().map(|option| (option.key.clone(), option.value.clone())).collect();
                let line = self.source.original(spanned.at).0;
                self.plugins.insert(name.value.clone(), Arc::new(PluginSpec { name: name.value.clone(), options, line }));
                Ok(())
            }
            Statement::Insert(insert) => self.insert(insert),
            Statement::StatementSet(inserts) => inserts.iter().try_for_each(|insert| self.insert(insert)),
            Statement::Query(query) => {
                let rel = self.plan_query(query)?;
                let line = self.source.original(spanned.at).0;
                let job = self.job(&[print(rel, line)])?;
                self.actions.push(Action::Run(job));
                Ok(())
            }
            Statement::Explain(explained) => {
                let sinks = match explained.as_ref() {
                    Explained::Query(query) => vec![print(self.plan_query(query)?, self.source.original(spanned.at).0)],
                    Explained::Inserts(inserts) => inserts.iter().map(|insert| self.plan_insert(insert)).collect::<Planned<_>>()?,
                };
                let text = self.graph(&sinks)?.render();
                self.actions.push(Action::Text(text));
                Ok(())
            }
            Statement::Set { key, value, key_at } => {
                options::check_setting(key, *key_at, self.environment.settings).map_err(|(at, message)| at_place(at, message))?;
                self.settings.insert(key.clone(), value.clone());
                Ok(())
            }
            Statement::ShowSettings => {
                let rows = self.settings.iter().map(|(key, value)| vec![key.clone(), value.clone()]).collect();
                self.show(&["key", "value"], rows)
            }
            Statement::Reset(key) => {
                match key {
                    Some(key) => drop(self.settings.remove(key)),
                    None => self.settings.clear(),
                }
                Ok(())
            }
            Statement::Show(show) => self.show_statement(show),
            Statement::Describe(name) => self.describe(name),
            Statement::Drop { what, name, if_exists } => self.drop_object(*what, name, *if_exists),
        }
    }

    fn finish(mut self) -> Planned<Vec<Action>> {
        if !self.sinks.is_empty() {
            let sinks = std::mem::take(&mut self.sinks);
            let job = self.job(&sinks)?;
            self.actions.insert(self.inserts_at, Action::Run(job));
        }
        Ok(self.actions)
    }

    fn planner(&self) -> Planner<'_> {
        Planner { catalog: self, translator: Translator { functions: &self.functions }, zone: self.zone.clone(), open_views: RefCell::default() }
    }

    fn plan_query(&self, query: &Query) -> Planned<Arc<Rel>> {
        self.planner().query(query, &Ctes::new())
    }

    fn graph(&self, sinks: &[SinkPlan]) -> Planned<Graph> {
        lower(sinks, &Steps)
    }

    fn job(&self, sinks: &[SinkPlan]) -> Planned<Job> {
        let name = self.settings.get("pipeline.name").cloned().unwrap_or_default();
        Ok(Job { name, settings: self.settings.clone(), plugins: self.plugins.clone(), graph: self.graph(sinks)? })
    }

    fn plan_insert(&self, insert: &Insert) -> Planned<SinkPlan> {
        let name = &insert.table.value;
        let Some((table, _)) = self.tables.get(name) else {
            let what = if self.views.contains_key(name) { "is a view and takes no rows".to_owned() } else { format!("does not exist{}", nearest(name, self.tables.keys().map(String::as_str))) };
            return Err(Fault::at(insert.table.span, format!("table `{name}` {what}")));
        };
        let connector = table.spec.options.get("connector").map_or("", String::as_str);
        if self.environment.connectors.iter().any(|info| info.name == connector && !info.is_sink) {
            return Err(Fault::at(insert.table.span, format!("table `{name}` cannot be written: connector '{connector}' only reads")));
        }
        self.check_plugin(&table.spec, "pelton.router", "router", insert.table.span)?;
        let rel = self.plan_query(&insert.query)?;
        self.planner().insert(rel, table, &insert.columns, insert.query.span()).map_err(|fault| fault.or_at(insert.table.span))
    }

    fn insert(&mut self, insert: &Insert) -> Planned<()> {
        let sink = self.plan_insert(insert)?;
        self.sinks.push(sink);
        self.inserts_at = self.actions.len();
        Ok(())
    }

    fn check_plugin(&self, table: &TableSpec, option: &str, kind: &str, span: Span) -> Planned<()> {
        let Some(name) = table.options.get(option) else { return Ok(()) };
        let plugin = self.plugin(name, span)?;
        self.environment.plugins.check_kind(plugin, kind).map_err(|error| Fault::at(span, error.to_string()))
    }

    fn plugin(&self, name: &str, span: Span) -> Planned<&Arc<PluginSpec>> {
        self.plugins.get(name).ok_or_else(|| {
            let hint = nearest(name, self.plugins.keys().map(String::as_str));
            Fault::at(span, format!("plugin `{name}` does not exist{hint}: CREATE PLUGIN it before it is used"))
        })
    }

    /// Whether the name is taken and that is fine; an error if it is taken and not.
    fn is_taken(&self, what: ObjectKind, name: &Ident, if_not_exists: bool) -> Planned<bool> {
        let taken = match what {
            ObjectKind::Table | ObjectKind::View => self.tables.contains_key(&name.value) || self.views.contains_key(&name.value),
            ObjectKind::Function => self.function_names.contains_key(&name.value),
            ObjectKind::Plugin => self.plugins.contains_key(&name.value),
        };
        if taken && !if_not_exists {
            return Err(Fault::at(name.span, format!("{} `{}` exists already: DROP it first, or write IF NOT EXISTS", what.word(), name.value)));
        }
        Ok(taken)
    }

    fn create_function(&mut self, name: &Ident, export: &str, plugin: &Ident, if_not_exists: bool) -> Planned<()> {
        if self.is_taken(ObjectKind::Function, name, if_not_exists)? {
            return Ok(());
        }
        let spec = self.plugin(&plugin.value, plugin.span)?;
        let functions = self.environment.plugins.functions(spec).map_err(|error| Fault::at(plugin.span, error.to_string()))?;
        let known: Vec<String> = functions.iter().map(|function| function.name.clone()).collect();
        let Some(function) = functions.into_iter().find(|function| function.name == export) else {
            let hint = nearest(export, known.iter().map(String::as_str));
            return Err(Fault::at(name.span, format!("plugin `{}` has no function '{export}'{hint}; it has {}", plugin.value, known.join(", "))));
        };
        self.functions.add(&name.value, function);
        self.function_names.insert(name.value.clone(), plugin.value.clone());
        Ok(())
    }

    fn create_table(&mut self, create: &CreateTable, statement_at: Location) -> Planned<()> {
        let name = &create.name;
        if self.is_taken(ObjectKind::Table, name, create.if_not_exists)? {
            return Ok(());
        }
        let checked = options::check_table(&create.options, self.environment, name.span.start).map_err(|(at, message)| at_place(at, message))?;
        let mut names: Vec<&str> = Vec::new();
        for column in &create.columns {
            if names.contains(&column.name.value.as_str()) {
                return Err(Fault::at(column.name.span, format!("column `{}` stands twice", column.name.value)));
            }
            names.push(&column.name.value);
        }
        let inferred = self.inferred(create, &checked.options)?;
        let mut columns: Vec<TableColumn> = Vec::new();
        let mut physical: Vec<FieldRef> = Vec::new();
        for field in inferred.iter().flat_map(|schema| schema.fields().iter()) {
            if !names.contains(&field.name().as_str()) {
                columns.push(TableColumn { field: Arc::clone(field), origin: Origin::Physical(physical.len()) });
                physical.push(Arc::clone(field));
            }
        }
        for column in &create.columns {
            let (field, origin) = match &column.kind {
                ColumnKind::Physical(field) => {
                    physical.push(Arc::clone(field));
                    (Arc::clone(field), Origin::Physical(physical.len() - 1))
                }
                ColumnKind::Metadata { field, key, is_virtual, at } => {
                    options::check_metadata(checked.connector, key, *is_virtual, *at).map_err(|(at, message)| at_place(at, message))?;
                    let column = MetadataColumn { name: column.name.value.clone(), key: key.clone(), data_type: field.data_type().clone() };
                    (Arc::clone(field), Origin::Metadata { column, is_virtual: *is_virtual })
                }
                // Filled in below, once all columns it may read are known.
                ColumnKind::Computed(_) => (Arc::new(Field::new(&column.name.value, DataType::Null, true)), Origin::Computed(at(0))),
            };
            columns.push(TableColumn { field, origin });
        }
        self.compute(create, &mut columns)?;
        let watermark = self.watermark(create, &columns)?;
        let key = |idents: &[Ident]| idents.iter().map(|ident| self.known_column(ident, &columns).map(|_| ident.value.clone())).collect::<Planned<Vec<_>>>();
        let spec = TableSpec {
            name: name.value.clone(),
            options: checked.options,
            physical: Arc::new(Schema::new(physical)),
            primary_key: key(&create.primary_key)?,
            partition_by: key(&create.partition_by)?,
            line: self.source.original(statement_at).0,
        };
        let table = Arc::new(Table { spec: Arc::new(spec), columns, watermark });
        self.tables.insert(name.value.clone(), (table, create.text.clone()));
        Ok(())
    }

    fn known_column(&self, ident: &Ident, columns: &[TableColumn]) -> Planned<usize> {
        columns.iter().position(|column| column.field.name() == &ident.value).ok_or_else(|| {
            let hint = nearest(&ident.value, columns.iter().map(|column| column.field.name().as_str()));
            Fault::at(ident.span, format!("the table has no column `{}`{hint}", ident.value))
        })
    }

    /// Translates computed columns; they read physical and metadata columns, wherever those stand.
    fn compute(&self, create: &CreateTable, columns: &mut [TableColumn]) -> Planned<()> {
        let raw: Vec<usize> = (0..columns.len()).filter(|&index| !matches!(columns[index].origin, Origin::Computed(_))).collect();
        let raw_columns: Vec<RelColumn> = raw.iter().map(|&index| RelColumn::new(Arc::clone(&columns[index].field), Role::Plain)).collect();
        let translator = Translator { functions: &self.functions };
        let first = columns.len() - create.columns.len();
        for (index, column) in create.columns.iter().enumerate() {
            let ColumnKind::Computed(ast) = &column.kind else { continue };
            let expr = translator.expr(ast, &Scope::of(&raw_columns, None), Clause::ComputedColumn)?;
            let field = translator.field(&expr, &raw_columns, &column.name.value, ast)?;
            let field = field.as_ref().clone().with_nullable(true).into();
            columns[first + index] = TableColumn { field, origin: Origin::Computed(remap(&expr, &|position| raw[position])) };
        }
        Ok(())
    }

    fn watermark(&self, create: &CreateTable, columns: &[TableColumn]) -> Planned<Option<(usize, datafusion::logical_expr::Expr)>> {
        let Some((column, ast)) = &create.watermark else { return Ok(None) };
        let index = self.known_column(column, columns)?;
        let is_time = |data_type: &DataType| matches!(data_type, DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _));
        let found = columns[index].field.data_type();
        if !is_time(found) {
            let hint = match found {
                DataType::Timestamp(..) => ": declare it with a precision of at most 3",
                DataType::Utf8 => ": compute one, for instance `t AS TO_TIMESTAMP(…)`, and set the watermark on it",
                _ => "",
            };
            return Err(Fault::at(column.span, format!("a watermark needs a column of TIMESTAMP(p) or TIMESTAMP_LTZ(p) with p of 0 to 3, and `{}` is {}{hint}", column.value, types::type_name(found))));
        }
        let scope: Vec<RelColumn> = columns.iter().map(|column| RelColumn::new(Arc::clone(&column.field), Role::Plain)).collect();
        let translator = Translator { functions: &self.functions };
        let expr = translator.expr(ast, &Scope::of(&scope, None), Clause::ComputedColumn)?;
        let field = translator.field(&expr, &scope, "watermark", ast)?;
        if !is_time(field.data_type()) {
            return Err(Fault::at(ast.span(), format!("the watermark must be a TIMESTAMP of precision 0 to 3, not {}", types::type_name(field.data_type()))));
        }
        Ok(Some((index, expr)))
    }

    /// Columns found in samples, for a table that declares none.
    fn inferred(&self, create: &CreateTable, options: &BTreeMap<String, String>) -> Planned<Option<SchemaRef>> {
        let Some(option) = create.options.iter().find(|option| option.key == "pelton.schema.infer") else {
            let declared = create.columns.iter().any(|column| matches!(column.kind, ColumnKind::Physical(_)));
            return if declared || !create.columns.is_empty() {
                Ok(None)
            } else {
                Err(Fault::at(create.name.span, format!("table `{}` has no columns: declare them, or let them be found with 'pelton.schema.infer'", create.name.value)))
            };
        };
        if create.columns.iter().any(|column| matches!(column.kind, ColumnKind::Physical(_))) {
            return Err(at_place(option.key_at, "'pelton.schema.infer' finds the columns: declare only computed and metadata columns beside it"));
        }
        let fault = |message: String| at_place(option.value_at, format!("infer the columns of `{}`: {message}", create.name.value));
        if let Some(text) = (self.environment.pinned_schema)(&create.name.value, None).map_err(fault)? {
            return read_columns(&text).map(Some).map_err(fault);
        }
        let span = Span { start: option.value_at, end: option.value_at };
        let plugin = match option.value.strip_prefix("plugin:").unwrap_or(&option.value) {
            "native" | "auto" | "true" => None,
            name => Some(self.plugin(name, span)?.as_ref()),
        };
        let samples = (self.environment.samples)(options).map_err(fault)?;
        if samples.is_empty() {
            return Err(fault("there is no record to learn from".to_owned()));
        }
        let schema = self.environment.plugins.infer_schema(plugin, &create.name.value, &samples).map_err(|error| fault(error.to_string()))?;
        (self.environment.pinned_schema)(&create.name.value, Some(&write_columns(&schema))).map_err(fault)?;
        Ok(Some(schema))
    }

    fn drop_object(&mut self, what: ObjectKind, name: &Ident, if_exists: bool) -> Planned<()> {
        let gone = match what {
            ObjectKind::Table => self.tables.remove(&name.value).is_some(),
            ObjectKind::View => self.views.remove(&name.value).is_some(),
            ObjectKind::Function => self.function_names.remove(&name.value).is_some(),
            ObjectKind::Plugin => self.plugins.remove(&name.value).is_some(),
        };
        if gone || if_exists { Ok(()) } else { Err(Fault::at(name.span, format!("{} `{}` does not exist", what.word(), name.value))) }
    }

    fn show_statement(&mut self, show: &Show) -> Planned<()> {
        let one = |names: Vec<String>| names.into_iter().map(|name| vec![name]).collect();
        match show {
            Show::Tables => self.show(&["table name"], one(self.names())),
            Show::Views => self.show(&["view name"], one(self.views.keys().cloned().collect())),
            Show::Functions => self.show(&["function name"], one(self.functions.names())),
            Show::Plugins => self.show(&["plugin name"], one(self.plugins.keys().cloned().collect())),
            Show::CreateTable(name) => match self.tables.get(&name.value) {
                Some((_, text)) => {
                    let text = text.clone();
                    self.show(&["result"], vec![vec![text]])
                }
                None => Err(Fault::at(name.span, format!("table `{}` does not exist{}", name.value, nearest(&name.value, self.tables.keys().map(String::as_str))))),
            },
            Show::Columns(name) => self.describe(name),
        }
    }

    /// Name, type, null, key, extras and watermark of each column, as Flink's DESCRIBE.
    fn describe(&mut self, name: &Ident) -> Planned<()> {
        let row = |field: &Field, key: String, extras: String, watermark: String| {
            vec![field.name().clone(), types::field_type_name(field), field.is_nullable().to_string().to_uppercase(), key, extras, watermark]
        };
        let rows = match self.relation(&name.value) {
            Some(Relation::Table(table)) => table
                .columns
                .iter()
                .enumerate()
                .map(|(index, column)| {
                    let key = if table.spec.primary_key.contains(column.field.name()) { format!("PRI({})", table.spec.primary_key.join(", ")) } else { String::new() };
                    let extras = match &column.origin {
                        Origin::Physical(_) => String::new(),
                        Origin::Metadata { column, is_virtual } => format!("METADATA FROM '{}'{}", column.key, if *is_virtual { " VIRTUAL" } else { "" }),
                        Origin::Computed(_) => "computed".to_owned(),
                    };
                    let watermark = if table.watermark.as_ref().is_some_and(|(time, _)| *time == index) { "event time".to_owned() } else { String::new() };
                    row(&column.field, key, extras, watermark)
                })
                .collect(),
            Some(Relation::View { query, columns }) => {
                let rel = self.plan_query(&query)?;
                rel.columns.iter().enumerate().map(|(index, column)| {
                    let field = columns.get(index).map_or_else(|| column.field.as_ref().clone(), |name| column.field.as_ref().clone().with_name(&name.value));
                    row(&field, String::new(), String::new(), String::new())
                }).collect()
            }
            None => return Err(Fault::at(name.span, format!("table `{}` does not exist{}", name.value, nearest(&name.value, self.names().iter().map(String::as_str))))),
        };
        self.show(&["name", "type", "null", "key", "extras", "watermark"], rows)
    }

    fn show(&mut self, columns: &[&str], rows: Vec<Vec<String>>) -> Planned<()> {
        let fields: Vec<Field> = columns.iter().map(|column| Field::new(*column, if *column == "null" { DataType::Boolean } else { DataType::Utf8 }, true)).collect();
        let arrays = columns.iter().enumerate().map(|(index, column)| -> ArrayRef {
            let values = rows.iter().map(|row| row[index].as_str());
            if *column == "null" {
                Arc::new(values.map(|value| Some(value == "TRUE")).collect::<BooleanArray>())
            } else {
                Arc::new(values.map(|value| (!value.is_empty()).then_some(value)).collect::<StringArray>())
            }
        });
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays.collect()).map_err(|error| Fault { at: Location { line: 0, column: 0 }, message: error.to_string() })?;
        self.actions.push(Action::Rows(batch));
        Ok(())
    }
}

/// Columns as the text that pins them: a list of names and Flink's types.
fn write_columns(schema: &Schema) -> String {
    let columns: Vec<Value> = schema.fields().iter().map(|field| json!({ "name": field.name(), "type": types::field_type_name(field) })).collect();
    Value::Array(columns).to_string()
}

fn read_columns(text: &str) -> Result<SchemaRef, String> {
    let columns: Vec<Value> = serde_json::from_str(text).map_err(|error| format!("the pinned columns are no JSON list: {error}"))?;
    let dialect = FlinkDialect::default();
    let fields = columns.iter().map(|column| {
        let part = |key: &str| column.get(key).and_then(Value::as_str).ok_or_else(|| format!("a pinned column has no \"{key}\""));
        let mut parser = Parser::new(&dialect).try_with_sql(part("type")?).map_err(|error| error.to_string())?;
        types::parse_field(&mut parser, part("name")?).map_err(|(_, message)| message)
    });
    Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<FieldRef>, String>>()?)))
}
