//! Metadata columns of sources: what is known about a record besides its bytes.

use std::{path::Path, sync::Arc};

use arrow::{
    array::{ArrayRef, Int64Array, StringArray, TimestampMillisecondArray},
    compute::cast,
    datatypes::DataType,
};
use pelton_core::{
    error::{Result, RuntimeError},
    records::Records,
};

/// The metadata column `key` of a batch of records, one value per record, as `data_type`: `file.path`, `file.name`,
/// `file.size`, `file.modification-time` and `offset` (the line number, from 0). Called once per batch; size and time
/// are those of the file now.
pub fn metadata_column(key: &str, records: &Records, data_type: &DataType) -> Result<ArrayRef> {
    let rows = records.len();
    let path = records.topic.as_ref();
    let column: ArrayRef = match key {
        "file.path" => Arc::new(StringArray::from_iter_values(std::iter::repeat_n(path, rows))),
        "file.name" => {
            let name = Path::new(path).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            Arc::new(StringArray::from_iter_values(std::iter::repeat_n(name, rows)))
        }
        "file.size" => {
            let size = std::fs::metadata(path).ok().and_then(|data| i64::try_from(data.len()).ok());
            Arc::new(Int64Array::from(vec![size; rows]))
        }
        "file.modification-time" => {
            let time = modified_ms(Path::new(path));
            Arc::new(TimestampMillisecondArray::from(vec![time; rows]).with_timezone("UTC"))
        }
        "offset" => Arc::new(records.offsets.iter().map(|offset| offset.0).collect::<Int64Array>()),
        _ => return Err(RuntimeError::Script(format!("metadata key '{key}' is not known for this connector"))),
    };
    cast(&column, data_type).map_err(|error| RuntimeError::Script(format!("metadata '{key}': {error}")))
}

/// When a file was last written, in ms since 1970.
pub(crate) fn modified_ms(path: &Path) -> Option<i64> {
    let modified = std::fs::metadata(path).and_then(|data| data.modified()).ok()?;
    let age = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(age.as_millis()).ok()
}
