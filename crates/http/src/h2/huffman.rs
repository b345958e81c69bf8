//! Decoder of the Huffman code of RFC 7541, appendix B.
//!
//! The code is canonical: codes of equal length are consecutive in symbol order, shorter ones first, so the
//! lengths define it. Codes up to `SHORT_BITS` bits, which cover most headers, are looked up in a table.
//! Longer ones are compared with the last code of each length.

use super::violation::Violation;

const SYMBOLS: usize = 257;
const END: u16 = 256;
const SHORT_BITS: u32 = 9;
const LONGEST_BITS: u32 = 30;

/// Code length of each symbol; the end symbol is last.
#[rustfmt::skip]
const LENGTHS: [u8; SYMBOLS] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28,
    28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23,
    23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19,
    22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27,
    27, 27, 27, 26, 30,
];

struct Code {
    /// Symbol and code length by the next `SHORT_BITS` bits. Length 0: the code is longer.
    short: [(u16, u8); 1 << SHORT_BITS],
    /// Symbols in code order.
    ordered: [u16; SYMBOLS],
    /// First code per length, and the index of its symbol in `ordered`.
    first: [(u32, u32); LONGEST_BITS as usize + 2],
}

static CODE: Code = build();

const fn build() -> Code {
    let mut code = Code {
        short: [(0, 0); 1 << SHORT_BITS],
        ordered: [0; SYMBOLS],
        first: [(0, 0); LONGEST_BITS as usize + 2],
    };
    let (mut next, mut place, mut bits) = (0, 0, 1);
    while bits <= LONGEST_BITS {
        code.first[bits as usize] = (next, place);
        let mut symbol = 0;
        while symbol < SYMBOLS {
            if LENGTHS[symbol] as u32 == bits {
                code.ordered[place as usize] = symbol as u16;
                if bits <= SHORT_BITS {
                    let start = next << (SHORT_BITS - bits);
                    let mut entry = start;
                    while entry < start + (1 << (SHORT_BITS - bits)) {
                        code.short[entry as usize] = (symbol as u16, bits as u8);
                        entry += 1;
                    }
                }
                next += 1;
                place += 1;
            }
            symbol += 1;
        }
        next <<= 1;
        bits += 1;
    }
    code.first[LONGEST_BITS as usize + 1] = (next, place);
    code
}

/// Returns the first symbol in `bits` and its code length, or None if `have` bits are too few.
fn symbol(bits: u64, have: u32) -> Option<(u16, u32)> {
    let short = CODE.short[(bits >> (64 - SHORT_BITS)) as usize];
    if short.1 > 0 {
        return (u32::from(short.1) <= have).then_some((short.0, u32::from(short.1)));
    }
    for length in SHORT_BITS + 1..=LONGEST_BITS.min(have) {
        let code = (bits >> (64 - length)) as u32;
        let (first, place) = CODE.first[length as usize];
        let count = CODE.first[length as usize + 1].1 - place;
        if code >= first && code - first < count {
            return Some((CODE.ordered[(place + code - first) as usize], length));
        }
    }
    None
}

/// Decodes `coded` and appends the result, at most 8 / 5 of its size.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), Violation> {
    let (mut bits, mut have, mut rest) = (0u64, 0, coded);
    loop {
        while have <= 56 {
            let Some((byte, more)) = rest.split_first() else {
                break;
            };
            bits |= u64::from(*byte) << (56 - have);
            have += 8;
            rest = more;
        }
        match symbol(bits, have) {
            Some((END, _)) => return Err(Violation::HuffmanEnd),
            Some((symbol, length)) => {
                out.push(symbol as u8);
                bits <<= length;
                have -= length;
            }
            // The padding must be the start of the end symbol (all ones) and shorter than a byte.
            None if have < 8 && bits.leading_ones() >= have => return Ok(()),
            None => return Err(Violation::HuffmanPadding),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(text: &[u8]) -> Vec<u8> {
        let (mut bits, mut have, mut out) = (0u64, 0, Vec::new());
        for byte in text {
            let length = u32::from(LENGTHS[usize::from(*byte)]);
            let (first, place) = CODE.first[length as usize];
            let at = CODE.ordered.iter().position(|symbol| *symbol == u16::from(*byte));
            let code = first + at.expect("every byte has a code") as u32 - place;
            bits = bits << length | u64::from(code);
            have += length;
            while have >= 8 {
                have -= 8;
                out.push((bits >> have) as u8);
            }
        }
        if have > 0 {
            out.push((bits << (8 - have)) as u8 | (0xff >> have));
        }
        out
    }

    #[test]
    fn the_lengths_make_a_complete_code() {
        let sum: f64 = LENGTHS.iter().map(|length| 0.5f64.powi(i32::from(*length))).sum();
        assert!((sum - 1.0).abs() < 1e-12);
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // RFC 7541, appendix C.4 and C.6.
        for (coded, text) in [
            (
                &[
                    0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
                ][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x64, 0x02], "302"),
            (
                &[
                    0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b, 0x81,
                    0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
                ],
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
        ] {
            let mut out = Vec::new();
            assert_eq!(decode(coded, &mut out), Ok(()));
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }

    #[test]
    fn every_byte_survives_and_a_broken_end_is_refused() {
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        let mut out = Vec::new();
        assert_eq!(decode(&encode(&all), &mut out), Ok(()));
        assert_eq!(out, all);
        for (coded, expected) in [
            (&[0xff, 0xff, 0xff, 0xff][..], Violation::HuffmanEnd),
            (&[0xff], Violation::HuffmanPadding),
            (&[0x64, 0x02, 0xff], Violation::HuffmanPadding),
            (&[0x18], Violation::HuffmanPadding),
        ] {
            assert_eq!(decode(coded, &mut Vec::new()), Err(expected), "{coded:?}");
        }
    }
}
