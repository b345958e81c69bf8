//! Divides an input into pieces, as a network does.

/// Returns the pieces of `bytes`, of `length` bytes each or, if that is 0, of one byte, then two, three ...
pub fn cut(mut bytes: &[u8], length: u8) -> impl Iterator<Item = &[u8]> {
    (1..).map_while(move |number| {
        let length = if length == 0 { number } else { usize::from(length) };
        let (piece, rest) = bytes.split_at(bytes.len().min(length));
        bytes = rest;
        (!piece.is_empty()).then_some(piece)
    })
}
