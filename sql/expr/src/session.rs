//! A session: what expressions of a script depend on besides their columns.

use std::{collections::BTreeMap, sync::Arc};

use chrono_tz::Tz;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use pelton_core::time::Clock;

use crate::{aggregates, functions};

/// The zone, the clock and the functions that expressions of a script can use.
#[derive(Clone)]
pub struct Session {
    pub(crate) zone: Tz,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) scalars: BTreeMap<String, Arc<ScalarUDF>>,
    pub(crate) aggregates: BTreeMap<String, Arc<AggregateUDF>>,
}

impl Default for Session {
    fn default() -> Self {
        Self::new(Tz::UTC)
    }
}

impl Session {
    /// A session whose local time is `zone`'s (`table.local-time-zone`), with the built-in functions.
    pub fn new(zone: Tz) -> Self {
        Self { zone, clock: None, scalars: BTreeMap::new(), aggregates: BTreeMap::new() }
    }

    /// The zone of local time.
    pub fn zone(&self) -> Tz {
        self.zone
    }

    /// Where CURRENT_TIMESTAMP and its like take the time from, once for each batch. Without it they are refused.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Adds a function under a name, for instance a plugin's. Names are compared without case; it goes before a
    /// built-in of the same name. Its arguments are cast as its signature says.
    pub fn add_scalar(&mut self, name: &str, function: Arc<ScalarUDF>) {
        self.scalars.insert(name.to_ascii_uppercase(), function);
    }

    /// Adds an aggregate under a name.
    pub fn add_aggregate(&mut self, name: &str, function: Arc<AggregateUDF>) {
        self.aggregates.insert(name.to_ascii_uppercase(), function);
    }

    /// Removes a function that was added.
    pub fn remove(&mut self, name: &str) {
        let name = name.to_ascii_uppercase();
        self.scalars.remove(&name);
        self.aggregates.remove(&name);
    }

    /// Whether a scalar function of this name can be called.
    pub fn is_scalar(&self, name: &str) -> bool {
        let name = name.to_ascii_uppercase();
        self.scalars.contains_key(&name) || functions::is_function(&name)
    }

    /// Whether `name` is an aggregate.
    pub fn is_aggregate(&self, name: &str) -> bool {
        let name = name.to_ascii_uppercase();
        self.aggregates.contains_key(&name) || aggregates::is_aggregate(&name)
    }

    /// All names, for "did you mean".
    pub fn function_names(&self) -> Vec<String> {
        let own = self.scalars.keys().chain(self.aggregates.keys()).cloned();
        let mut names: Vec<_> = own.chain(functions::names()).chain(aggregates::names()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// A zone by name: `Europe/Berlin`, `UTC`, or an offset of whole hours such as `GMT+08:00` or `+08:00`.
///
/// # Errors
/// A sentence that says what is expected.
pub fn parse_zone(name: &str) -> Result<Tz, String> {
    if let Ok(zone) = name.parse() {
        return Ok(zone);
    }
    let offset = name.trim_start_matches("GMT").trim_start_matches("UTC");
    let expected = || format!("`{name}` is no time zone: expected a name such as Europe/Berlin, UTC, or an offset such as GMT+08:00");
    let (sign, digits) = match offset.as_bytes().first() {
        Some(b'+') => ('-', &offset[1..]),
        Some(b'-') => ('+', &offset[1..]),
        _ => return Err(expected()),
    };
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
    match (hours.parse::<u32>(), minutes.parse::<u32>()) {
        (Ok(0), Ok(0)) => Ok(Tz::UTC),
        // POSIX writes the sign the other way round.
        (Ok(hours), Ok(0)) => format!("Etc/GMT{sign}{hours}").parse().map_err(|_| expected()),
        (Ok(_), Ok(_)) => Err(format!("`{name}`: offsets with minutes are not built yet, use a zone's name such as Asia/Kolkata")),
        _ => Err(expected()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_names_or_offsets() {
        assert_eq!(parse_zone("Asia/Shanghai"), Ok(Tz::Asia__Shanghai));
        assert_eq!(parse_zone("GMT+08:00"), Ok(Tz::Etc__GMTMinus8));
        assert_eq!(parse_zone("-3"), Ok(Tz::Etc__GMTPlus3));
        assert_eq!(parse_zone("GMT+00:00"), Ok(Tz::UTC));
        assert!(parse_zone("Europe/Berlim").is_err() && parse_zone("").is_err());
    }
}
