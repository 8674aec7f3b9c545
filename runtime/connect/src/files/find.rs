//! From a path to the files behind it: a file, a folder with all below it, or a pattern.
//!
//! Promises: the order is that of the paths' bytes, so every worker sees the same list. Hidden files and folders
//! (names beginning with `.` or `_`) are left out unless the path names them itself.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::local_path;

/// Folders nested deeper than this are a loop of links.
const DEPTH_MAX: usize = 64;

/// The files of `path` in order; an error if there is nothing at a path without pattern.
pub(crate) fn find(path: &str) -> Result<Vec<PathBuf>, String> {
    let local = local_path(path)?;
    let mut files = Vec::new();
    if fs::symlink_metadata(local).is_err() && local.contains(['*', '?', '[']) {
        let found = glob::glob(local).map_err(|error| format!("path '{path}' is no pattern: {error}"))?;
        for entry in found {
            let entry = entry.map_err(|error| format!("path '{path}': {error}"))?;
            if !is_hidden(&entry) {
                walk(&entry, 0, &mut files).map_err(|error| format!("path '{}': {error}", entry.display()))?;
            }
        }
    } else {
        if let Err(error) = fs::metadata(local) {
            return Err(match error.kind() {
                io::ErrorKind::NotFound => format!("path '{path}' does not exist"),
                _ => format!("path '{path}': {error}"),
            });
        }
        walk(Path::new(local), 0, &mut files).map_err(|error| format!("path '{path}': {error}"))?;
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn walk(path: &Path, depth: usize, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let data = match fs::metadata(path) {
        Ok(data) => data,
        // Gone between listing and looking, or a link to nothing.
        Err(error) if error.kind() == io::ErrorKind::NotFound && depth > 0 => return Ok(()),
        Err(error) => return Err(error),
    };
    if !data.is_dir() {
        files.push(path.to_path_buf());
        return Ok(());
    }
    if depth == DEPTH_MAX {
        return Err(io::Error::other("folders are nested too deeply"));
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?.path();
        if !is_hidden(&entry) {
            walk(&entry, depth + 1, files)?;
        }
    }
    Ok(())
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".") || name.as_encoded_bytes().starts_with(b"_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Vec<String> {
        let found = find(path).expect("path exists");
        found.iter().map(|file| file.file_name().expect("a file has a name").to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn finds_files_below_a_folder_in_order_and_leaves_hidden_ones_out() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let root = folder.path();
        fs::create_dir_all(root.join("b/c")).expect("folder");
        fs::create_dir_all(root.join("_tmp")).expect("folder");
        for name in ["a.json", "b/c/d.json", ".part-1", "_tmp/x.json", "b/e.csv"] {
            fs::write(root.join(name), "x").expect("file");
        }
        let root = root.to_string_lossy();
        assert_eq!(names(&root), ["a.json", "d.json", "e.csv"]);
        assert_eq!(names(&format!("file://{root}")), ["a.json", "d.json", "e.csv"]);
        assert_eq!(names(&format!("{root}/*.json")), ["a.json"]);
        assert_eq!(names(&format!("{root}/b*")), ["d.json", "e.csv"]);
        assert_eq!(names(&format!("{root}/.part-1")), [".part-1"]);
        assert!(names(&format!("{root}/none*")).is_empty());
    }

    #[test]
    fn says_what_is_missing() {
        assert_eq!(find("/no/such/file"), Err("path '/no/such/file' does not exist".to_owned()));
        assert_eq!(find("s3://bucket/x"), Err("path 's3://bucket/x': only local files can be reached, not 's3://'".to_owned()));
    }
}
