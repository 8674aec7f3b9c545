//! The labelled examples, indexed by feature: how like a text is to each, and which route that makes.

use crate::features::Features;

/// How many of the nearest examples decide.
const NEAREST: usize = 3;

/// The examples' index. A feature's idf is high if few examples have it.
pub(crate) struct Index {
    /// Open addressing: feature hash and where its postings begin; `EMPTY` marks a free slot. A power of two long.
    slots: Vec<(u32, u32)>,
    /// For each feature: idf, then where its postings end.
    heads: Vec<Head>,
    /// Example and weight (already idf-weighted and divided by the example's norm).
    postings: Vec<(u32, f32)>,
    /// Route of each example.
    routes: Vec<u32>,
    /// idf of a feature no example has.
    unknown_idf: f32,
    // Buffers.
    features: Features,
    scores: Vec<f32>,
}

struct Head {
    idf: f32,
    begin: u32,
    end: u32,
}

const EMPTY: u32 = u32::MAX;

impl Index {
    /// Indexes the examples of all routes.
    pub(crate) fn build(routes: &[(String, Vec<String>)]) -> Self {
        let mut features = Features::default();
        let mut examples = Vec::new();
        let mut route_of = Vec::new();
        for (route, (_, texts)) in routes.iter().enumerate() {
            for text in texts {
                features.of(text);
                examples.push(features.list.clone());
                route_of.push(route as u32);
            }
        }
        // All postings, by feature, then by example: a fixed order, so that sums are the same everywhere.
        let mut all: Vec<(u32, u32, f32)> = examples
            .iter()
            .enumerate()
            .flat_map(|(example, list)| list.iter().map(move |&(hash, weight)| (hash, example as u32, weight)))
            .collect();
        all.sort_by_key(|&(hash, example, _)| (hash, example));
        let idf = |count: usize| ((examples.len() + 1) as f32 / (count + 1) as f32).ln() + 1.0;
        let mut heads: Vec<Head> = Vec::new();
        let mut hashes = Vec::new();
        let mut postings = Vec::with_capacity(all.len());
        let mut norms = vec![0_f32; examples.len()];
        for group in all.chunk_by(|a, b| a.0 == b.0) {
            let head = Head { idf: idf(group.len()), begin: postings.len() as u32, end: (postings.len() + group.len()) as u32 };
            for &(_, example, weight) in group {
                let weight = weight * head.idf;
                norms[example as usize] += weight * weight;
                postings.push((example, weight));
            }
            hashes.push(group[0].0);
            heads.push(head);
        }
        for (example, weight) in &mut postings {
            *weight /= norms[*example as usize].sqrt();
        }
        let mut slots = vec![(0, EMPTY); (hashes.len() * 2).next_power_of_two().max(2)];
        for (head, hash) in hashes.into_iter().enumerate() {
            let mut at = hash as usize & (slots.len() - 1);
            while slots[at].1 != EMPTY {
                at = (at + 1) & (slots.len() - 1);
            }
            slots[at] = (hash, head as u32);
        }
        let scores = vec![0.0; examples.len()];
        Self { slots, heads, postings, routes: route_of, unknown_idf: idf(0), features, scores }
    }

    fn find(&self, hash: u32) -> Option<&Head> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            match self.slots[at] {
                (_, EMPTY) => return None,
                (found, head) if found == hash => return self.heads.get(head as usize),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// The route most like `text`, and how like it is (cosine to its nearest example, 0 to 1).
    pub(crate) fn nearest(&mut self, text: &str) -> Option<(usize, f32)> {
        let mut features = std::mem::take(&mut self.features);
        let mut scores = std::mem::take(&mut self.scores);
        features.of(text);
        scores.fill(0.0);
        let mut norm = 0_f32;
        for &(hash, weight) in &features.list {
            match self.find(hash) {
                None => norm += (weight * self.unknown_idf) * (weight * self.unknown_idf),
                Some(head) => {
                    let weight = weight * head.idf;
                    norm += weight * weight;
                    for &(example, have) in &self.postings[head.begin as usize..head.end as usize] {
                        scores[example as usize] += weight * have;
                    }
                }
            }
        }
        let best = if norm > 0.0 { self.vote(&scores, norm.sqrt()) } else { None };
        self.features = features;
        self.scores = scores;
        best
    }

    /// The nearest examples vote with their likeness; of equal routes the first in the configuration wins.
    fn vote(&self, scores: &[f32], norm: f32) -> Option<(usize, f32)> {
        let mut nearest = [(0_f32, usize::MAX); NEAREST];
        for (example, &score) in scores.iter().enumerate() {
            let mut entry = (score, example);
            for place in &mut nearest {
                if entry.0 > place.0 {
                    std::mem::swap(&mut entry, place);
                }
            }
        }
        let mut best: Option<(usize, f32, f32)> = None;
        for (at, &(likeness, example)) in nearest.iter().enumerate() {
            if example == usize::MAX {
                break;
            }
            let route = self.routes[example] as usize;
            let sum: f32 =
                nearest.iter().filter(|(_, other)| *other != usize::MAX && self.routes[*other] as usize == route).map(|(l, _)| l * l).sum();
            // Entries come nearest first, so a route's first entry is its nearest example.
            let is_better = at == 0 || best.is_none_or(|(_, _, best_sum)| sum > best_sum);
            if is_better && best.is_none_or(|(best_route, ..)| best_route != route) {
                best = Some((route, likeness, sum));
            }
        }
        best.map(|(route, likeness, _)| (route, (likeness / norm).clamp(0.0, 1.0)))
    }
}
