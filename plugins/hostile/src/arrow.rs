//! Gives a column that is none: cut messages, buffers outside the body, offsets that run backwards, text that is no UTF-8.
//! The argument message is echoed with changes; functions take and return one text column, so the echo alone is right.

/// `variant` picks the damage; 0 is none.
pub(crate) fn attack(variant: u32, message: &[u8]) -> Vec<u8> {
    let mut bytes = message.to_vec();
    let length = bytes.len();
    match variant {
        1 => bytes.clear(),
        2 => bytes.truncate(7),
        3 => bytes.truncate(length / 2),
        4 => bytes[..4].fill(0),
        5 => bytes[4..8].fill(0xff),
        6 => bytes[8..length / 2].fill(0xff),
        // The body's offsets.
        7 => bytes[length / 2..].fill(0xff),
        8 => bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes()),
        // Every byte of the metadata one higher.
        9 => bytes[8..].iter_mut().for_each(|byte| *byte = byte.wrapping_add(1)),
        _ => {}
    }
    bytes
}
