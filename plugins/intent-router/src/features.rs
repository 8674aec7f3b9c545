//! A text as hashed features: words, pairs of neighbouring words, and groups of letters inside words, so that "refactor"
//! and "refactoring" share most of theirs.

/// A feature and its weight before idf.
pub(crate) type Feature = (u32, f32);

const WORD: f32 = 1.0;
const PAIR: f32 = 0.8;
const LETTERS: f32 = 0.35;
/// Bytes of a text that are looked at: meaning shows early, and a long prompt must not take long.
const TEXT_BYTES_MAX: usize = 2_000;

/// Words that say nothing of the topic: they count little, and make no pairs of letters.
const COMMON: [&str; 60] = [
    "a", "an", "and", "are", "as", "at", "be", "by", "can", "could", "did", "do", "does", "for", "from", "give",
    "had", "has", "have", "how", "i", "in", "into", "is", "it", "me", "my", "of", "on", "one", "or", "our", "please",
    "should", "so", "some", "that", "the", "their", "them", "there", "these", "this", "those", "to", "us", "want",
    "was", "we", "what", "when", "where", "which", "who", "why", "will", "with", "would", "you", "your",
];
const COMMON_WEIGHT: f32 = 0.15;

/// FNV-1a, folded with a kind so that a word is no pair.
fn hash(kind: u32, bytes: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5_u32 ^ kind.wrapping_mul(0x9e37_79b9);
    for byte in bytes {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    hash ^ (hash >> 15)
}

/// Buffers kept from text to text.
#[derive(Default)]
pub(crate) struct Features {
    text: String,
    /// Features of the last text, ascending by hash, each once.
    pub(crate) list: Vec<Feature>,
}

impl Features {
    /// Takes a text apart.
    pub(crate) fn of(&mut self, text: &str) {
        self.text.clear();
        self.list.clear();
        for c in text.chars() {
            if self.text.len() >= TEXT_BYTES_MAX {
                break;
            }
            self.text.push(lower(c));
        }
        let mut previous: Option<u32> = None;
        for word in self.text.split(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
            let word_hash = hash(1, word.as_bytes());
            let is_common = COMMON.binary_search(&word).is_ok();
            self.list.push((word_hash, if is_common { COMMON_WEIGHT } else { WORD }));
            if let Some(previous) = previous {
                self.list.push((hash(2, &[previous.to_le_bytes(), word_hash.to_le_bytes()].concat()), PAIR));
            }
            previous = Some(word_hash);
            if !is_common {
                letters(word.as_bytes(), &mut self.list);
            }
        }
        // A feature counts once, however often it comes: prompts are short, and repetition says little.
        self.list.sort_unstable_by_key(|(hash, _)| *hash);
        self.list.dedup_by_key(|(hash, _)| *hash);
    }
}

/// Small letters of the alphabets whose capitals stand in rows; the full tables would be a tenth of this plugin.
fn lower(c: char) -> char {
    match c {
        'A'..='Z' | 'À'..='Ö' | 'Ø'..='Þ' | 'Α'..='Ρ' | 'Σ'..='Ϋ' | 'А'..='Я' => char::from_u32(c as u32 + 32).unwrap_or(c),
        'Ѐ'..='Џ' => char::from_u32(c as u32 + 80).unwrap_or(c),
        _ => c,
    }
}

/// Groups of three and four bytes, the word's borders marked.
fn letters(word: &[u8], list: &mut Vec<Feature>) {
    let mut padded = [b' '; 34];
    let length = word.len().min(32);
    padded[1..=length].copy_from_slice(&word[..length]);
    let padded = &padded[..length + 2];
    for size in [3, 4] {
        list.extend(padded.windows(size).map(|group| (hash(3, group), LETTERS)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_small_letters_of_capitals() {
        assert_eq!("ÄÉΣЖЁa×ß".chars().map(lower).collect::<String>(), "äéσжёa×ß");
    }

    #[test]
    fn common_words_are_sorted() {
        assert!(COMMON.is_sorted());
    }

    #[test]
    fn case_and_punctuation_do_not_matter_and_each_feature_comes_once() {
        let (mut a, mut b) = (Features::default(), Features::default());
        a.of("Fix THIS bug, fix this bug!");
        b.of("fix this bug fix this bug");
        assert_eq!(a.list, b.list);
        assert!(a.list.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
