//! Pieces of a text for embedding or prompting.

/// Pieces of at most `size` characters, cut behind the last space of the piece if there is one in its second half; each
/// begins `overlap` characters before the end of the one before. `size` must be positive, `overlap` less than half of it.
pub fn chunk(text: &str, size: i32, overlap: i32) -> Result<Vec<String>, String> {
    let size = usize::try_from(size).ok().filter(|size| *size > 0).ok_or("size must be positive")?;
    let overlap = usize::try_from(overlap).ok().filter(|o| o * 2 < size || *o == 0).ok_or("overlap must be less than half of size")?;
    // Where characters begin, and the end.
    let starts: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let count = starts.len() - 1;
    let mut chunks = Vec::new();
    let mut begin = 0;
    while begin < count {
        let mut end = (begin + size).min(count);
        if end < count {
            let space = (begin + size / 2..end).rev().find(|&at| text[starts[at]..].starts_with(char::is_whitespace));
            end = space.map_or(end, |at| at + 1);
        }
        chunks.push(text[starts[begin]..starts[end]].trim_end().to_owned());
        if end == count {
            break;
        }
        begin = end - overlap;
    }
    chunks.retain(|chunk| !chunk.is_empty());
    Ok(chunks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_at_spaces_and_overlaps() {
        for (text, size, overlap, expected) in [
            ("one two three", 8, 0, &["one two", "three"][..]),
            ("abcdefgh", 3, 0, &["abc", "def", "gh"]),
            ("abcdefgh", 5, 2, &["abcde", "defgh"]),
            ("ääää", 2, 0, &["ää", "ää"]),
            ("", 5, 0, &[]),
            ("short", 100, 10, &["short"]),
        ] {
            assert_eq!(chunk(text, size, overlap).expect("chunks"), expected, "{text} {size} {overlap}");
        }
        for (size, overlap) in [(0, 0), (-1, 0), (4, 2), (4, -1)] {
            assert!(chunk("x", size, overlap).is_err());
        }
    }
}
