//! Hashes, and PRINTF's formats.

use std::fmt::Write as _;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Int64Type},
};
use chrono_tz::Tz;
use datafusion::common::{Result, internal_err, plan_err};
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};

use super::{Bind, Call, Param, Spec};
use crate::{
    cast::{Mode, cast_array, render},
    error::bad_row,
    func::{Plan, Typed, collect_text},
};

use Param::{Any, Int};

pub(super) const SPECS: &[Spec] = &[
    Spec { name: "MD5", params: &[Any], optional: 0, rest: None, bind: |call| delegated(call, datafusion::functions::crypto::md5()) },
    Spec { name: "SHA1", params: &[Any], optional: 0, rest: None, bind: |call| hashed(call, |bytes| hex::encode(sha1(bytes))) },
    Spec { name: "SHA224", params: &[Any], optional: 0, rest: None, bind: |call| hashed(call, |bytes| hex::encode(Sha224::digest(bytes))) },
    Spec { name: "SHA256", params: &[Any], optional: 0, rest: None, bind: |call| hashed(call, |bytes| hex::encode(Sha256::digest(bytes))) },
    Spec { name: "SHA384", params: &[Any], optional: 0, rest: None, bind: |call| hashed(call, |bytes| hex::encode(Sha384::digest(bytes))) },
    Spec { name: "SHA512", params: &[Any], optional: 0, rest: None, bind: |call| hashed(call, |bytes| hex::encode(Sha512::digest(bytes))) },
    Spec { name: "SHA2", params: &[Any, Int], optional: 0, rest: None, bind: sha2 },
];

/// Text or bytes to hash.
fn hashable(call: &Call<'_>) -> Result<bool> {
    match call.data_type(0) {
        DataType::Utf8 => Ok(true),
        DataType::Binary => Ok(false),
        DataType::Null => Ok(true),
        other => plan_err!("{} takes a text or bytes as argument 1, got {}", call.name, crate::types::type_name(other)),
    }
}

/// DataFusion's function, for text and bytes alike.
fn delegated(call: &Call<'_>, udf: std::sync::Arc<datafusion::logical_expr::ScalarUDF>) -> Result<Bind> {
    hashable(call)?;
    let text = crate::cast::cast_to(call.args[0].clone(), &if call.data_type(0) == &DataType::Null { DataType::Utf8 } else { call.data_type(0).clone() }.into(), call.mode())?;
    let hashed = datafusion::logical_expr::cast(udf.call(vec![text.expr]), DataType::Utf8);
    Ok(Bind::Expr(Typed::new(hashed, DataType::Utf8)))
}

fn hashed(call: &Call<'_>, hash: fn(&[u8]) -> String) -> Result<Bind> {
    let text = hashable(call)?;
    if call.data_type(0) == &DataType::Null {
        return Ok(Bind::Expr(Typed::literal(datafusion::common::ScalarValue::Utf8(None))));
    }
    Ok(Plan::new(DataType::Utf8, move |columns| {
        if text {
            let texts = columns.texts(0)?;
            return collect_text(columns.rows, |row, out| Ok(texts.get(row).map(|text| out.push_str(&hash(text.as_bytes())))));
        }
        let bytes = columns.bytes(0)?;
        collect_text(columns.rows, |row, out| Ok(bytes.get(row).map(|bytes| out.push_str(&hash(bytes)))))
    })
    .into())
}

fn sha2(call: &Call<'_>) -> Result<Bind> {
    let bits = match call.args[1].value() {
        Some(datafusion::common::ScalarValue::Int64(Some(bits))) => *bits,
        _ => return plan_err!("SHA2: the number of bits must be constant: 224, 256, 384 or 512"),
    };
    let hash: fn(&[u8]) -> String = match bits {
        224 => |bytes| hex::encode(Sha224::digest(bytes)),
        256 => |bytes| hex::encode(Sha256::digest(bytes)),
        384 => |bytes| hex::encode(Sha384::digest(bytes)),
        512 => |bytes| hex::encode(Sha512::digest(bytes)),
        other => return plan_err!("SHA2 has 224, 256, 384 or 512 bits, got {other}"),
    };
    hashed(call, hash)
}

/// SHA-1 (FIPS 180-4), here because nothing else in the tree has it.
fn sha1(message: &[u8]) -> [u8; 20] {
    let mut state: [u32; 5] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0];
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() - message.len() < 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let length = (message.len() as u64).wrapping_mul(8).to_be_bytes();
    let end = padded.len();
    padded[end - 8..].copy_from_slice(&length);
    for block in padded.chunks_exact(64) {
        let mut words = [0_u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        for i in 16..80 {
            words[i] = (words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (i, word) in words.iter().enumerate() {
            let (f, k) = match i {
                0..20 => ((b & c) | (!b & d), 0x5A82_7999),
                20..40 => (b ^ c ^ d, 0x6ED9_EBA1),
                40..60 => ((b & c) | (b & d) | (c & d), 0x8F1B_BCDC),
                _ => (b ^ c ^ d, 0xCA62_C1D6_u32),
            };
            let next = a.rotate_left(5).wrapping_add(f).wrapping_add(e).wrapping_add(k).wrapping_add(*word);
            (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next);
        }
        for (sum, value) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(value);
        }
    }
    let mut digest = [0; 20];
    for (bytes, word) in digest.chunks_exact_mut(4).zip(state) {
        bytes.copy_from_slice(&word.to_be_bytes());
    }
    digest
}

/// A part of a PRINTF format.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Value { index: usize, left: bool, zeros: bool, width: usize, precision: Option<usize>, kind: char },
}

/// `%-5s %05d %.2f %x %%`.
pub(super) fn format_pieces(format: &str, arguments: usize) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut text = String::new();
    let (mut rest, mut index) = (format.chars().peekable(), 0);
    while let Some(c) = rest.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let (mut left, mut zeros) = (false, false);
        while let Some(flag) = rest.next_if(|c| *c == '-' || *c == '0') {
            left |= flag == '-';
            zeros |= flag == '0';
        }
        let number = |rest: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut digits = String::new();
            while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                digits.push(digit);
            }
            digits.parse::<usize>().ok().map(|n| n.min(10_000))
        };
        let width = number(&mut rest).unwrap_or(0);
        let precision = if rest.next_if_eq(&'.').is_some() { number(&mut rest) } else { None };
        match rest.next() {
            Some('%') => text.push('%'),
            Some('n') => text.push('\n'),
            Some(kind @ ('s' | 'd' | 'f' | 'x' | 'X')) => {
                if index >= arguments {
                    return Err(format!("PRINTF('{format}'): there are more places than the {arguments} values"));
                }
                pieces.push(Piece::Text(std::mem::take(&mut text)));
                pieces.push(Piece::Value { index, left, zeros, width, precision, kind });
                index += 1;
            }
            other => {
                let shown = other.map(String::from).unwrap_or_default();
                return Err(format!("PRINTF('{format}'): `%{shown}` is not built, %s %d %f %x %X %n %% are"));
            }
        }
    }
    pieces.push(Piece::Text(text));
    Ok(pieces)
}

pub(super) fn printf(rows: usize, pieces: &[Piece], arguments: &[ArrayRef], zone: Tz) -> Result<ArrayRef> {
    let mode = Mode { zone, lenient: false };
    let texts = arguments.iter().map(|array| cast_array(array, &DataType::Utf8.into(), mode)).collect::<Result<Vec<_>>>()?;
    let writers = texts.iter().map(|array| render::writer(array, zone)).collect::<Result<Vec<_>>>()?;
    collect_text(rows, |row, out| {
        for piece in pieces {
            let Piece::Value { index, left, zeros, width, precision, kind } = piece else {
                if let Piece::Text(text) = piece {
                    out.push_str(text);
                }
                continue;
            };
            let mut value = String::new();
            if texts[*index].is_null(row) {
                value.push_str("null");
            } else {
                writers[*index](row, &mut value);
                value = formatted(&value, *kind, *precision, &arguments[*index], row)?;
            }
            let missing = width.saturating_sub(value.chars().count());
            match (left, zeros) {
                (true, _) => {
                    let _ = write!(out, "{value}{:missing$}", "");
                }
                (false, true) => {
                    let (sign, digits) = value.strip_prefix('-').map_or(("", value.as_str()), |digits| ("-", digits));
                    let _ = write!(out, "{sign}{}{digits}", "0".repeat(missing));
                }
                (false, false) => {
                    let _ = write!(out, "{:missing$}{value}", "");
                }
            }
        }
        Ok(Some(()))
    })
}

fn formatted(value: &str, kind: char, precision: Option<usize>, array: &ArrayRef, row: usize) -> Result<String> {
    let wrong = || bad_row(format!("PRINTF: %{kind} does not fit {value}"));
    Ok(match kind {
        'd' => value.parse::<i64>().map_err(|_| wrong())?.to_string(),
        'f' => {
            let digits = precision.unwrap_or(6);
            match crate::cast::read_decimal(value, 38, i8::try_from(digits).map_err(|_| wrong())?) {
                Ok(Some(decimal)) => {
                    let mut out = String::new();
                    render::decimal(decimal, digits as i8, &mut out);
                    out
                }
                _ => return Err(wrong()),
            }
        }
        'x' | 'X' => {
            let DataType::Int64 = array.data_type() else {
                let bits = value.parse::<i32>().map_err(|_| wrong())?;
                return Ok(if kind == 'x' { format!("{bits:x}") } else { format!("{bits:X}") });
            };
            let Some(values) = array.as_primitive_opt::<Int64Type>() else { return internal_err!("PRINTF: no BIGINT") };
            let bits = values.value(row);
            if kind == 'x' { format!("{bits:x}") } else { format!("{bits:X}") }
        }
        _ => match precision {
            Some(most) => value.chars().take(most).collect(),
            None => value.to_owned(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sha1_agrees_with_the_standard_around_block_ends() {
        assert_eq!(hex::encode(sha1(b"")), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
        assert_eq!(hex::encode(sha1(b"hello")), "aaf4c61ddcc5e8a2dabede0f3b482cd9aea9434d");
        assert_eq!(hex::encode(sha1(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")), "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    }
}
