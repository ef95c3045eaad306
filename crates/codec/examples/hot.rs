//! x
use seiner_codec::*;
use seiner_model::*;
use std::time::Instant;
fn main() {
    let mut s = 0x2545_F491_4F6C_DD1Du64;
    let mut u = move || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        (s >> 11) as f64 / (1u64 << 53) as f64
    };
    let dec = std::env::args().nth(1).unwrap() == "d";
    let n: usize = std::env::args().nth(2).unwrap().parse().unwrap();
    let mut m = 21000i64;
    let blocks: Vec<Column> = (0..65536 / n)
        .map(|_| {
            Column::F64(
                (0..n)
                    .map(|_| {
                        let x: f64 = (0..12).map(|_| u()).sum::<f64>() - 6.0;
                        m += (x * 25.0).round() as i64;
                        m as f64 / 100.0
                    })
                    .collect(),
            )
        })
        .collect();
    let mut b = Vec::new();
    let mut best = 1e9f64;
    for b0 in &blocks {
        encode_column(b0, Effort::Fast, &mut b);
    }
    for _ in 0..300 {
        let t = Instant::now();
        if dec {
            let mut r = &b[..];
            for c in &blocks {
                std::hint::black_box(decode_column(&mut r, FieldType::F64, c.len()).unwrap());
            }
        } else {
            b.clear();
            for c in &blocks {
                encode_column(c, Effort::Fast, &mut b);
            }
        }
        best = best.min(t.elapsed().as_secs_f64());
    }
    println!(
        "{} {:.2} ns/value {:.1} M/s",
        if dec { "dec" } else { "enc" },
        best * 1e9 / 65536.0,
        65536.0 / best / 1e6
    );
}
