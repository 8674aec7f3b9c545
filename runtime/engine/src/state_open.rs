//! Opening a job's state: which folder, what to do with what is there, and what a crash left pending.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use pelton_core::{
    error::{Result, RuntimeError},
    position::Epoch,
    sink::TransactionCoordinator,
    state::StateBackend,
};
use pelton_state::{StateSettings, Store};

use crate::{
    components::Components,
    run::StateChoice,
    settings::Settings,
    state::{TemporaryStore, stored_job},
};

/// Decides about an epoch that was pending when the last run died. Returns the last epoch committed outside.
/// `is_resumed`: the state is that of an earlier run.
pub(crate) fn settle(backend: &dyn StateBackend, transactions: Option<&mut (dyn TransactionCoordinator + 'static)>, is_resumed: bool) -> Result<Epoch> {
    let is_transactional = transactions.is_some();
    let committed = transactions.map_or(Ok(None), TransactionCoordinator::last_committed)?.unwrap_or_default();
    if let Some(pending) = backend.pending()? {
        backend.settle(pending, is_transactional && committed >= pending)?;
    }
    let applied = backend.last_applied()?;
    if is_transactional && is_resumed && committed > applied {
        return Err(RuntimeError::Recovery(format!(
            "the state is at checkpoint {applied}, but the sink's transactions at {committed}: it is older than what was written. Start anew with --fresh"
        )));
    }
    Ok(committed)
}

/// The job's state.
pub(crate) struct State {
    pub(crate) backend: Arc<dyn StateBackend>,
    /// Set when it outlives the run.
    pub(crate) dir: Option<PathBuf>,
    is_given: bool,
    store: Option<Arc<Store>>,
    temporary: Option<Arc<TemporaryStore>>,
}

impl State {
    pub(crate) fn open(settings: &Settings, is_bounded: bool, choice: StateChoice, components: &Components, notice: &dyn Fn(&str)) -> Result<Self> {
        if let Some(backend) = &components.backend {
            return Ok(Self { backend: Arc::clone(backend), dir: None, is_given: true, store: None, temporary: None });
        }
        let default = (!is_bounded).then(|| components.base_dir.join("pelton-state").join(folder_name(&settings.name)));
        let Some(dir) = settings.state_dir.clone().or(default) else {
            let temporary = Arc::new(TemporaryStore::new(settings.state_memory / 4));
            let backend: Arc<dyn StateBackend> = Arc::<TemporaryStore>::clone(&temporary);
            return Ok(Self { backend, dir: None, is_given: false, store: None, temporary: Some(temporary) });
        };
        let open = || Store::open(&StateSettings { dir: dir.clone(), memory_bytes: settings.state_memory / 2 });
        let mut store = open()?;
        if choice == StateChoice::Fresh && stored_job(&store)?.is_some() {
            let (epoch, bytes) = (store.last_applied()?, store.size_bytes());
            drop(store);
            remove_state(&dir)?;
            notice(&format!("dropped the state in {}: checkpoint {epoch}, {bytes} bytes", dir.display()));
            store = open()?;
        }
        let store = Arc::new(store);
        let backend: Arc<dyn StateBackend> = Arc::<Store>::clone(&store);
        Ok(Self { backend, dir: Some(dir), is_given: false, store: Some(store), temporary: None })
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.dir.is_some() || self.is_given
    }

    pub(crate) fn size_bytes(&self) -> Box<dyn Fn() -> u64> {
        match (&self.store, &self.temporary) {
            (Some(store), _) => {
                let store = Arc::clone(store);
                Box::new(move || store.size_bytes())
            }
            (None, Some(store)) => {
                let store = Arc::clone(store);
                Box::new(move || store.size_bytes())
            }
            (None, None) => Box::new(|| 0),
        }
    }
}

/// A job's name as a folder's.
fn folder_name(name: &str) -> String {
    let keep = |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' };
    let folder: String = name.chars().map(keep).collect();
    if folder.chars().all(|c| c == '.') { "job".to_owned() } else { folder }
}

/// Removes what a store put into its folder, and nothing else that may be there.
fn remove_state(dir: &Path) -> Result<()> {
    std::fs::remove_dir_all(dir.join("rocksdb"))
        .map_err(|error| RuntimeError::Storage { action: format!("drop the state in {}", dir.display()), reason: error.to_string() })
}
