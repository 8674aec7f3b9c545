//! Errors of single rows, told apart from errors of the plan.

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;

/// A row that an expression cannot be evaluated for. Remedy: give up the row (dead letter), keep the others. To find
/// it evaluate halves of the batch: an error says that *some* row of the batch is bad.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct RowError {
    /// Function, value found, what is expected.
    pub reason: String,
}

impl RowError {
    /// The reason, if `error` is about a row and not about the plan or this program.
    pub fn find(error: &DataFusionError) -> Option<String> {
        match error.find_root() {
            DataFusionError::External(inner) => inner.downcast_ref::<Self>().map(|row| row.reason.clone()),
            DataFusionError::ArrowError(inner, _) => match inner.as_ref() {
                ArrowError::DivideByZero => Some("division by zero".to_owned()),
                ArrowError::ExternalError(inner) => inner.downcast_ref::<Self>().map(|row| row.reason.clone()),
                ArrowError::ArithmeticOverflow(text) | ArrowError::CastError(text) | ArrowError::ParseError(text) | ArrowError::ComputeError(text) => {
                    Some(text.clone())
                }
                _ => None,
            },
            _ => None,
        }
    }
}

impl From<RowError> for DataFusionError {
    fn from(error: RowError) -> Self {
        Self::External(Box::new(error))
    }
}

/// A row error as DataFusion carries it.
pub(crate) fn bad_row(reason: impl Into<String>) -> DataFusionError {
    RowError { reason: reason.into() }.into()
}

/// Text as messages show it: quoted, cut to a length that can be read.
pub(crate) fn shown(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("'{}…'", &text[..end]),
        None => format!("'{text}'"),
    }
}
