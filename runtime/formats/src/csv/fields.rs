//! Splitting one csv record into fields.

use super::Dialect;

/// Fields of the record last split: one buffer, ends, and which were in quotes.
#[derive(Debug, Default)]
pub(crate) struct SplitFields {
    data: Vec<u8>,
    ends: Vec<usize>,
    quoted: Vec<bool>,
}

impl SplitFields {
    /// How many fields.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// A field's text.
    pub(crate) fn get(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.data[start..self.ends[index]]
    }

    /// Whether the field stood in quotes.
    pub(crate) fn is_quoted(&self, index: usize) -> bool {
        self.quoted[index]
    }

    fn end(&mut self, quoted: bool) {
        self.ends.push(self.data.len());
        self.quoted.push(quoted);
    }

    /// Splits a record. Quotes count only at the start of a field; inside, a doubled quote is a quote.
    pub(crate) fn split(&mut self, record: &[u8], dialect: &Dialect) -> Result<(), String> {
        self.data.clear();
        self.ends.clear();
        self.quoted.clear();
        let mut at = 0;
        loop {
            let quoted = dialect.quote.is_some() && record.get(at) == dialect.quote.as_ref();
            at = if quoted { self.quoted_field(record, at, dialect)? } else { self.plain_field(record, at, dialect) };
            self.end(quoted);
            match record.get(at) {
                None => return Ok(()),
                Some(&byte) if byte == dialect.delimiter => at += 1,
                Some(_) => return Err(format!("text after the closing quote of field {}", self.len())),
            }
        }
    }

    fn plain_field(&mut self, record: &[u8], start: usize, dialect: &Dialect) -> usize {
        let rest = &record[start..];
        let Some(escape) = dialect.escape else {
            let length = memchr::memchr(dialect.delimiter, rest).unwrap_or(rest.len());
            self.data.extend_from_slice(&rest[..length]);
            return start + length;
        };
        let mut at = start;
        while let Some(&byte) = record.get(at) {
            if byte == dialect.delimiter {
                break;
            }
            at += usize::from(byte == escape && at + 1 < record.len());
            self.data.push(record[at]);
            at += 1;
        }
        at
    }

    fn quoted_field(&mut self, record: &[u8], start: usize, dialect: &Dialect) -> Result<usize, String> {
        let quote = dialect.quote.unwrap_or(b'"');
        let mut at = start + 1;
        loop {
            match record.get(at) {
                None => return Err(format!("field {} has no closing quote", self.len() + 1)),
                Some(&byte) if byte == quote => {
                    if record.get(at + 1) != Some(&quote) {
                        return Ok(at + 1);
                    }
                    self.data.push(quote);
                    at += 2;
                }
                Some(&byte) if Some(byte) == dialect.escape && at + 1 < record.len() => {
                    self.data.push(record[at + 1]);
                    at += 2;
                }
                Some(&byte) => {
                    self.data.push(byte);
                    at += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(record: &str, escape: Option<u8>) -> Result<Vec<String>, String> {
        let dialect = Dialect { delimiter: b',', quote: Some(b'"'), escape, element_delimiter: b";".to_vec(), null_literal: None };
        let mut fields = SplitFields::default();
        fields.split(record.as_bytes(), &dialect)?;
        Ok((0..fields.len()).map(|index| String::from_utf8_lossy(fields.get(index)).into_owned()).collect())
    }

    #[test]
    fn splits_quotes_and_escapes() {
        assert_eq!(check("a,,b", None), Ok(vec!["a".to_owned(), String::new(), "b".to_owned()]));
        assert_eq!(check("\"a,\"\"x\"\"\n\",b\"c", None), Ok(vec!["a,\"x\"\n".to_owned(), "b\"c".to_owned()]));
        assert_eq!(check("a\\,b,\"c\\\"d\"", Some(b'\\')), Ok(vec!["a,b".to_owned(), "c\"d".to_owned()]));
        assert_eq!(check("\"a\"x", None), Err("text after the closing quote of field 1".to_owned()));
        assert_eq!(check("b,\"a", None), Err("field 2 has no closing quote".to_owned()));
    }
}
