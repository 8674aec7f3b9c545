//! Files and folders as tables: one record a line.
//!
//! `find.rs` turns a path into a list of files, `lines.rs` reads one file, `source.rs` ties them together, `sink.rs`
//! writes part files that become visible with their checkpoint.

mod find;
mod lines;
mod position;
mod source;
mod sink;

pub(crate) use position::{LinePosition, fill_parts};
pub(crate) use sink::FileSink;
pub(crate) use source::FileSource;

use pelton_core::options::{ConnectorInfo, OptionSpec};

use crate::optional;

/// See the module.
pub(crate) const INFO: ConnectorInfo = ConnectorInfo {
    name: "filesystem",
    options: &[
        OptionSpec { key: "path", required: true, default: "", doc: "A file, a folder (read with all below it; names beginning with . or _ are left out) or a pattern with * ? [ ]. `.gz` and `.zst` are unpacked. For a sink the folder of the part files." },
        optional("source.monitor-interval", "", "Look for new files and for growth of known ones this often; without it the source ends at the end of the last file."),
        optional("source.report-statistics", "", "Accepted for Flink scripts; without effect."),
        optional("sink.rolling-policy.file-size", "128MB", "A part file larger than this is closed and the next one begun."),
        optional("sink.rolling-policy.rollover-interval", "30 min", "Accepted for Flink scripts; part files are closed at each checkpoint anyway."),
        optional("sink.rolling-policy.inactivity-interval", "30 min", "Accepted for Flink scripts; part files are closed at each checkpoint anyway."),
        optional("sink.rolling-policy.check-interval", "1 min", "Accepted for Flink scripts; part files are closed at each checkpoint anyway."),
        optional("sink.parallelism", "", "Accepted for Flink scripts; the job's parallelism holds."),
    ],
    readable_metadata: &[
        ("file.path", "STRING NOT NULL"),
        ("file.name", "STRING NOT NULL"),
        ("file.size", "BIGINT NOT NULL"),
        ("file.modification-time", "TIMESTAMP_LTZ(3) NOT NULL"),
        ("offset", "BIGINT NOT NULL"),
    ],
    writable_metadata: &[],
    is_source: true,
    is_sink: true,
    needs_format: true,
};

/// A path as the system knows it: `file://` taken off.
fn local_path(path: &str) -> Result<&str, String> {
    let local = match path.strip_prefix("file:") {
        Some(rest) => rest.strip_prefix("//").unwrap_or(rest),
        None => path,
    };
    match local.split_once("://") {
        Some((scheme, _)) => Err(format!("path '{path}': only local files can be reached, not '{scheme}://'")),
        None if local.is_empty() => Err("option 'path' is empty".to_owned()),
        None => Ok(local),
    }
}
