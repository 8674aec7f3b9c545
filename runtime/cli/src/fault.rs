//! What went wrong, as it is told to people, and the exit code that goes with it.

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
};

use pelton_core::error::RuntimeError;
use pelton_sql::job::ScriptError;

/// See the module.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The script cannot be planned.
    Script { file: PathBuf, error: ScriptError },
    /// A file or option of ours is wrong.
    Usage(String),
    /// The job cannot be run, or failed.
    Runtime { file: Option<PathBuf>, error: RuntimeError },
}

impl Fault {
    pub(crate) fn of_job(file: &Path, error: RuntimeError) -> Self {
        Self::Runtime { file: Some(file.to_owned()), error }
    }

    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Script { .. } | Self::Usage(_) => 2,
            Self::Runtime { error, .. } => match error {
                RuntimeError::Script(_) => 2,
                RuntimeError::Recovery(_) => 3,
                _ => 1,
            },
        }
    }

    /// `error: job.sql:3:14: message`, then the script's line with a caret.
    pub(crate) fn print(&self) {
        let mut out = std::io::stderr().lock();
        let is_terminal = std::io::stderr().is_terminal();
        let (red, bold, plain) = if is_terminal { ("\x1b[1;31m", "\x1b[1m", "\x1b[0m") } else { ("", "", "") };
        // Nobody is left to tell if standard error is closed.
        let _ = match self {
            Self::Script { file, error } => {
                let place = format!("{}:{}:{}", file.display(), error.line, error.column);
                let _ = writeln!(out, "{red}error{plain}{bold}: {place}: {}{plain}", error.message);
                if error.source_line.trim().is_empty() {
                    return;
                }
                let number = error.line.to_string();
                let margin = " ".repeat(number.len());
                // Tabs stay tabs, so that the caret stands below its place.
                let before = usize::try_from(error.column.saturating_sub(1)).unwrap_or(0);
                let indent: String = error.source_line.chars().take(before).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
                writeln!(out, " {number} | {}\n {margin} | {indent}{red}^{plain}", error.source_line)
            }
            Self::Usage(message) => writeln!(out, "{red}error{plain}{bold}: {message}{plain}"),
            Self::Runtime { file: Some(file), error: RuntimeError::Script(message) } => {
                message.lines().try_for_each(|line| writeln!(out, "{red}error{plain}{bold}: {}: {line}{plain}", file.display()))
            }
            Self::Runtime { error, .. } => writeln!(out, "{red}error{plain}{bold}: {error}{plain}"),
        };
    }
}

impl From<RuntimeError> for Fault {
    fn from(error: RuntimeError) -> Self {
        Self::Runtime { file: None, error }
    }
}
