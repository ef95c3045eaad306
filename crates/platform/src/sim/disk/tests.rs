use super::*;
use crate::sim::Chance;
use std::collections::BTreeSet;

fn bytes(disk: &SimDisk, name: &str) -> Vec<u8> {
    let file = disk.open(name).unwrap();
    let mut buffer = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut buffer).unwrap();
    buffer
}

/// Returns the states that the closure sees after a crash, over many seeds.
fn outcomes<T: Ord>(prepare: impl Fn(&SimDisk), see: impl Fn(&SimDisk) -> T) -> BTreeSet<T> {
    (0..300)
        .map(|seed| {
            let disk = SimDisk::new(seed);
            prepare(&disk);
            see(&disk.crash())
        })
        .collect()
}

#[test]
fn files_behave_as_those_of_a_directory() {
    let disk = SimDisk::new(1);
    let file = disk.create("a").unwrap();
    file.reserve(1 << 16).unwrap();
    file.write_at(4096, b"hello").unwrap();
    assert_eq!(file.len().unwrap(), 4101);
    let mut buffer = [0; 5];
    file.read_at(4096, &mut buffer).unwrap();
    assert_eq!(&buffer, b"hello");
    assert_eq!(
        file.read_at(4097, &mut buffer).unwrap_err().kind(),
        io::ErrorKind::UnexpectedEof
    );
    disk.rename("a", "b").unwrap();
    assert_eq!(disk.list().unwrap(), ["b"]);
    disk.remove("b").unwrap();
    assert!(disk.list().unwrap().is_empty());
    file.read_at(4096, &mut buffer).unwrap();
    assert_eq!(
        disk.open("b").err().unwrap().kind(),
        io::ErrorKind::NotFound
    );
    assert_eq!(
        disk.remove("b").unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    file.set_len(2).unwrap();
    file.set_len(4).unwrap();
    assert_eq!(file.len().unwrap(), 4);
}

#[test]
fn synced_bytes_survive_every_crash() {
    let seen = outcomes(
        |disk| {
            let file = disk.create("a").unwrap();
            file.write_at(0, &[7; 5000]).unwrap();
            file.sync().unwrap();
            disk.sync_names().unwrap();
            file.write_at(5000, &[8; 5000]).unwrap();
        },
        |disk| bytes(disk, "a"),
    );
    assert!(seen.iter().all(|bytes| bytes[..5000] == [7; 5000]));
    assert!(
        seen.iter()
            .all(|bytes| bytes[5000..].iter().all(|&byte| byte == 8 || byte == 0))
    );
}

#[test]
fn an_unsynced_write_is_kept_lost_torn_or_only_a_length() {
    let seen = outcomes(
        |disk| {
            let file = disk.create("a").unwrap();
            file.sync().unwrap();
            disk.sync_names().unwrap();
            file.write_at(0, &[1; 4096 * 4]).unwrap();
        },
        |disk| {
            let bytes = bytes(disk, "a");
            (
                bytes.len(),
                bytes
                    .chunks(512)
                    .map(|sector| sector.iter().map(|&b| u32::from(b)).sum())
                    .collect::<Vec<u32>>(),
            )
        },
    );
    assert!(seen.contains(&(0, vec![])), "the write was lost");
    assert!(seen.contains(&(16384, vec![512; 32])), "the write was kept");
    assert!(
        seen.contains(&(16384, vec![0; 32])),
        "only the length was kept"
    );
    assert!(
        seen.iter()
            .any(|(_, sums)| sums.contains(&0) && sums.contains(&512)),
        "the write was torn"
    );
    assert!(
        seen.iter()
            .flat_map(|(_, sums)| sums)
            .all(|&sum| sum == 0 || sum == 512),
        "sectors are whole"
    );
}

#[test]
fn a_name_needs_its_own_sync() {
    let prepare = |disk: &SimDisk| {
        let old = disk.create("old").unwrap();
        old.write_at(0, b"1").unwrap();
        old.sync().unwrap();
        disk.create("gone").unwrap();
        disk.sync_names().unwrap();
        disk.rename("old", "new").unwrap();
        disk.remove("gone").unwrap();
        disk.create("made").unwrap().sync().unwrap();
    };
    let seen = outcomes(prepare, |disk| disk.files());
    let has = |name: &str| {
        seen.iter()
            .filter(|files| files.iter().any(|(file, _)| file == name))
            .count()
    };
    assert!(seen.iter().all(|files| {
        files
            .iter()
            .filter(|(name, _)| name == "old" || name == "new")
            .count()
            == 1
    }));
    assert_eq!(seen.len(), 8, "each of three changes on its own");
    assert_eq!([has("old"), has("gone"), has("made")], [4; 3]);
    let seen = outcomes(
        |disk| {
            prepare(disk);
            disk.sync_names().unwrap();
        },
        |disk| disk.files(),
    );
    assert_eq!(
        seen,
        BTreeSet::from([vec![("made".to_string(), 0), ("new".to_string(), 1)]])
    );
}

#[test]
fn an_unsynced_recreation_of_a_file_is_kept_or_lost() {
    let seen = outcomes(
        |disk| {
            let file = disk.create("a").unwrap();
            file.write_at(0, b"first").unwrap();
            file.sync().unwrap();
            disk.sync_names().unwrap();
            disk.create("a").unwrap();
        },
        |disk| bytes(disk, "a"),
    );
    assert_eq!(seen, BTreeSet::from([b"".to_vec(), b"first".to_vec()]));
}

#[test]
fn handles_from_before_a_crash_are_dead() {
    let disk = SimDisk::new(3);
    let file = disk.create("a").unwrap();
    let after = disk.crash();
    assert!(file.write_at(0, b"x").is_err() && file.len().is_err() && disk.list().is_err());
    after.list().unwrap();
}

#[test]
fn the_power_fails_at_the_requested_operation() {
    for nth in 1..=4 {
        let disk = SimDisk::new(nth);
        disk.crash_after(Some(nth));
        let run = || -> io::Result<()> {
            let file = disk.create("a")?;
            file.write_at(0, b"x")?;
            file.sync()?;
            disk.sync_names()
        };
        assert!(run().is_err());
        assert!(disk.is_off() && disk.list().is_err());
        assert_eq!(disk.operations(), nth);
        let disk = disk.crash();
        assert!(!disk.is_off());
        disk.list().unwrap();
    }
}

#[test]
fn a_later_sync_does_not_repair_a_failed_one() {
    let seen = outcomes(
        |disk| {
            let file = disk.create("a").unwrap();
            file.sync().unwrap();
            disk.sync_names().unwrap();
            file.write_at(0, b"x").unwrap();
            disk.set_faults(Faults {
                sync_error: Chance::ALWAYS,
                ..Faults::default()
            });
            assert!(file.sync().is_err());
            disk.set_faults(Faults::default());
            file.sync().unwrap();
            assert_eq!(bytes(disk, "a"), b"x", "the page cache still has it");
        },
        |disk| bytes(disk, "a"),
    );
    assert!(
        seen.contains(b"".as_slice()) && seen.contains(b"x".as_slice()),
        "{seen:?}"
    );
}

#[test]
fn a_lost_write_is_seen_until_the_crash() {
    let disk = SimDisk::new(5);
    let file = disk.create("a").unwrap();
    file.set_len(1).unwrap();
    disk.set_faults(Faults {
        lost_write: Chance::ALWAYS,
        ..Faults::default()
    });
    file.write_at(0, b"x").unwrap();
    file.sync().unwrap();
    disk.sync_names().unwrap();
    assert_eq!(bytes(&disk, "a"), b"x");
    assert_eq!(bytes(&disk.crash(), "a"), [0]);
}

#[test]
fn injected_errors_fail_reads_and_writes() {
    let disk = SimDisk::new(5);
    let file = disk.create("a").unwrap();
    disk.set_faults(Faults {
        read_error: Chance::ALWAYS,
        write_error: Chance::ALWAYS,
        change_error: Chance::ALWAYS,
        ..Faults::default()
    });
    assert!(file.read_at(0, &mut []).is_err());
    assert!(file.write_at(0, b"xyz").is_err());
    assert!(
        disk.create("b").is_err() && disk.rename("a", "b").is_err() && file.set_len(9).is_err()
    );
    disk.set_faults(Faults::default());
    assert_eq!(disk.list().unwrap(), ["a"]);
    assert!(file.len().unwrap() <= 3);
}

#[test]
fn a_full_disk_accepts_only_writes_to_reserved_space() {
    let disk = SimDisk::new(6);
    // Capacity of ten blocks of 4 KiB.
    disk.set_capacity(Some(40_960));
    let reserved = disk.create("reserved").unwrap();
    reserved.reserve(32_000).unwrap();
    let other = disk.create("other").unwrap();
    other.write_at(0, &[0; 8192]).unwrap();
    assert_eq!(
        other.write_at(8192, &[0; 1]).unwrap_err().kind(),
        io::ErrorKind::StorageFull
    );
    assert_eq!(
        other.reserve(12_000).unwrap_err().kind(),
        io::ErrorKind::StorageFull
    );
    reserved.write_at(0, &[0; 32_000]).unwrap();
    assert_eq!(disk.used(), 40_960);
    disk.remove("other").unwrap();
    reserved.write_at(32_000, &[0; 4000]).unwrap();
    disk.set_capacity(None);
    reserved.write_at(36_000, &[0; 40_000]).unwrap();
}

#[test]
fn a_bit_flips_at_rest() {
    let disk = SimDisk::new(7);
    disk.create("a").unwrap().write_at(0, &[0, 0]).unwrap();
    assert!(disk.flip_bit("a", 9));
    assert!(!disk.flip_bit("a", 16) && !disk.flip_bit("b", 0));
    assert_eq!(bytes(&disk, "a"), [0, 2]);
}

#[test]
fn a_fork_is_independent_of_its_origin() {
    let disk = SimDisk::new(8);
    disk.create("a").unwrap().write_at(0, b"x").unwrap();
    let fork = disk.fork(1);
    fork.crash();
    assert_eq!(bytes(&disk, "a"), b"x");
    disk.remove("a").unwrap();
}

#[test]
fn the_same_seed_gives_the_same_trace_and_the_same_crash() {
    let run = |seed, text: &[u8]| {
        let disk = SimDisk::new(seed);
        for index in 0..20 {
            disk.create(&format!("f{index}"))
                .unwrap()
                .write_at(index * 300, text)
                .unwrap();
        }
        let trace = disk.trace();
        (trace, disk.crash().files())
    };
    assert_eq!(run(1, b"x"), run(1, b"x"));
    assert_ne!(run(1, b"x").0, run(1, b"y").0);
    assert!((2..20).any(|seed| run(seed, b"x").1 != run(1, b"x").1));
}

#[test]
fn killing_the_program_loses_nothing_and_makes_nothing_durable() {
    let disk = SimDisk::new(1);
    let file = disk.create("a").unwrap();
    file.write_at(0, b"x").unwrap();
    let after = disk.restart();
    assert!(file.len().is_err());
    assert_eq!(bytes(&after, "a"), b"x");
    let kept = (0..50)
        .filter(|&seed| after.fork(seed).crash().open("a").is_ok())
        .count();
    assert!((5..45).contains(&kept), "{kept}");
}
