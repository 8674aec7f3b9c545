//! The planner's view: plugins by their specs, for scripts of one directory.

use std::{path::PathBuf, sync::Arc};

use arrow::datatypes::{Schema, SchemaRef};
use pelton_core::{
    error::{Result, RuntimeError},
    plugin::{PluginCatalog, PluginFunction, PluginSpec},
};

use crate::{host::PluginHost, json_schema};

/// Infers columns from samples without a plugin: the host's process brings it (formats know how), since this crate knows
/// no formats.
pub type NativeInference = Arc<dyn Fn(&str, &[Vec<u8>]) -> std::result::Result<Schema, String> + Send + Sync>;

/// [`PluginCatalog`] over a host.
pub struct Catalog {
    host: Arc<PluginHost>,
    base_dir: PathBuf,
    native: NativeInference,
}

impl Catalog {
    pub(crate) fn new(host: Arc<PluginHost>, base_dir: PathBuf, native: NativeInference) -> Self {
        Self { host, base_dir, native }
    }
}

impl PluginCatalog for Catalog {
    fn functions(&self, plugin: &PluginSpec) -> Result<Vec<PluginFunction>> {
        self.host.load(plugin, &self.base_dir)?.functions()
    }

    fn check_kind(&self, plugin: &PluginSpec, kind: &str) -> Result<()> {
        let loaded = self.host.load(plugin, &self.base_dir)?;
        loaded.check_kind(kind)?;
        loaded.check_config()
    }

    fn infer_schema(&self, plugin: Option<&PluginSpec>, subject: &str, samples: &[Vec<u8>]) -> Result<SchemaRef> {
        let Some(spec) = plugin else {
            let refuse = |reason| RuntimeError::Script(format!("schema of {subject}: {reason}"));
            return (self.native)(subject, samples).map(Arc::new).map_err(refuse);
        };
        let loaded = self.host.load(spec, &self.base_dir)?;
        let inferred = loaded.infer(subject, samples, &[])?;
        for note in &inferred.notes {
            tracing::info!(plugin = %spec.name, subject, "{note}");
        }
        let wrong = |reason: String| loaded.refuse(format!("schema of {subject}: {reason}"));
        let schema = inferred.columns().map_err(wrong)?;
        json_schema::check_samples(schema.fields(), samples).map_err(wrong)?;
        Ok(Arc::new(schema))
    }
}
