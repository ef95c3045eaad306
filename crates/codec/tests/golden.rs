//! Compatibility with the bytes that released versions wrote.
//!
//! `golden/codec/v1/` holds one encoding per file. Files are added and never edited. Each must decode
//! to the values made here. Where only codecs of this crate are used, today's encoding must also have
//! the same bytes; later releases of zstd and pco may find shorter ones. `SEINER_BLESS=1` writes
//! missing files.

use std::path::PathBuf;

use seiner_codec::{
    Effort, decode_bitmap, decode_column, decode_times, encode_bitmap, encode_column, encode_times,
};
use seiner_model::{Bitmap, Column, Strings};

/// Returns the contents of the named file; writes the file first if blessing is on.
fn golden(name: &str, encoded: &[u8]) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../golden/codec/v1")
        .join(name);
    if !path.exists() && std::env::var_os("SEINER_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is writable");
        std::fs::write(&path, encoded).expect("the file is writable");
    }
    std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{name}: {error}; SEINER_BLESS=1 writes missing files"))
}

fn column(name: &str, values: Column, effort: Effort, same_bytes: bool) {
    let mut encoded = Vec::new();
    encode_column(&values, effort, &mut encoded);
    let kept = golden(name, &encoded);
    let mut rest = kept.as_slice();
    let decoded = decode_column(&mut rest, values.field_type(), values.len());
    assert_eq!(decoded.as_ref(), Ok(&values), "{name}");
    assert!(rest.is_empty(), "{name}: {} bytes left over", rest.len());
    assert!(
        !same_bytes || kept == encoded,
        "{name}: the encoder writes other bytes"
    );
}

fn times(name: &str, values: &[i64]) {
    let mut encoded = Vec::new();
    encode_times(values, &mut encoded);
    let kept = golden(name, &encoded);
    let mut decoded = Vec::new();
    assert_eq!(
        decode_times(&mut kept.as_slice(), values.len(), &mut decoded),
        Ok(()),
        "{name}"
    );
    assert_eq!(decoded, values, "{name}");
    assert_eq!(kept, encoded, "{name}: the encoder writes other bytes");
}

fn bitmap(name: &str, bits: impl Iterator<Item = bool>) {
    let bits: Bitmap = bits.collect();
    let mut encoded = Vec::new();
    encode_bitmap(&bits, &mut encoded);
    let kept = golden(name, &encoded);
    assert_eq!(
        decode_bitmap(&mut kept.as_slice(), bits.len()),
        Ok(bits),
        "{name}"
    );
    assert_eq!(kept, encoded, "{name}: the encoder writes other bytes");
}

/// Returns numbers that look random and are the same on every machine.
fn numbers(length: usize) -> impl Iterator<Item = u64> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    (0..length).map(move |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    })
}

/// Returns a walk with steps of at most `step`.
fn walk(length: usize, step: i64) -> Vec<i64> {
    numbers(length)
        .scan(21_000, |sum, number| {
            *sum += (number >> 33) as i64 % (2 * step + 1) - step;
            Some(*sum)
        })
        .collect()
}

fn decimals(mantissas: &[i64], power: f64) -> Vec<f64> {
    mantissas
        .iter()
        .map(|&mantissa| mantissa as f64 / power)
        .collect()
}

#[test]
fn times_of_version_1() {
    let start = 1_700_000_000_000_000_000;
    times("times-none", &[]);
    times("times-one", &[start]);
    times(
        "times-regular",
        &(0..500)
            .map(|index| start + index * 10_000_000_000)
            .collect::<Vec<_>>(),
    );
    let jitter = numbers(500).map(|number| (number >> 60) as i64 * 1_000_000);
    let jittered: Vec<i64> = (0..)
        .zip(jitter)
        .map(|(index, late)| start + index * 1_000_000_000 + late)
        .collect();
    times("times-jittered", &jittered);
    times("times-extremes", &[i64::MIN, i64::MAX, 0, -1, i64::MIN]);
}

#[test]
fn floats_of_version_1() {
    let gauge = decimals(&walk(2_000, 25), 100.0);
    column("f64-tokens", Column::F64(gauge.clone()), Effort::Fast, true);
    column("f64-best", Column::F64(gauge.clone()), Effort::Best, false);
    column(
        "f64-packed",
        Column::F64(gauge[..10].to_vec()),
        Effort::Fast,
        true,
    );
    column(
        "f64-wide-tokens",
        Column::F64(decimals(&walk(1_500, 9_000), 1e3)),
        Effort::Fast,
        true,
    );
    column(
        "f64-constant",
        Column::F64(vec![-273.15; 300]),
        Effort::Fast,
        true,
    );
    let mut strays = gauge[..200].to_vec();
    for (place, value) in [
        (0, -0.0),
        (7, f64::NAN),
        (8, f64::NAN),
        (199, f64::from_bits(0xfff0_0000_0000_0001)),
    ] {
        strays[place] = value;
    }
    column("f64-strays", Column::F64(strays), Effort::Fast, true);
    let few: Vec<f64> = numbers(600)
        .map(|number| [1.0 / 3.0, 2.0 / 7.0, f64::INFINITY][(number >> 40) as usize % 3])
        .collect();
    column("f64-dictionary", Column::F64(few), Effort::Fast, true);
    let narrow = walk(300, 90)
        .iter()
        .map(|&mantissa| f64::from(mantissa as f32 / 10.0))
        .collect();
    column("f64-narrow", Column::F64(narrow), Effort::Fast, true);
    let bits: Vec<f64> = numbers(12).map(f64::from_bits).collect();
    column("f64-raw", Column::F64(bits), Effort::Fast, true);
    let roots = (0..400).map(|index| f64::from(index).sqrt()).collect();
    column("f64-pco", Column::F64(roots), Effort::Fast, false);
    let short = walk(700, 12)
        .iter()
        .map(|&mantissa| mantissa as f32 / 100.0)
        .collect();
    column("f32-decimals", Column::F32(short), Effort::Fast, true);
}

#[test]
fn integers_of_version_1() {
    column("i64-walk", Column::I64(walk(900, 3)), Effort::Fast, true);
    let ramp = walk(400, 5)
        .iter()
        .scan(0, |sum, step| {
            *sum += step * 250;
            Some(*sum)
        })
        .collect();
    column("i64-order-2", Column::I64(ramp), Effort::Fast, true);
    column(
        "u64-extremes",
        Column::U64(vec![0, u64::MAX, 1 << 63, 1, u64::MAX]),
        Effort::Fast,
        true,
    );
    let codes = numbers(300)
        .map(|number| [1 << 50, -7, 123_456_789_012][(number >> 41) as usize % 3])
        .collect();
    column("i64-dictionary", Column::I64(codes), Effort::Fast, true);
    let periodic = (0..2_000)
        .map(|index| index * index % 97 * 1_000_003 % 10_007)
        .collect();
    column("i64-repeats", Column::I64(periodic), Effort::Best, false);
}

#[test]
fn bits_and_texts_of_version_1() {
    column(
        "bool-runs",
        Column::Bool((0..900).map(|index| index / 100 % 2 == 1).collect()),
        Effort::Fast,
        true,
    );
    bitmap("bitmap-zeros", (0..70).map(|_| false));
    bitmap("bitmap-ones", (0..70).map(|_| true));
    bitmap("bitmap-raw", numbers(77).map(|number| number >> 63 == 1));
    bitmap(
        "bitmap-runs",
        (0..800).map(|index| !(3..=500).contains(&index)),
    );
    let mut states = Strings::default();
    numbers(200)
        .for_each(|number| states.push(["on", "off", "", "störung"][(number >> 62) as usize]));
    column("string-dictionary", Column::Str(states), Effort::Fast, true);
    let mut events = Strings::default();
    numbers(60).for_each(|number| events.push(&format!("door {} opened", number >> 44)));
    column(
        "string-compressed",
        Column::Str(events),
        Effort::Fast,
        false,
    );
    let mut short = Strings::default();
    ["a", "é", ""].iter().for_each(|text| short.push(text));
    column("string-plain", Column::Str(short), Effort::Fast, true);
}
