//! Syndromes of a row, and decoding of lost blocks.

use crate::block::Block;
use crate::galois::{coefficient, inverse};
use crate::geometry::{Geometry, Level};

/// Returns the syndromes of a row of data, in the order of their columns.
pub fn encode<B: Block>(geometry: &Geometry, data: &[&B]) -> Vec<B> {
    debug_assert_eq!(data.len(), geometry.data_columns());
    match geometry.level() {
        Level::Raid0 => Vec::new(),
        Level::Raid1 => vec![data[0].clone(); geometry.syndromes()],
        Level::Raid5 => vec![sum(data.iter().copied())],
        Level::Raid6 => {
            let (p, q) = B::syndromes(data);
            vec![p, q]
        }
    }
}

/// Updates a syndrome after the data of a column changed by `change`, the sum of old and new.
pub fn update<B: Block>(syndrome: usize, column: usize, value: &mut B, change: &B) {
    match syndrome {
        0 => value.add(change),
        _ => value.add_scaled(coefficient(column), change),
    }
}

/// Computes the lost blocks of a row from the others: data columns first, then syndromes. Returns false and
/// leaves the row unchanged if too much is lost.
pub fn decode<B: Block>(geometry: &Geometry, row: &mut [Option<B>]) -> bool {
    let columns = geometry.data_columns();
    let lost: Vec<usize> = (0..columns)
        .filter(|&column| row[column].is_none())
        .collect();
    match (geometry.level(), lost.as_slice()) {
        (_, []) => true,
        (Level::Raid1, _) => match row.iter().flatten().next().cloned() {
            Some(copy) => {
                row[0] = Some(copy);
                true
            }
            None => false,
        },
        (Level::Raid5 | Level::Raid6, &[one]) if row[columns].is_some() => {
            row[one] = Some(sum(row[..=columns].iter().flatten()));
            true
        }
        (Level::Raid6, &[one]) if row[columns + 1].is_some() => {
            let rest = weighted_rest(row, columns);
            row[one] = Some(rest.scaled(inverse(coefficient(one))));
            true
        }
        (Level::Raid6, &[one, other]) if row[columns].is_some() && row[columns + 1].is_some() => {
            decode_two(row, columns, one, other);
            true
        }
        _ => false,
    }
}

/// Decodes two data columns from both syndromes: with `s = D₁ + D₂` and `w = g₁·D₁ + g₂·D₂`,
/// `D₁ = (g₂·s + w) / (g₁ + g₂)`.
fn decode_two<B: Block>(row: &mut [Option<B>], columns: usize, one: usize, other: usize) {
    let both = sum(row[..=columns].iter().flatten());
    let mut numerator = weighted_rest(row, columns);
    numerator.add_scaled(coefficient(other), &both);
    let first = numerator.scaled(inverse(coefficient(one) ^ coefficient(other)));
    let mut second = both;
    second.add(&first);
    row[one] = Some(first);
    row[other] = Some(second);
}

/// Fault of a row whose blocks could all be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This column alone does not match the others.
    Column(usize),
    /// The row does not match, and the wrong column cannot be identified.
    Unknown,
}

/// Compares a row with its syndromes. With two syndromes, a single wrong column can be identified: if P differs
/// by `p` and Q by `q`, it is data column z with `q = 2^z · p`, or P itself if `q = 0`, or Q if `p = 0`.
pub fn verify<B: Block>(geometry: &Geometry, row: &[B]) -> Option<Fault> {
    let columns = geometry.data_columns();
    let data: Vec<&B> = row[..columns].iter().collect();
    let mut off = encode(geometry, &data);
    off.iter_mut()
        .zip(&row[columns..])
        .for_each(|(off, syndrome)| off.add(syndrome));
    let fits = |off: &B| off.same(&B::zero());
    match (geometry.level(), off.as_slice()) {
        (_, off) if off.iter().all(fits) => None,
        (Level::Raid6, [p, _]) if fits(p) => Some(Fault::Column(columns + 1)),
        (Level::Raid6, [_, q]) if fits(q) => Some(Fault::Column(columns)),
        (Level::Raid6, [p, q]) => {
            let wrong = (0..columns).find(|&column| p.scaled(coefficient(column)).same(q));
            Some(wrong.map_or(Fault::Unknown, Fault::Column))
        }
        _ => Some(Fault::Unknown),
    }
}

/// Returns the second syndrome minus the data that are present: the weighted sum of the missing data.
fn weighted_rest<B: Block>(row: &[Option<B>], columns: usize) -> B {
    let mut rest = row[columns + 1]
        .clone()
        .expect("the caller saw the second syndrome");
    for (column, block) in row[..columns].iter().enumerate() {
        if let Some(block) = block {
            rest.add_scaled(coefficient(column), block);
        }
    }
    rest
}

fn sum<'a, B: Block + 'a>(blocks: impl Iterator<Item = &'a B>) -> B {
    let mut sum = B::zero();
    blocks.for_each(|block| sum.add(block));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Page;
    use seiner_platform::sim::Rng;

    fn row(geometry: &Geometry, rng: &mut Rng) -> Vec<Page> {
        let mut data: Vec<Page> = (0..geometry.data_columns()).map(|_| Page::zero()).collect();
        for page in &mut data {
            page.bytes_mut()
                .iter_mut()
                .for_each(|byte| *byte = rng.next_u64() as u8);
        }
        let syndromes = encode(geometry, &data.iter().collect::<Vec<_>>());
        data.extend(syndromes);
        data
    }

    #[test]
    fn losses_up_to_the_syndromes_are_decoded_and_more_are_detected() {
        let mut rng = Rng::new(3);
        for (level, members) in [
            (Level::Raid0, 3),
            (Level::Raid1, 3),
            (Level::Raid5, 5),
            (Level::Raid6, 4),
            (Level::Raid6, 7),
        ] {
            let geometry = Geometry::new(level, members, 4096, 1 << 20).unwrap();
            let whole = row(&geometry, &mut rng);
            for lost in 0u32..1 << members {
                let mut left: Vec<Option<Page>> = whole.iter().cloned().map(Some).collect();
                (0..members)
                    .filter(|column| lost >> column & 1 == 1)
                    .for_each(|column| left[column] = None);
                let all_data = (0..geometry.data_columns()).all(|column| left[column].is_some());
                let possible = all_data || lost.count_ones() as usize <= geometry.syndromes();
                assert_eq!(
                    decode(&geometry, &mut left),
                    possible,
                    "{level:?} without {lost:b}"
                );
                for column in (0..geometry.data_columns()).filter(|_| possible) {
                    assert!(
                        left[column].as_ref().unwrap().same(&whole[column]),
                        "{level:?} without {lost:b}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_update_equals_a_new_encoding() {
        let mut rng = Rng::new(4);
        for (level, members) in [(Level::Raid5, 5), (Level::Raid6, 9)] {
            let geometry = Geometry::new(level, members, 4096, 1 << 20).unwrap();
            let columns = geometry.data_columns();
            let (mut old, fresh) = (row(&geometry, &mut rng), row(&geometry, &mut rng));
            for column in 0..columns {
                let mut change = old[column].clone();
                change.add(&fresh[column]);
                for syndrome in 0..geometry.syndromes() {
                    update(syndrome, column, &mut old[columns + syndrome], &change);
                }
                old[column] = fresh[column].clone();
                let anew = encode(&geometry, &old[..columns].iter().collect::<Vec<_>>());
                assert!(
                    anew.iter()
                        .zip(&old[columns..])
                        .all(|(anew, updated)| anew.same(updated))
                );
            }
        }
    }
}
