//! Faults: what is wrong with a script and where, before the script's text is at hand to show it.

use datafusion::sql::sqlparser::tokenizer::{Location, Span};

/// Why a query cannot be planned. The message says what was found, what is expected and what to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fault {
    /// Where; line 0 if it is not known, then the statement's start stands in.
    pub(crate) at: Location,
    /// What.
    pub(crate) message: String,
}

/// Result of planning steps.
pub(crate) type Planned<T> = Result<T, Fault>;

impl Fault {
    /// A fault at the start of `span`.
    pub(crate) fn at(span: Span, message: impl Into<String>) -> Self {
        Self { at: span.start, message: message.into() }
    }

    /// The same fault, at `span` if its own place is not known.
    pub(crate) fn or_at(mut self, span: Span) -> Self {
        if self.at.line == 0 {
            self.at = span.start;
        }
        self
    }
}

/// Something SQL has and Pelton does not have yet: `what`, and the way around.
pub(crate) fn not_built(span: Span, what: &str, hint: &str) -> Fault {
    Fault::at(span, format!("{what} not built yet. {hint}"))
}

/// The known name nearest to a misspelt one, as `; did you mean …?`, or nothing if none is near.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let lower = name.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| {
            let length = candidate.len().min(name.len());
            *distance == 0 || (length > 1 && *distance <= 1 + length / 3)
        })
        .min()
        .map(|(_, candidate)| format!("; did you mean `{candidate}`?"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_nearest_and_only_if_it_is_near() {
        assert_eq!(nearest("tennant", ["tenant", "ts"]), "; did you mean `tenant`?");
        assert_eq!(nearest("COUNTT", ["count", "sum"]), "; did you mean `count`?");
        assert_eq!(nearest("prompt", ["ts", "k"]), "");
        assert_eq!(nearest("x", ["a", "b"]), "");
    }
}
