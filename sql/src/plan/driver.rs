//! A script from top to bottom: statements to actions.
//!
//! All INSERTs of a script run together, as one job where the last of them stands: they share sources and everything
//! else that is equal. A SELECT is a job of its own. Plugins are known in the whole script, wherever they are created,
//! because tables name them too.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema},
};
use datafusion::sql::sqlparser::{ast::{Ident, Query, Spanned as _}, tokenizer::{Location, Span}};
use pelton_core::{
    graph::{Graph, NodeKind, TableSpec},
    plugin::PluginSpec,
};

use super::{
    fault::{Fault, Planned, nearest},
    functions::Functions,
    insert::{SinkPlan, print},
    lower::lower,
    objects::{Objects, ViewEntry},
    query::{Ctes, Planner, rename_columns},
    rel::Rel,
    steps::Steps,
    table::{Catalog as _, Origin},
    translate::Translator,
};
use crate::{
    job::{Action, Environment, Job, ScriptError},
    script::{
        options, parse,
        source::Source,
        statement::{Explained, Insert, ObjectKind, OptionText, Show, Spanned, Statement},
    },
};

/// The time zone of local time.
const ZONE: &str = "table.local-time-zone";

/// Plans a script.
///
/// # Errors
/// The first fault, with its place.
pub fn plan_script(text: &str, env: &Environment<'_>) -> Result<Vec<Action>, ScriptError> {
    let source = Source::new(text, env.variables)?;
    let statements = parse::parse(&source)?;
    let located = |fault: Fault| source.error(fault.at, fault.message);
    let mut script = Script::new(env, &source);
    for statement in &statements {
        script.create_plugin(statement).map_err(|fault| located(fault.or_at(here(statement.at))))?;
    }
    for statement in &statements {
        script.statement(statement).map_err(|fault| located(fault.or_at(here(statement.at))))?;
    }
    script.finish().map_err(located)
}

fn here(at: Location) -> Span {
    Span { start: at, end: at }
}

/// What a script has said so far.
struct Script<'e> {
    env: &'e Environment<'e>,
    source: &'e Source,
    settings: BTreeMap<String, String>,
    objects: Objects,
    functions: Functions,
    actions: Vec<Action>,
    sinks: Vec<SinkPlan>,
    /// Where the job of the INSERTs goes, its settings, and where its last INSERT is.
    insert_job: Option<(usize, BTreeMap<String, String>, Location)>,
}

impl<'e> Script<'e> {
    fn new(env: &'e Environment<'e>, source: &'e Source) -> Self {
        Self {
            env,
            source,
            settings: BTreeMap::new(),
            objects: Objects::default(),
            functions: Functions::new(chrono_tz::Tz::UTC),
            actions: Vec::new(),
            sinks: Vec::new(),
            insert_job: None,
        }
    }

    /// The script's line of a place in the text after replacing.
    fn line(&self, at: Location) -> u64 {
        self.source.original(at).0
    }

    fn create_plugin(&mut self, statement: &Spanned) -> Planned<()> {
        let Statement::CreatePlugin { name, options, if_not_exists } = &statement.statement else { return Ok(()) };
        if self.objects.plugins.contains_key(&name.value) {
            if *if_not_exists {
                return Ok(());
            }
            return Err(Fault::at(name.span, format!("there is a plugin `{}` already", name.value)));
        }
        let options = options.iter().map(|option| (option.key.clone(), option.value.clone())).collect();
        let spec = PluginSpec { name: name.value.clone(), options, line: self.line(statement.at) };
        self.objects.plugins.insert(name.value.clone(), Arc::new(spec));
        Ok(())
    }

    fn statement(&mut self, spanned: &Spanned) -> Planned<()> {
        match &spanned.statement {
            Statement::CreatePlugin { .. } => Ok(()),
            Statement::CreateTable(create) => {
                if self.objects.is_free(&create.name, create.if_not_exists)? {
                    let create = Arc::new(create.as_ref().clone());
                    let entry = self.objects.table(&create, self.env, &self.functions, self.line(spanned.at))?;
                    self.objects.tables.insert(create.name.value.clone(), entry);
                }
                Ok(())
            }
            Statement::CreateView { name, columns, query, if_not_exists } => self.create_view(name, columns, query, *if_not_exists),
            Statement::CreateFunction { name, export, plugin, if_not_exists } => self.create_function(name, export, plugin, *if_not_exists),
            Statement::Insert(insert) => self.insert(insert),
            Statement::StatementSet(inserts) => inserts.iter().try_for_each(|insert| self.insert(insert)),
            Statement::Query(query) => {
                let sink = self.select(query, spanned.at)?;
                let graph = lower(&[sink], &Steps)?;
                let job = self.job(graph, self.settings.clone())?;
                self.actions.push(Action::Run(job));
                Ok(())
            }
            Statement::Explain(explained) => {
                let sinks = match explained.as_ref() {
                    Explained::Query(query) => vec![self.select(query, spanned.at)?],
                    Explained::Inserts(inserts) => inserts.iter().map(|insert| self.sink(insert)).collect::<Planned<_>>()?,
                };
                self.actions.push(Action::Text(lower(&sinks, &Steps)?.render()));
                Ok(())
            }
            Statement::Set(setting) => self.set(setting),
            Statement::Reset(Some((key, at))) => {
                options::known_setting(key, *at, self.env.settings).map_err(|(at, message)| Fault { at, message })?;
                self.settings.remove(key);
                Ok(())
            }
            Statement::Reset(None) => {
                self.settings.clear();
                Ok(())
            }
            Statement::ShowSettings => {
                let rows = self.settings.iter().map(|(key, value)| vec![key.clone(), value.clone()]).collect();
                self.rows(&["key", "value"], rows)
            }
            Statement::Show(show) => self.show(show),
            Statement::Describe(name) => self.describe(name),
            Statement::Drop { what, name, if_exists } => {
                if *what == ObjectKind::Function {
                    self.functions.remove(&name.value);
                }
                if !self.objects.remove(*what, &name.value) && !if_exists {
                    let hint = nearest(&name.value, self.objects.names_of(*what));
                    return Err(Fault::at(name.span, format!("{} `{}` not found{hint}", what.word(), name.value)));
                }
                Ok(())
            }
        }
    }

    fn set(&mut self, setting: &OptionText) -> Planned<()> {
        options::check_setting(setting, self.env.settings).map_err(|(at, message)| Fault { at, message })?;
        let (key, value, at) = (setting.key.as_str(), setting.value.as_str(), setting.value_at);
        if key == ZONE && value != "default" {
            let zone = pelton_sql_expr::parse_zone(value).map_err(|message| Fault { at, message })?;
            self.functions.set_zone(zone);
            // Local time is that of the query: computed columns are read anew.
            let entries: Vec<_> = self.objects.tables.values().map(|entry| (Arc::clone(&entry.create), entry.line)).collect();
            for (create, line) in entries {
                let entry = self.objects.table(&create, self.env, &self.functions, line)?;
                self.objects.tables.insert(create.name.value.clone(), entry);
            }
        }
        self.settings.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn planner(&self) -> Planner<'_> {
        let zone = self.settings.get(ZONE).filter(|zone| *zone != "default").cloned();
        Planner {
            catalog: &self.objects,
            translator: Translator { functions: &self.functions },
            zone: zone.unwrap_or_else(|| "UTC".to_owned()),
            open_views: RefCell::default(),
        }
    }

    fn select(&self, query: &Query, at: Location) -> Planned<SinkPlan> {
        let rel = self.planner().query(query, &Ctes::new())?;
        self.check_sources(&rel, query.span(), &mut HashSet::new())?;
        Ok(print(rel, self.line(at)))
    }

    fn sink(&self, insert: &Insert) -> Planned<SinkPlan> {
        let name = &insert.table;
        let Some(entry) = self.objects.tables.get(&name.value) else {
            if self.objects.views.contains_key(&name.value) {
                return Err(Fault::at(name.span, format!("`{}` is a view: INSERT INTO takes a table", name.value)));
            }
            let hint = nearest(&name.value, self.objects.names_of(ObjectKind::Table));
            return Err(Fault::at(name.span, format!("table `{}` not found{hint}", name.value)));
        };
        if !entry.is_sink {
            let connector = entry.table.spec.options.get("connector").cloned().unwrap_or_default();
            return Err(Fault::at(name.span, format!("connector '{connector}' of `{}` cannot be written", name.value)));
        }
        let planner = self.planner();
        let rel = planner.query(&insert.query, &Ctes::new())?;
        self.check_sources(&rel, insert.query.span(), &mut HashSet::new())?;
        planner.insert(rel, &entry.table, &insert.columns, insert.query.span())
    }

    fn insert(&mut self, insert: &Insert) -> Planned<()> {
        let sink = self.sink(insert).map_err(|fault| fault.or_at(here(insert.at)))?;
        self.sinks.push(sink);
        self.insert_job = Some((self.actions.len(), self.settings.clone(), insert.at));
        Ok(())
    }

    /// Tables that are read must be of connectors that can be.
    fn check_sources(&self, rel: &Rel, span: Span, seen: &mut HashSet<String>) -> Planned<()> {
        if let super::rel::Op::Scan { table } = &rel.op
            && seen.insert(table.spec.name.clone())
            && self.objects.tables.get(&table.spec.name).is_some_and(|entry| !entry.is_source)
        {
            let connector = table.spec.options.get("connector").cloned().unwrap_or_default();
            return Err(Fault::at(span, format!("connector '{connector}' of `{}` cannot be read", table.spec.name)));
        }
        rel.inputs().into_iter().try_for_each(|input| self.check_sources(input, span, seen))
    }

    fn create_view(&mut self, name: &Ident, columns: &[Ident], query: &Query, if_not_exists: bool) -> Planned<()> {
        if !self.objects.is_free(name, if_not_exists)? {
            return Ok(());
        }
        // A view that cannot be planned is refused where it is created, not where it is used.
        let rel = self.planner().query(query, &Ctes::new())?;
        rename_columns(&rel, columns, name.span)?;
        self.objects.views.insert(name.value.clone(), ViewEntry { query: Box::new(query.clone()), columns: columns.to_vec() });
        Ok(())
    }

    fn create_function(&mut self, name: &Ident, export: &str, plugin: &Ident, if_not_exists: bool) -> Planned<()> {
        if self.objects.functions.contains_key(&name.value) {
            if if_not_exists {
                return Ok(());
            }
            return Err(Fault::at(name.span, format!("there is a function `{}` already", name.value)));
        }
        let Some(spec) = self.objects.plugins.get(&plugin.value) else {
            let hint = nearest(&plugin.value, self.objects.names_of(ObjectKind::Plugin));
            return Err(Fault::at(plugin.span, format!("plugin `{}` not found{hint}", plugin.value)));
        };
        let offered = self.env.plugins.functions(spec).map_err(|error| Fault::at(plugin.span, error.to_string()))?;
        let Some(function) = offered.iter().find(|function| function.name == export) else {
            let hint = nearest(export, offered.iter().map(|function| function.name.as_str()));
            let names: Vec<&str> = offered.iter().map(|function| function.name.as_str()).collect();
            let message = format!("plugin `{}` has no function '{export}'{hint}; it has {}", plugin.value, names.join(", "));
            return Err(Fault::at(name.span, message));
        };
        self.functions.add(&name.value, function.clone());
        self.objects.functions.insert(name.value.clone(), plugin.value.clone());
        Ok(())
    }

    fn job(&self, graph: Graph, settings: BTreeMap<String, String>) -> Planned<Job> {
        let mut plugins = BTreeMap::new();
        for node in &graph.nodes {
            let table: &TableSpec = match &node.kind {
                NodeKind::Source(source) => &source.table,
                NodeKind::Sink(sink) => &sink.table,
                NodeKind::Operator(_) => continue,
            };
            for (key, kind) in [("pelton.router", "router"), ("pelton.transform", "transform")] {
                let Some(name) = table.options.get(key) else { continue };
                let at = Location { line: table.line, column: 1 };
                let Some(spec) = self.objects.plugins.get(name) else {
                    let hint = nearest(name, self.objects.names_of(ObjectKind::Plugin));
                    return Err(Fault { at, message: format!("'{key}' of `{}`: plugin `{name}` not found{hint}", table.name) });
                };
                self.env
                    .plugins
                    .check_kind(spec, kind)
                    .map_err(|error| Fault { at, message: format!("'{key}' of `{}`: {error}", table.name) })?;
                plugins.insert(name.clone(), Arc::clone(spec));
            }
        }
        Ok(Job { name: settings.get("pipeline.name").cloned().unwrap_or_default(), settings, plugins, graph })
    }

    /// All actions, with the job of the INSERTs in its place.
    fn finish(mut self) -> Planned<Vec<Action>> {
        if let Some((position, settings, at)) = self.insert_job.take() {
            let graph = lower(&self.sinks, &Steps).map_err(|fault| fault.or_at(here(at)))?;
            let job = self.job(graph, settings)?;
            self.actions.insert(position, Action::Run(job));
        }
        Ok(self.actions)
    }

    fn rows(&mut self, names: &[&str], rows: Vec<Vec<String>>) -> Planned<()> {
        let schema = Schema::new(names.iter().map(|name| Field::new(*name, DataType::Utf8, false)).collect::<Vec<_>>());
        let column = |index: usize| -> ArrayRef { Arc::new(rows.iter().map(|row| Some(row[index].as_str())).collect::<StringArray>()) };
        let batch = RecordBatch::try_new(Arc::new(schema), (0..names.len()).map(column).collect());
        self.actions.push(Action::Rows(batch.map_err(|error| Fault::at(Span::empty(), error.to_string()))?));
        Ok(())
    }

    fn show(&mut self, show: &Show) -> Planned<()> {
        let list = |names: Vec<&str>| names.into_iter().map(|name| vec![name.to_owned()]).collect();
        match show {
            Show::Tables => {
                let rows = self.objects.names().into_iter().map(|name| vec![name]).collect();
                self.rows(&["table name"], rows)
            }
            Show::Views => self.rows(&["view name"], list(self.objects.names_of(ObjectKind::View))),
            Show::Plugins => self.rows(&["plugin name"], list(self.objects.names_of(ObjectKind::Plugin))),
            Show::Functions => {
                let rows = self.functions.names().into_iter().map(|name| vec![name]).collect();
                self.rows(&["function name"], rows)
            }
            Show::CreateTable(name) => {
                let Some(entry) = self.objects.tables.get(&name.value) else { return Err(self.no_relation(name)) };
                let text = entry.create.text.clone();
                self.rows(&["result"], vec![vec![text]])
            }
            Show::Columns(name) => self.describe(name),
        }
    }

    fn no_relation(&self, name: &Ident) -> Fault {
        let known = self.objects.names();
        let hint = nearest(&name.value, known.iter().map(String::as_str));
        Fault::at(name.span, format!("table `{}` not found{hint}", name.value))
    }

    fn describe(&mut self, name: &Ident) -> Planned<()> {
        let header = ["name", "type", "null", "key", "extras", "watermark"];
        let described = |field: &Field, key: String, extras: String, watermark: String| {
            let null = if field.is_nullable() { "TRUE" } else { "FALSE" };
            vec![field.name().clone(), crate::script::types::field_type_name(field), null.to_owned(), key, extras, watermark]
        };
        if let Some(entry) = self.objects.tables.get(&name.value) {
            let table = &entry.table;
            let all: Vec<_> = table.columns.iter().map(|c| super::rel::RelColumn::new(Arc::clone(&c.field), super::rel::Role::Plain)).collect();
            let keys = &table.spec.primary_key;
            let rows = table.columns.iter().enumerate().map(|(index, column)| {
                let key = if keys.contains(column.field.name()) { format!("PRI({})", keys.join(", ")) } else { String::new() };
                let extras = match &column.origin {
                    Origin::Physical(_) => String::new(),
                    Origin::Metadata { column, is_virtual } => {
                        format!("METADATA FROM '{}'{}", column.key, if *is_virtual { " VIRTUAL" } else { "" })
                    }
                    Origin::Computed(expr) => format!("AS {}", super::show::show(expr, &all)),
                };
                let watermark = table.watermark.as_ref().filter(|(time, _)| *time == index).map(|(_, expr)| super::show::show(expr, &all));
                described(&column.field, key, extras, watermark.unwrap_or_default())
            });
            let rows = rows.collect();
            return self.rows(&header, rows);
        }
        if self.objects.views.contains_key(&name.value) {
            let rel = self.planner().relation(&name.value, name.span, &Ctes::new())?;
            let rows = rel.columns.iter().map(|column| described(&column.field, String::new(), String::new(), String::new())).collect();
            return self.rows(&header, rows);
        }
        Err(self.no_relation(name))
    }
}
