//! Encodings and addresses: BASE64, character sets, URLs, text to map.

use std::sync::Arc;

use arrow::{
    array::{MapBuilder, MapFieldNames, StringBuilder},
    datatypes::DataType,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use datafusion::common::{Result, plan_err};

use super::{Bind, Call, Param, Spec};
use crate::{
    error::{bad_row, shown},
    func::{Columns, Plan, collect_bytes, collect_text},
    types::map_type,
};

use Param::{Any, Bytes, Text};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "TO_BASE64", params: &[Text], optional: 0, rest: None, bind: |_| Ok(Plan::new(DataType::Utf8, to_base64).into()) },
    Spec { name: "FROM_BASE64", params: &[Text], optional: 0, rest: None, bind: |_| Ok(Plan::new(DataType::Utf8, from_base64).fallible().into()) },
    Spec { name: "ENCODE", params: &[Text, Text], optional: 0, rest: None, bind: encode },
    Spec { name: "DECODE", params: &[Bytes, Text], optional: 0, rest: None, bind: decode },
    Spec { name: "URL_ENCODE", params: &[Text], optional: 0, rest: None, bind: |_| Ok(Plan::new(DataType::Utf8, url_encode).into()) },
    Spec { name: "URL_DECODE", params: &[Text], optional: 0, rest: None, bind: |_| Ok(Plan::new(DataType::Utf8, url_decode).into()) },
    Spec { name: "PARSE_URL", params: &[Text, Text, Text], optional: 1, rest: None, bind: |_| Ok(Plan::new(DataType::Utf8, parse_url).into()) },
    Spec { name: "STR_TO_MAP", params: &[Text, Text, Text], optional: 2, rest: None, bind: |_| Ok(Plan::new(map_type(DataType::Utf8, DataType::Utf8), str_to_map).into()) },
    Spec { name: "UNHEX", params: &[Text], optional: 0, rest: None, bind: |_| Ok(Plan::new(DataType::Binary, unhex).into()) },
    Spec { name: "ELT", params: &[Param::Int, Any], optional: 0, rest: Some(Any), bind: elt },
];

fn to_base64(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let texts = columns.texts(0)?;
    collect_text(columns.rows, |row, out| Ok(texts.get(row).map(|text| STANDARD.encode_string(text, out))))
}

fn from_base64(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let texts = columns.texts(0)?;
    collect_text(columns.rows, |row, out| {
        let Some(text) = texts.get(row) else { return Ok(None) };
        let bytes = STANDARD.decode(text).map_err(|_| bad_row(format!("FROM_BASE64({}): expected text in base64", shown(text))))?;
        out.push_str(&String::from_utf8_lossy(&bytes));
        Ok(Some(()))
    })
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Charset {
    Utf8,
    Latin1,
    Ascii,
    Utf16,
    Utf16Be,
    Utf16Le,
}

fn charset(call: &Call<'_>) -> Result<Charset> {
    let Some(name) = call.constant(1) else { return plan_err!("{}: the character set must be a constant text", call.name) };
    Ok(match name.to_ascii_uppercase().as_str() {
        "UTF-8" | "UTF8" => Charset::Utf8,
        "ISO-8859-1" | "LATIN1" => Charset::Latin1,
        "US-ASCII" | "ASCII" => Charset::Ascii,
        "UTF-16" => Charset::Utf16,
        "UTF-16BE" => Charset::Utf16Be,
        "UTF-16LE" => Charset::Utf16Le,
        _ => return plan_err!("{}: character set '{name}' is not known: UTF-8, ISO-8859-1, US-ASCII, UTF-16, UTF-16BE, UTF-16LE are", call.name),
    })
}

fn encode(call: &Call<'_>) -> Result<Bind> {
    let charset = charset(call)?;
    Ok(Plan::new(DataType::Binary, move |columns| {
        let texts = columns.texts(0)?;
        collect_bytes(columns.rows, |row, out| {
            let Some(text) = texts.get(row) else { return Ok(None) };
            match charset {
                Charset::Utf8 => out.extend_from_slice(text.as_bytes()),
                Charset::Latin1 => out.extend(text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?'))),
                Charset::Ascii => out.extend(text.chars().map(|c| if c.is_ascii() { c as u8 } else { b'?' })),
                Charset::Utf16 | Charset::Utf16Be => {
                    if charset == Charset::Utf16 {
                        out.extend_from_slice(&[0xFE, 0xFF]);
                    }
                    out.extend(text.encode_utf16().flat_map(u16::to_be_bytes));
                }
                Charset::Utf16Le => out.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
            }
            Ok(Some(()))
        })
    })
    .into())
}

fn decode(call: &Call<'_>) -> Result<Bind> {
    let charset = charset(call)?;
    Ok(Plan::new(DataType::Utf8, move |columns| {
        let column = columns.bytes(0)?;
        collect_text(columns.rows, |row, out| {
            let Some(bytes) = column.get(row) else { return Ok(None) };
            match charset {
                Charset::Utf8 => out.push_str(&String::from_utf8_lossy(bytes)),
                Charset::Latin1 => out.extend(bytes.iter().map(|b| char::from(*b))),
                Charset::Ascii => out.extend(bytes.iter().map(|b| if b.is_ascii() { char::from(*b) } else { '\u{FFFD}' })),
                _ => {
                    let (little, body) = match bytes {
                        [0xFE, 0xFF, rest @ ..] if charset == Charset::Utf16 => (false, rest),
                        [0xFF, 0xFE, rest @ ..] if charset == Charset::Utf16 => (true, rest),
                        _ => (charset == Charset::Utf16Le, bytes),
                    };
                    let units: Vec<u16> = body.chunks_exact(2).map(|pair| if little { u16::from_le_bytes([pair[0], pair[1]]) } else { u16::from_be_bytes([pair[0], pair[1]]) }).collect();
                    out.push_str(&String::from_utf16_lossy(&units));
                }
            }
            Ok(Some(()))
        })
    })
    .into())
}

/// As Java's URLEncoder.
fn url_encode(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let texts = columns.texts(0)?;
    collect_text(columns.rows, |row, out| {
        let Some(text) = texts.get(row) else { return Ok(None) };
        for byte in text.bytes() {
            match byte {
                b' ' => out.push('+'),
                b'.' | b'-' | b'*' | b'_' => out.push(char::from(byte)),
                _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
                _ => {
                    out.push('%');
                    out.extend([byte >> 4, byte & 15].map(|half| char::from(b"0123456789ABCDEF"[usize::from(half)])));
                }
            }
        }
        Ok(Some(()))
    })
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |b: Option<u8>| char::from(b?).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            _ => byte,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn url_decode(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let texts = columns.texts(0)?;
    collect_text(columns.rows, |row, out| Ok(texts.get(row).and_then(percent_decoded).map(|text| out.push_str(&text))))
}

/// The parts of `scheme://user@host:port/path?query#reference`.
struct Url<'a> {
    scheme: &'a str,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
    reference: Option<&'a str>,
}

impl<'a> Url<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.trim().split_once(':')?;
        let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        if !valid {
            return None;
        }
        let (rest, reference) = rest.split_once('#').map_or((rest, None), |(rest, reference)| (rest, Some(reference)));
        let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
        let (authority, path) = match rest.strip_prefix("//") {
            None => (None, rest),
            Some(rest) => {
                let end = rest.find('/').unwrap_or(rest.len());
                (Some(&rest[..end]), &rest[end..])
            }
        };
        Some(Self { scheme, authority, path, query, reference })
    }

    fn part(&self, name: &str) -> Option<String> {
        let user = |authority: &'a str| authority.rsplit_once('@').map(|(user, _)| user);
        let host = |authority: &'a str| {
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            if host.starts_with('[') { host.split_inclusive(']').next().unwrap_or(host) } else { host.split(':').next().unwrap_or(host) }
        };
        match name {
            "PROTOCOL" => Some(self.scheme.to_ascii_lowercase()),
            "AUTHORITY" => self.authority.map(ToOwned::to_owned),
            "HOST" => self.authority.map(|authority| host(authority).to_owned()),
            "USERINFO" => self.authority.and_then(user).map(ToOwned::to_owned),
            "PATH" => Some(self.path.to_owned()),
            "QUERY" => self.query.map(ToOwned::to_owned),
            "REF" => self.reference.map(ToOwned::to_owned),
            "FILE" => Some(match self.query {
                Some(query) => format!("{}?{query}", self.path),
                None => self.path.to_owned(),
            }),
            _ => None,
        }
    }
}

fn parse_url(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let (texts, parts) = (columns.texts(0)?, columns.texts(1)?);
    let keys = if columns.len() > 2 { Some(columns.texts(2)?) } else { None };
    collect_text(columns.rows, |row, out| {
        let (Some(text), Some(part)) = (texts.get(row), parts.get(row)) else { return Ok(None) };
        let Some(url) = Url::read(text) else { return Ok(None) };
        let found = match &keys {
            None => url.part(part),
            Some(keys) => keys.get(row).filter(|_| part == "QUERY").and_then(|key| {
                let pairs = url.query?.split('&').filter_map(|pair| pair.split_once('='));
                pairs.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
            }),
        };
        Ok(found.map(|found| out.push_str(&found)))
    })
}

fn str_to_map(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let texts = columns.texts(0)?;
    let option = |index: usize| if columns.len() > index { columns.texts(index).map(Some) } else { Ok(None) };
    let (between, inside) = (option(1)?, option(2)?);
    let names = MapFieldNames { entry: "entries".to_owned(), key: "key".to_owned(), value: "value".to_owned() };
    let mut map = MapBuilder::new(Some(names), StringBuilder::new(), StringBuilder::new());
    for row in 0..columns.rows {
        let separator = between.as_ref().map_or(Some(","), |column| column.get(row));
        let (Some(text), Some(separator), Some(equals)) = (texts.get(row), separator, inside.as_ref().map_or(Some("="), |column| column.get(row))) else {
            map.append(false)?;
            continue;
        };
        let mut pairs: Vec<(&str, Option<&str>)> = Vec::new();
        let all: Vec<&str> = if text.is_empty() { Vec::new() } else if separator.is_empty() { vec![text] } else { text.split(separator).collect() };
        for pair in all {
            let (key, value) = pair.split_once(equals).map_or((pair, None), |(key, value)| (key, Some(value)));
            match pairs.iter_mut().find(|(known, _)| *known == key) {
                Some(known) => known.1 = value,
                None => pairs.push((key, value)),
            }
        }
        for (key, value) in pairs {
            map.keys().append_value(key);
            map.values().append_option(value);
        }
        map.append(true)?;
    }
    Ok(Arc::new(map.finish()))
}

fn unhex(columns: &Columns<'_>) -> Result<arrow::array::ArrayRef> {
    let texts = columns.texts(0)?;
    collect_bytes(columns.rows, |row, out| {
        let Some(text) = texts.get(row) else { return Ok(None) };
        let even = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_owned() };
        Ok(hex::decode(even).ok().map(|bytes| out.extend_from_slice(&bytes)))
    })
}

/// The n-th of the following arguments: a CASE over n.
fn elt(call: &Call<'_>) -> Result<Bind> {
    let [index, values @ ..] = call.args else { return plan_err!("ELT takes a number and values") };
    let values = crate::operators::unified("ELT", values.to_vec(), call.mode())?;
    let whens = (1_i64..=values.len() as i64)
        .map(|n| {
            let equal = datafusion::logical_expr::binary_expr(index.expr.clone(), datafusion::logical_expr::Operator::Eq, datafusion::logical_expr::lit(n));
            crate::translate::boolean(equal)
        })
        .collect();
    Ok(Bind::Expr(crate::translate::case_of(whens, values)))
}
