//! Encoded values return bit for bit. Hostile bytes decode to an error or to other values and never
//! cause a panic.

use proptest::prelude::*;
use seiner_codec::{
    DecodeError, Effort, MAX_COUNT, decode_bitmap, decode_column, decode_times, encode_bitmap,
    encode_column, encode_decimals, encode_times,
};
use seiner_model::{Bitmap, Column, FieldType, Strings};

const AFTER: &[u8] = b"what follows";

fn round_trips(column: &Column) {
    for effort in [Effort::Fast, Effort::Best] {
        let mut bytes = b"before".to_vec();
        encode_column(column, effort, &mut bytes);
        bytes.extend_from_slice(AFTER);
        let mut rest = &bytes[6..];
        let decoded = decode_column(&mut rest, column.field_type(), column.len());
        assert_eq!(decoded.as_ref(), Ok(column), "{effort:?}");
        assert_eq!(rest, AFTER, "{effort:?}: bytes left over");
    }
}

fn times_round_trip(times: &[i64]) {
    let mut bytes = Vec::new();
    encode_times(times, &mut bytes);
    bytes.extend_from_slice(AFTER);
    let (mut rest, mut decoded) = (bytes.as_slice(), vec![7]);
    assert_eq!(decode_times(&mut rest, times.len(), &mut decoded), Ok(()));
    assert_eq!(decoded[0], 7);
    assert_eq!(&decoded[1..], times);
    assert_eq!(rest, AFTER);
}

/// Lengths near the thresholds at which codecs change.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![
        0usize..4,
        9usize..12,
        47usize..50,
        126usize..131,
        255usize..260,
        500usize..530,
        1020usize..1030
    ]
}

fn special() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<u64>().prop_map(f64::from_bits),
        prop::sample::select(vec![
            0.0,
            -0.0,
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MIN_POSITIVE,
            5e-324,
            f64::MAX,
            9_007_199_254_740_993.0,
            2_251_799_813_685_248.0,
            -2_251_799_813_685_248.5,
            0.1 + 0.2,
            1e22,
            1e-7,
        ]),
    ]
}

/// Walks of mantissas with some special values between.
fn walk(step: i64, scale: u32, others: f64) -> impl Strategy<Value = Vec<f64>> {
    length().prop_flat_map(move |length| {
        prop::collection::vec(
            (-step..=step, prop::bool::weighted(others), special()),
            length,
        )
        .prop_map(move |items| {
            let mut mantissa = 2_000i64;
            items
                .into_iter()
                .map(|(change, other, value)| {
                    mantissa += change;
                    if other {
                        value
                    } else {
                        mantissa as f64 / 10f64.powi(scale as i32)
                    }
                })
                .collect()
        })
    })
}

fn doubles() -> impl Strategy<Value = Vec<f64>> {
    prop_oneof![
        prop::collection::vec(special(), 0..300),
        prop::collection::vec(any::<f64>(), 0..700),
        walk(3, 1, 0.0),
        walk(300, 2, 0.02),
        walk(100_000, 5, 0.1),
        walk(1 << 40, 3, 0.0),
        (special(), length()).prop_map(|(value, length)| vec![value; length]),
        (
            prop::collection::vec(special(), 1..9),
            prop::collection::vec(any::<prop::sample::Index>(), 0..600)
        )
            .prop_map(|(few, picks)| picks.iter().map(|pick| *pick.get(&few)).collect()),
        prop::collection::vec(any::<f32>().prop_map(f64::from), 0..300),
        (0u32..8, length()).prop_map(|(scale, length)| {
            (0..length)
                .map(|index| f64::from((index * index) as f32 / 10f32.powi(scale as i32)))
                .collect()
        }),
    ]
}

fn integers() -> impl Strategy<Value = Vec<i64>> {
    prop_oneof![
        prop::collection::vec(any::<i64>(), 0..300),
        prop::collection::vec(
            prop::sample::select(vec![
                i64::MIN,
                i64::MIN + 1,
                -1,
                0,
                1,
                i64::MAX - 1,
                i64::MAX
            ]),
            0..300
        ),
        (any::<i64>(), any::<i64>(), length()).prop_map(|(first, step, length)| {
            (0..length as i64)
                .map(|index| first.wrapping_add(step.wrapping_mul(index)))
                .collect()
        }),
        (1i64..1 << 40, 0u32..62, length()).prop_flat_map(|(divisor, width, length)| {
            prop::collection::vec(any::<u64>(), length).prop_map(move |values| {
                values
                    .iter()
                    .map(|value| ((value & ((1 << width) - 1)) as i64).wrapping_mul(divisor))
                    .collect()
            })
        }),
        (
            prop::collection::vec(any::<i64>(), 1..20),
            prop::collection::vec(any::<prop::sample::Index>(), 0..600)
        )
            .prop_map(|(few, picks)| picks.iter().map(|pick| *pick.get(&few)).collect()),
    ]
}

fn clocks() -> impl Strategy<Value = Vec<i64>> {
    let unit = prop::sample::select(vec![1i64, 1_000, 1_000_000, 1_000_000_000]);
    (any::<i64>(), unit, 0i64..1_000, 0i64..50, length()).prop_flat_map(
        |(first, unit, step, jitter, length)| {
            prop::collection::vec(-jitter..=jitter, length).prop_map(move |jitters| {
                let mut time = first / 4;
                jitters
                    .iter()
                    .map(|jitter| {
                        time += step * unit;
                        time + jitter * unit
                    })
                    .collect()
            })
        },
    )
}

/// Small and large mantissas of all lengths. About half of the mantissas end in zeros.
fn mantissas() -> impl Strategy<Value = Vec<i64>> {
    let one = prop_oneof![
        8 => -5_000i64..5_000,
        2 => (-50i64..50).prop_map(|tens| tens * 10),
        1 => (0u32..53).prop_flat_map(|bits| -(1i64 << bits)..1 << bits),
    ];
    let tens = (-500i64..500).prop_map(|tens| tens * 100);
    (length(), 0i64..1 << 40, any::<bool>()).prop_flat_map(move |(length, base, round)| {
        if round {
            prop::collection::vec(tens.clone().boxed(), length)
        } else {
            let near = (-900i64..900).prop_map(move |step| base + step);
            prop::collection::vec(
                prop_oneof![near.boxed(), one.clone().boxed()].boxed(),
                length,
            )
        }
    })
}

proptest! {
    #[test]
    fn mantissas_are_encoded_like_their_values(mantissas in mantissas(), scale in 0u8..=22) {
        let power: f64 = format!("1e{scale}").parse().unwrap();
        let values = mantissas.iter().map(|&mantissa| mantissa as f64 / power).collect();
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        encode_decimals(&mantissas, scale, &mut bytes);
        encode_column(&Column::F64(values), Effort::Fast, &mut expected);
        prop_assert_eq!(bytes, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(192) })]

    #[test]
    fn doubles_round_trip(values in doubles()) {
        round_trips(&Column::F64(values));
    }

    #[test]
    fn f32s_round_trip(values in doubles(), bits in prop::collection::vec(any::<u32>(), 0..50)) {
        round_trips(&Column::F32(values.iter().map(|&value| value as f32).collect()));
        round_trips(&Column::F32(bits.into_iter().map(f32::from_bits).collect()));
    }

    #[test]
    fn integers_round_trip(values in integers()) {
        round_trips(&Column::I64(values.clone()));
        round_trips(&Column::U64(values.iter().map(|&value| value as u64).collect()));
        times_round_trip(&values);
    }

    #[test]
    fn clocks_round_trip(times in clocks()) {
        times_round_trip(&times);
        let mut ascending = times;
        ascending.sort_unstable();
        times_round_trip(&ascending);
    }

    #[test]
    fn bits_round_trip(bits in prop_oneof![
        prop::collection::vec(any::<bool>(), 0..700),
        prop::collection::vec(prop::bool::weighted(0.01), 0..2000),
        (any::<bool>(), 0usize..300).prop_map(|(bit, length)| vec![bit; length]),
    ]) {
        round_trips(&Column::Bool(bits.clone()));
        let bitmap: Bitmap = bits.into_iter().collect();
        let mut bytes = Vec::new();
        encode_bitmap(&bitmap, &mut bytes);
        prop_assert!(bytes.len() <= bitmap.len().div_ceil(8) + 1);
        bytes.extend_from_slice(AFTER);
        let mut rest = bytes.as_slice();
        prop_assert_eq!(decode_bitmap(&mut rest, bitmap.len()), Ok(bitmap));
        prop_assert_eq!(rest, AFTER);
    }

    #[test]
    fn texts_round_trip(texts in prop_oneof![
        prop::collection::vec(".{0,20}", 0..100),
        prop::collection::vec(prop::sample::select(vec!["", "on", "off", "störung", "🌊"]).prop_map(String::from), 0..500),
        (".*", 0usize..200).prop_map(|(text, length)| vec![text; length]),
    ]) {
        let mut strings = Strings::default();
        texts.iter().for_each(|text| strings.push(text));
        round_trips(&Column::Str(strings));
    }

    /// Damages encoded columns, because random bytes alone rarely reach the inner decoders.
    #[test]
    fn damaged_columns_do_not_panic(
        values in doubles(),
        whole in integers(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        count in 0usize..600,
    ) {
        let short = values.iter().map(|&value| value as f32).collect();
        let bits = whole.iter().map(|value| value & 64 == 0).collect();
        let mut strings = Strings::default();
        whole.iter().for_each(|value| strings.push(&(value % 7).to_string()));
        let columns = [
            Column::F64(values), Column::F32(short), Column::I64(whole), Column::Bool(bits), Column::Str(strings),
        ];
        for column in columns {
            for effort in [Effort::Fast, Effort::Best] {
                let mut bytes = Vec::new();
                encode_column(&column, effort, &mut bytes);
                for (place, byte) in &damage {
                    *place.get_mut(&mut bytes) = *byte;
                }
                for count in [column.len(), count] {
                    let _ = decode_column(&mut bytes.as_slice(), column.field_type(), count);
                    let _ = decode_column(&mut &bytes[..cut.index(bytes.len())], column.field_type(), count);
                }
            }
        }
    }

    #[test]
    fn random_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), count in 0usize..2000) {
        for field_type in FieldType::ALL {
            let _ = decode_column(&mut bytes.as_slice(), field_type, count);
        }
        let _ = decode_bitmap(&mut bytes.as_slice(), count);
        let _ = decode_times(&mut bytes.as_slice(), count, &mut Vec::new());
    }
}

#[test]
fn truncation_is_always_an_error() {
    let values: Vec<f64> = (0..300)
        .map(|index| f64::from(index * index % 97) / 10.0)
        .collect();
    let mut bytes = Vec::new();
    encode_column(&Column::F64(values), Effort::Fast, &mut bytes);
    for length in 0..bytes.len() {
        let error = decode_column(&mut &bytes[..length], FieldType::F64, 300);
        assert!(
            error.is_err(),
            "{length} of {} bytes were decoded without an error",
            bytes.len()
        );
    }
}

#[test]
fn errors_state_the_offset() {
    let error = decode_column(&mut &[9u8][..], FieldType::I64, 3).expect_err("no such tag");
    assert_eq!(
        error,
        DecodeError::UnknownCodec {
            what: "integers",
            offset: 0,
            found: 9
        }
    );
    let error = decode_column(&mut &[0u8, 1][..], FieldType::I64, 3).expect_err("no first value");
    assert!(
        matches!(error, DecodeError::Truncated { offset: 2, .. }),
        "{error}"
    );
    let error = decode_bitmap(&mut &[0u8][..], MAX_COUNT + 1).expect_err("too many");
    assert_eq!(
        error,
        DecodeError::TooMany {
            count: MAX_COUNT + 1
        }
    );
}

#[test]
fn regular_clocks_cost_a_few_bytes() {
    for (first, step, most) in [
        (1_700_000_000_000_000_000, 10_000_000_000, 8),
        (1_700_000_000_123_000_000, 1_000_000_000, 12),
    ] {
        let times: Vec<i64> = (0..2_000).map(|index| first + index * step).collect();
        let mut bytes = Vec::new();
        encode_times(&times, &mut bytes);
        assert!(
            bytes.len() <= most,
            "{} bytes for a step of {step}",
            bytes.len()
        );
    }
}
