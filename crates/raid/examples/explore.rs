mod raid { 
#[path="../../../../bench/src/raid/cell.rs"] pub mod cell;
#[path="../../../../bench/src/raid/tuning.rs"] pub mod tuning;
}
use seiner_raid::Merging;
fn main(){
    let filter = std::env::args().nth(1).unwrap_or_default();
    let cells: Vec<_> = raid::tuning::cells().into_iter().filter(|c| format!("{} {}", c.group, c.name()).contains(&filter)).collect();
    let mut worst = vec![]; let mut log=0.0; 
    let t=std::time::Instant::now();
    let next=std::sync::atomic::AtomicUsize::new(0);
    let results=std::sync::Mutex::new(vec![None;cells.len()]);
    std::thread::scope(|s|{for _ in 0..2{s.spawn(||loop{let i=next.fetch_add(1,std::sync::atomic::Ordering::Relaxed);if i>=cells.len(){break;}
        let r:Vec<_>=Merging::ALL.iter().map(|&m|cells[i].measure(m)).collect(); results.lock().unwrap()[i]=Some(r);});}});
    for (cell,m) in cells.iter().zip(results.into_inner().unwrap()) {
        let m=m.unwrap(); if std::env::var("C").is_ok() {for x in &m { eprintln!("{:?}", x.counters); }}
        let r:Vec<f64>=m.iter().map(|m|m.rate()/1e6).collect();
        let best=r[0].max(r[1]).max(r[2]);
        let ratio=r[4]/best; log+=ratio.ln(); worst.push(ratio);
        println!("{:36} {:8} never {:7.1} batch {:7.1} always {:7.1} paper {:7.1} ours {:7.1} | {:.3} {} p99 {} {} {} {} {}", cell.group, cell.name(), r[0],r[1],r[2],r[3],r[4], ratio, if ratio<0.97 {"<<<"} else {""}, m[0].p99/1000,m[1].p99/1000,m[2].p99/1000,m[3].p99/1000,m[4].p99/1000);
    }
    let min=worst.iter().cloned().fold(9.0,f64::min);
    println!("cells {} min {:.3} gmean {:.3} below {} time {:?}", worst.len(), min, (log/worst.len() as f64).exp(), worst.iter().filter(|&&r|r<0.97).count(), t.elapsed());
}
