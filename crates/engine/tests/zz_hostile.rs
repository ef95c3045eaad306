#![allow(warnings)]
mod tiny;
use seiner_model::*;
use seiner_platform::sim::SimDisk;
use tiny::*;
fn crc(bytes: &[u8]) -> u32 {
    let step = |sum: u32, bit: u32| if (sum ^ bit) & 1 == 1 { sum >> 1 ^ 0x82F6_3B78 } else { sum >> 1 };
    !bytes.iter().fold(u32::MAX, |sum, &byte| (0..8).fold(sum, |sum, bit| step(sum, u32::from(byte >> bit))))
}
fn story_of() -> Story { vec![vec![vec![
    Row("s".into(), 5, vec![("t", Value::Str("abc"))]),
    Row("s".into(), 6, vec![("t", Value::Str("defg"))]),
]]] }
#[test]
fn hostile() {
    let disk = SimDisk::new(1);
    write(&story_of(), &disk).unwrap();
    let fs = files(&disk);
    let name = fs.keys().find(|n| n.starts_with("journal")).unwrap().clone();
    let j = fs[&name].clone();
    let len = u32::from_le_bytes(j[40..44].try_into().unwrap()) as usize;
    println!("{:?}", &j[36..36+20+len]);
    let mut panics = 0; let mut tried = 0;
    std::panic::set_hook(Box::new(|i| { eprintln!("PANIC {i}"); }));
    for at in 56..56+len { for v in 0..=255u8 {
        let mut b = j.clone(); b[at] = v;
        let c = crc(&b[40..56+len]); b[36..40].copy_from_slice(&c.to_le_bytes());
        let mut f = fs.clone(); f.insert(name.clone(), b);
        tried += 1;
        let r = std::panic::catch_unwind(|| { 
            let d = disk_with(&f);
            let _ = seiner_engine::check(&d, &mut |_, _| {});
            true });
        if r.is_err() { println!("CHECK PANIC at {at} value {v}"); }
        let r = std::panic::catch_unwind(|| { 
            let d = disk_with(&f);
            if let Ok(e) = tiny::open(&d) { Samples::read(&e); let _ = e.settle(); } });
        if r.is_err() { panics += 1; println!("panic at {at} value {v}"); }
    }}
    println!("{panics} of {tried}");
}
