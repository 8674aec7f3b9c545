//! Metrics: at most 100 names a plugin, 64 bytes each. A call with a further name is ignored.

use std::collections::BTreeMap;

const NAMES_MAX: usize = 100;
const NAME_BYTES_MAX: usize = 64;

/// One metric of a plugin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// Only grows.
    Count(u64),
    /// The last value.
    Gauge(f64),
    /// Of all observations.
    Distribution {
        /// How many.
        count: u64,
        /// All together.
        sum: f64,
        /// Smallest.
        min: f64,
        /// Largest.
        max: f64,
    },
}

/// What a plugin's instances have counted, by name.
#[derive(Debug, Default)]
pub(crate) struct Metrics(BTreeMap<String, Metric>);

impl Metrics {
    /// Adds an update; a name that already means another kind of metric keeps its kind.
    pub(crate) fn update(&mut self, name: &str, update: Metric) {
        if let Some(metric) = self.0.get_mut(name) {
            merge(metric, update);
        } else if self.0.len() < NAMES_MAX && name.len() <= NAME_BYTES_MAX && !name.is_empty() {
            self.0.insert(name.to_owned(), update);
        }
    }

    /// Adds what another has and empties it.
    pub(crate) fn absorb(&mut self, other: &mut Self) {
        for (name, metric) in std::mem::take(&mut other.0) {
            self.update(&name, metric);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn all(&self) -> BTreeMap<String, Metric> {
        self.0.clone()
    }
}

fn merge(metric: &mut Metric, update: Metric) {
    match (metric, update) {
        (Metric::Count(have), Metric::Count(more)) => *have = have.saturating_add(more),
        (Metric::Gauge(have), Metric::Gauge(new)) => *have = new,
        (
            Metric::Distribution { count, sum, min, max },
            Metric::Distribution { count: more, sum: add, min: low, max: high },
        ) => {
            *count += more;
            *sum += add;
            *min = min.min(low);
            *max = max.max(high);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_names_past_the_limit_and_changes_of_kind() {
        let mut metrics = Metrics::default();
        for i in 0..200 {
            metrics.update(&format!("n{i}"), Metric::Count(1));
        }
        metrics.update("n0", Metric::Count(2));
        metrics.update("n0", Metric::Gauge(7.0));
        assert_eq!(metrics.all().len(), 100);
        assert_eq!(metrics.all()["n0"], Metric::Count(3));
    }
}
