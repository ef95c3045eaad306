//! The field of 256 elements in which the second syndrome is computed.
//!
//! Bytes are polynomials over {0, 1} modulo x⁸ + x⁴ + x³ + x² + 1 (0x11d), as in the RAID 6 of Linux and in
//! ISA-L. 2 generates all elements except 0. Addition is exclusive or.

/// Value added when a doubled byte overflows: the polynomial without x⁸.
pub const OVERFLOW: u8 = 0x1d;

/// Powers of the generator, repeated once so that sums of two logarithms need no modulo.
const POWERS: [u8; 510] = powers();
const LOGARITHMS: [u8; 256] = logarithms();

const fn powers() -> [u8; 510] {
    let mut table = [1u8; 510];
    let mut at = 1;
    while at < 510 {
        table[at] = double(table[at - 1]);
        at += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let mut table = [0u8; 256];
    let mut at = 0;
    while at < 255 {
        table[POWERS[at] as usize] = at as u8;
        at += 1;
    }
    table
}

/// Returns twice a byte.
#[inline(always)]
pub const fn double(value: u8) -> u8 {
    let overflow = if value >= 0x80 { OVERFLOW } else { 0 };
    value.wrapping_add(value) ^ overflow
}

/// Returns the coefficient of a data column in the second syndrome: 2 to the power of the column.
pub const fn coefficient(column: usize) -> u8 {
    POWERS[column % 255]
}

/// Returns the product of two elements.
#[cfg(test)]
pub const fn multiply(left: u8, right: u8) -> u8 {
    if left == 0 || right == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[left as usize] as usize + LOGARITHMS[right as usize] as usize]
}

/// Returns the inverse of an element.
///
/// # Panics
/// If the element is 0.
pub const fn inverse(value: u8) -> u8 {
    assert!(value != 0, "0 has no inverse");
    POWERS[255 - LOGARITHMS[value as usize] as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Multiplies polynomials by hand, independently of the tables.
    fn slowly(left: u8, right: u8) -> u8 {
        let product = (0..8)
            .filter(|bit| right >> bit & 1 == 1)
            .fold(0u16, |sum, bit| sum ^ u16::from(left) << bit);
        (8..16).rev().fold(product, |rest, bit| {
            if rest >> bit & 1 == 1 {
                rest ^ 0x11d << (bit - 8)
            } else {
                rest
            }
        }) as u8
    }

    #[test]
    fn products_and_inverses_are_those_of_the_field() {
        for left in 0..=255u8 {
            for right in 0..=255u8 {
                assert_eq!(
                    multiply(left, right),
                    slowly(left, right),
                    "{left} × {right}"
                );
            }
            assert_eq!(double(left), slowly(left, 2));
            assert!(left == 0 || slowly(left, inverse(left)) == 1);
        }
    }

    #[test]
    fn coefficients_of_255_columns_differ() {
        let mut seen: Vec<u8> = (0..255).map(coefficient).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 255);
    }
}
