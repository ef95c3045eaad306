//! Memory of the engine's buffers, by the engine's rules.

/// Smallest slot of a buffer in bytes: one cache line. A full buffer moves to a slot of twice the size.
const SMALLEST_SLOT: f64 = 64.0;
/// Bytes of a page, which slots of one size share.
const PAGE: f64 = 65_536.0;
/// Bytes of state that a buffer keeps for the second and each later field.
const STATE_BYTES: f64 = 10.0;

/// Bytes of the line of a source with a buffer of its own.
pub const LINE: f64 = 64.0;
/// Maximum bytes of the rows of a small block.
const SMALL_ROWS: f64 = 96.0;

/// Returns the maximum rows of one number in a small block, which needs no line. Such a block always has space for one
/// more row of the largest size.
pub fn small_rows(row_bytes: f64) -> f64 {
    2.0 + (SMALL_ROWS - first_row(1) - row_bound(1)).max(0.0) / row_bytes
}

/// Returns whether the engine makes small blocks when memory is short: if the rows of blocks take less than half of
/// such a block. `rows` are those of full blocks; blocks are at all stages of filling.
pub fn are_few(rows: f64, row_bytes: f64) -> bool {
    first_row(1) + rows / 2.0 * row_bytes < SMALL_ROWS / 2.0
}

/// Returns the bytes at which a source's buffer is sealed: B for every four fields, at most 256 KiB.
pub fn buffer_limit(block_bytes: f64, fields: u64) -> f64 {
    (block_bytes * (fields / 4).max(1) as f64).min(f64::from(256u32 << 10))
}

/// Returns the size of the slot that holds `bytes` bytes.
pub fn slot(bytes: f64) -> f64 {
    SMALLEST_SLOT * (bytes / SMALLEST_SLOT).log2().ceil().max(0.0).exp2()
}

/// Returns the size of the slot of a buffer with `rows` rows.
pub fn row_slot(rows: f64, fields: u64, row_bytes: f64) -> f64 {
    let before = match rows {
        rows if rows <= 1.0 => 0.0,
        _ => first_row(fields) + (rows - 2.0).max(0.0) * row_bytes,
    };
    slot(before + row_bound(fields))
}

/// Returns the size of the slot for the state of the fields.
pub fn state_slot(fields: u64) -> f64 {
    match fields {
        1 => 0.0,
        _ => slot((fields - 1) as f64 * STATE_BYTES),
    }
}

/// Returns the largest excess of memory while buffers move one by one, in random order, from slots of half the size to
/// slots of this size. The excess is (new slots + old pages still in use) / (final size of the new slots) − 1.
///
/// A page of the old size has m slots. When a share f of the buffers has moved, a page is still in use with
/// probability 1 − fᵐ. New slots and old pages together are f + (1 − fᵐ)/2 of the final size; the maximum is at
/// fᵐ⁻¹ = 2/m.
pub fn left_behind(slot: f64) -> f64 {
    let slots = 2.0 * PAGE / slot;
    if slot <= SMALLEST_SLOT || slots <= 2.0 {
        return 0.0;
    }
    let moved = (2.0 / slots).powf(1.0 / (slots - 1.0));
    moved + (1.0 - moved.powf(slots)) / 2.0 - 1.0
}

/// Returns the bytes of the codes of a row: half a byte for the time and for each field.
fn codes(fields: u64) -> f64 {
    ((fields + 2) / 2) as f64
}

/// Returns the bytes of the first row of a buffer, which is stored in full: a time and the values.
pub fn first_row(fields: u64) -> f64 {
    codes(fields) + 8.0 * (1 + fields) as f64
}

/// Returns the maximum bytes of a row of numbers. A buffer always keeps this many bytes free.
pub fn row_bound(fields: u64) -> f64 {
    codes(fields) + 8.0 + 10.0 * fields as f64
}
