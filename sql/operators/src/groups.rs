//! Sets of key groups.

use pelton_core::key_group::KeyGroup;

/// A set of key groups, a bit each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Groups(Vec<u64>);

impl Groups {
    pub(crate) fn insert(&mut self, group: KeyGroup) {
        let word = usize::from(group.0 / 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (group.0 % 64);
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = KeyGroup> {
        self.0.iter().enumerate().flat_map(|(word, &bits)| (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| KeyGroup(word as u16 * 64 + bit)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_come_back_in_order() {
        let mut groups = Groups::default();
        assert!(groups.is_empty());
        for group in [130, 3, 64, 3] {
            groups.insert(KeyGroup(group));
        }
        let mut more = Groups::default();
        more.insert(KeyGroup(0));
        more.extend(&groups);
        assert_eq!(more.iter().map(|group| group.0).collect::<Vec<_>>(), [0, 3, 64, 130]);
    }
}
