//! Backups in a bucket in memory, whose requests fail.

use super::client::{Client, PART};
use super::{Bucket, manifest};
use crate::tests::{append, folders, open, times};
use crate::{Copied, Error, Place, Plan, Stage, back_up, restore};
use async_trait::async_trait;
use futures_util::stream::{self, BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::{
    CopyOptions, Error as StoreError, GetOptions, GetResult, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result as StoreResult, UploadPart,
};
use seiner_platform::SystemClock;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

/// Bucket in memory. A request fails when the number of requests left is 0, or at any number below if all later requests
/// fail too.
#[derive(Debug)]
struct Faulty {
    objects: Arc<InMemory>,
    left: Arc<AtomicI64>,
    all_later: bool,
}

impl Faulty {
    fn pass(&self) -> StoreResult<()> {
        pass(&self.left, self.all_later)
    }
}

fn pass(left: &AtomicI64, all_later: bool) -> StoreResult<()> {
    let left = left.fetch_sub(1, SeqCst);
    match left == 0 || (all_later && left < 0) {
        true => Err(StoreError::Generic {
            store: "test",
            source: "a request fails".into(),
        }),
        false => Ok(()),
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &Key,
        payload: PutPayload,
        options: PutOptions,
    ) -> StoreResult<PutResult> {
        self.pass()?;
        self.objects.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Key,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.pass()?;
        let upload = self.objects.put_multipart_opts(location, options).await?;
        Ok(Box::new(FaultyUpload {
            upload,
            left: self.left.clone(),
            all_later: self.all_later,
        }))
    }

    async fn get_opts(&self, location: &Key, options: GetOptions) -> StoreResult<GetResult> {
        self.pass()?;
        self.objects.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<Key>>,
    ) -> BoxStream<'static, StoreResult<Key>> {
        match self.pass() {
            Ok(()) => self.objects.delete_stream(locations),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    fn list(&self, prefix: Option<&Key>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        match self.pass() {
            Ok(()) => self.objects.list(prefix),
            Err(error) => stream::iter([Err(error)]).boxed(),
        }
    }

    async fn list_with_delimiter(&self, prefix: Option<&Key>) -> StoreResult<ListResult> {
        self.pass()?;
        self.objects.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Key, to: &Key, options: CopyOptions) -> StoreResult<()> {
        self.objects.copy_opts(from, to, options).await
    }
}

/// Upload in parts, of which one fails.
#[derive(Debug)]
struct FaultyUpload {
    upload: Box<dyn MultipartUpload>,
    left: Arc<AtomicI64>,
    all_later: bool,
}

#[async_trait]
impl MultipartUpload for FaultyUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        match pass(&self.left, self.all_later) {
            Ok(()) => self.upload.put_part(data),
            Err(error) => async { Err(error) }.boxed(),
        }
    }

    async fn complete(&mut self) -> StoreResult<PutResult> {
        pass(&self.left, self.all_later)?;
        self.upload.complete().await
    }

    async fn abort(&mut self) -> StoreResult<()> {
        self.upload.abort().await
    }
}

const NONE: i64 = i64::MAX;

/// Opens the bucket. The request after `left` others fails.
fn faulty(objects: &Arc<InMemory>, left: i64, all_later: bool) -> Place {
    let store = Faulty {
        objects: objects.clone(),
        left: Arc::new(AtomicI64::new(left)),
        all_later,
    };
    let bucket = Bucket::new(Arc::new(store), "a/b".into(), "s3://bucket/a/b");
    Place::Bucket(Box::new(bucket.unwrap()))
}

fn sound(objects: &Arc<InMemory>) -> Place {
    faulty(objects, NONE, false)
}

fn save(data: &Path, place: &Place, check_all: bool) -> Result<Copied, Error> {
    let plan = Plan {
        clock: &SystemClock::new(),
        bytes_per_second: None,
        check_all,
    };
    back_up(data, place, &plan, &mut |_, _, _| {})
}

fn put_back(place: &Place, data: &Path) -> Result<Copied, Error> {
    let plan = Plan {
        clock: &SystemClock::new(),
        bytes_per_second: None,
        check_all: true,
    };
    restore(place, data, &plan, &mut |_, _, _| {})
}

/// Returns the number of rows in the latest backup, or in the one of a name.
fn rows(objects: &Arc<InMemory>, name: Option<&str>) -> usize {
    let above = tempfile::tempdir().unwrap();
    let data = above.path().join("restored");
    let prefix = format!("a/b/{}", name.unwrap_or_default());
    let url = format!("s3://bucket/{prefix}");
    let bucket = Bucket::new(objects.clone(), Key::parse(&prefix).unwrap(), &url).unwrap();
    let copied = put_back(&Place::Bucket(Box::new(bucket)), &data).unwrap();
    assert!(
        copied.work.report.is_sound(),
        "{:?}",
        copied.work.report.damage
    );
    times(&data, "m").len()
}

fn keys(objects: &InMemory) -> BTreeSet<String> {
    let list = objects.list(None).try_collect::<Vec<_>>();
    let list = list.now_or_never().unwrap().unwrap();
    list.into_iter()
        .map(|object| object.location.to_string())
        .collect()
}

/// Returns the key of a segment of the latest backup.
fn a_segment(objects: &InMemory) -> Key {
    let all = keys(objects);
    let segment = all.iter().find(|key| key.contains("/segments/")).unwrap();
    Key::parse(segment).unwrap()
}

/// Replaces a byte of an object.
fn damage(objects: &InMemory, key: &Key) {
    let read = async { objects.get(key).await?.bytes().await };
    let mut bytes = read.now_or_never().unwrap().unwrap().to_vec();
    bytes[100] ^= 1;
    objects
        .put(key, bytes.into())
        .now_or_never()
        .unwrap()
        .unwrap();
}

fn name_of(copied: &Copied) -> String {
    copied
        .place
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .to_string()
}

#[test]
fn backups_share_segments_and_each_restores_its_rows() {
    let (_above, [data, ..]) = folders();
    let objects = Arc::new(InMemory::new());
    let engine = open(&data);
    append(&engine, "m", 0..200_000);
    engine.flush().unwrap();
    let first = save(&data, &sound(&objects), false).unwrap();
    assert!(first.work.segments > 0 && first.work.linked == 0);
    append(&engine, "m", 200_000..300_000);
    let second = save(&data, &sound(&objects), false).unwrap();
    assert!(second.work.linked > 0 && second.work.report.is_sound());
    assert_eq!(rows(&objects, Some(&name_of(&first))), 200_000);
    assert_eq!(rows(&objects, Some(&name_of(&second))), 300_000);
    assert_eq!(rows(&objects, None), 300_000);
    engine.close().unwrap();
}

#[test]
fn a_backup_continues_after_any_request_has_failed() {
    for all_later in [false, true] {
        let (_above, [data, ..]) = folders();
        let engine = open(&data);
        append(&engine, "m", 0..20_000);
        engine.flush().unwrap();
        let first = Arc::new(InMemory::new());
        save(&data, &sound(&first), false).unwrap();
        append(&engine, "m", 20_000..40_000);
        engine.flush().unwrap();
        let mut failures = 0;
        for left in 0.. {
            let objects = Arc::new(first.fork());
            let before = keys(&objects);
            if save(&data, &faulty(&objects, left, all_later), false).is_ok() {
                break;
            }
            failures += 1;
            assert_eq!(rows(&objects, None), 20_000, "request {left}");
            assert!(before.is_subset(&keys(&objects)));
            let again = save(&data, &sound(&objects), false).unwrap();
            assert!(again.work.report.is_sound());
            assert_eq!(rows(&objects, None), 40_000, "request {left}");
        }
        assert!(failures > 7, "{failures}");
        engine.close().unwrap();
    }
}

#[test]
fn a_removal_continues_after_any_request_has_failed() {
    let (_above, [data, ..]) = folders();
    let engine = open(&data);
    let all = Arc::new(InMemory::new());
    let mut names = Vec::new();
    for part in 0..3 {
        append(&engine, "m", part * 20_000..(part + 1) * 20_000);
        engine.flush().unwrap();
        names.push(name_of(&save(&data, &sound(&all), false).unwrap()));
    }
    // Segments that only the first two backups have.
    let gone = all.fork();
    engine.close().unwrap();
    let mut failures = 0;
    for left in 0.. {
        let objects = Arc::new(gone.fork());
        if faulty(&objects, left, true).remove_old(1).is_ok() {
            break;
        }
        failures += 1;
        assert_eq!(rows(&objects, None), 60_000, "request {left}");
        sound(&objects).remove_old(1).unwrap();
        assert_eq!(rows(&objects, None), 60_000, "request {left}");
        let left_over = keys(&objects);
        let manifests = left_over.iter().filter(|key| key.ends_with(".json"));
        assert_eq!(manifests.count(), 1);
    }
    assert!(failures > 5, "{failures}");
    let objects = Arc::new(gone);
    assert_eq!(sound(&objects).remove_old(1).unwrap(), names[..2]);
    assert_eq!(sound(&objects).remove_old(1).unwrap(), [""; 0]);
    let own = |name: &String| keys(&objects).iter().any(|key| key.contains(name));
    assert_eq!(
        names.iter().map(own).collect::<Vec<_>>(),
        [false, false, true]
    );
}

#[test]
fn segments_that_no_backup_needs_are_removed_with_the_last_backup_that_has_them() {
    let (_above, [data, ..]) = folders();
    let objects = Arc::new(InMemory::new());
    let engine = open(&data);
    append(&engine, "m", 0..20_000);
    engine.flush().unwrap();
    save(&data, &sound(&objects), false).unwrap();
    let old = a_segment(&objects);
    // The next backup is without this segment.
    let name = old
        .filename()
        .unwrap()
        .split('-')
        .take(2)
        .collect::<Vec<_>>()
        .join("-");
    append(&engine, "m", 20_000..40_000);
    engine.close().unwrap();
    drop(engine);
    let file = { fs::read_dir(&data).unwrap() }
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_str().unwrap().contains(&name));
    fs::remove_file(file.unwrap()).unwrap();
    save(&data, &sound(&objects), false).unwrap();
    let orphan = Key::from("a/b/segments/segment-00000099-of-an-interrupted-run.log");
    let put = objects.put(&orphan, PutPayload::from_static(b"x"));
    put.now_or_never().unwrap().unwrap();
    sound(&objects).remove_old(1).unwrap();
    let left = keys(&objects);
    assert!(!left.contains(old.as_ref()));
    assert!(
        left.contains(orphan.as_ref()),
        "it may belong to a run that is not over"
    );
}

#[test]
fn damaged_and_missing_objects_are_sent_again() {
    let (_above, [data, _, restored]) = folders();
    let objects = Arc::new(InMemory::new());
    let engine = open(&data);
    append(&engine, "m", 0..100_000);
    engine.close().unwrap();
    drop(engine);
    let first = save(&data, &sound(&objects), false).unwrap();
    let key = a_segment(&objects);
    damage(&objects, &key);
    let copied = save(&data, &sound(&objects), false).unwrap();
    assert!(
        copied.work.report.is_sound() && copied.work.segments == 0,
        "it was not read"
    );
    let copied = save(&data, &sound(&objects), true).unwrap();
    assert!(copied.work.report.is_sound() && copied.work.segments == 1);
    assert_eq!(rows(&objects, Some(&name_of(&first))), 100_000);

    objects.delete(&key).now_or_never().unwrap().unwrap();
    let copied = put_back(&sound(&objects), &restored).unwrap();
    let report = copied.work.report;
    assert_eq!(report.damaged, 1);
    assert!(
        report.damage[0].what.contains("missing in the bucket"),
        "{report:?}"
    );
    assert!(restored.join("catalog").exists(), "the rest is restored");
    let copied = save(&data, &sound(&objects), false).unwrap();
    assert!(copied.work.segments == 1);
    assert_eq!(rows(&objects, None), 100_000);
}

#[test]
fn a_segment_that_another_run_removes_ends_the_backup() {
    let (_above, [data, ..]) = folders();
    let objects = Arc::new(InMemory::new());
    let engine = open(&data);
    append(&engine, "m", 0..20_000);
    engine.close().unwrap();
    drop(engine);
    let plan = Plan {
        clock: &SystemClock::new(),
        bytes_per_second: None,
        check_all: false,
    };
    let result = back_up(&data, &sound(&objects), &plan, &mut |stage, done, total| {
        if stage == Stage::Check && done == total {
            let key = a_segment(&objects);
            objects.delete(&key).now_or_never().unwrap().unwrap();
        }
    });
    let error = result.unwrap_err().to_string();
    assert!(error.contains("removed or replaced"), "{error}");
    assert!(
        !keys(&objects)
            .iter()
            .any(|key| manifest::name_of(key).is_some())
    );
    save(&data, &sound(&objects), false).unwrap();
    assert_eq!(rows(&objects, None), 20_000);
}

#[test]
fn wrong_places_are_named() {
    let (above, [data, _, restored]) = folders();
    let objects = Arc::new(InMemory::new());
    let text = |result: Result<Copied, Error>| result.unwrap_err().to_string();
    let error = text(put_back(&sound(&objects), &restored));
    assert!(
        error.contains("s3://bucket/a/b has no complete backup"),
        "{error}"
    );
    assert_eq!(
        fs::read_dir(above.path()).unwrap().count(),
        0,
        "nothing is left"
    );
    open(&data).close().unwrap();
    let other = above.path().join("other");
    open(&other).close().unwrap();
    let copied = save(&data, &sound(&objects), false).unwrap();
    let error = text(save(&other, &sound(&objects), false));
    assert!(error.contains("another store"), "{error}");
    let chosen = |name: &str| {
        let prefix = Key::parse(format!("a/b/{name}")).unwrap();
        let bucket = Bucket::new(objects.clone(), prefix, &format!("s3://bucket/a/b/{name}"));
        Place::Bucket(Box::new(bucket.unwrap()))
    };
    let error = text(save(&data, &chosen(&name_of(&copied)), false));
    assert!(
        error.contains("name what is before it: s3://bucket/a/b"),
        "{error}"
    );
    let error = text(put_back(&chosen("2020-01-01T00-00-00Z"), &restored));
    assert!(error.contains(&name_of(&copied)), "{error}");
    let manifest = Key::parse(format!("a/b/{}.json", name_of(&copied))).unwrap();
    let newer = PutPayload::from_static(br#"{"version": 9}"#);
    objects
        .put(&manifest, newer)
        .now_or_never()
        .unwrap()
        .unwrap();
    let error = text(save(&data, &sound(&objects), false));
    assert!(error.contains("version 9"), "{error}");
}

#[test]
fn large_objects_are_sent_in_parts() {
    let length = 2 * PART + 12_345;
    let mut read = |offset: u64, buffer: &mut [u8]| {
        for (at, byte) in (offset..).zip(buffer) {
            *byte = (at * 7 % 251) as u8;
        }
        Ok(())
    };
    let mut failures = 0;
    for left in 0.. {
        let objects = Arc::new(InMemory::new());
        let store = Faulty {
            objects: objects.clone(),
            left: Arc::new(AtomicI64::new(left)),
            all_later: false,
        };
        let client = Client::new(Arc::new(store), Key::default()).unwrap();
        let mut sent = 0;
        let result = client.upload("large", length, &mut read, &mut |bytes| sent += bytes);
        if result.is_err() {
            failures += 1;
            assert_eq!(keys(&objects).len(), 0, "request {left}");
            continue;
        }
        assert_eq!(sent, length);
        let client = Client::new(objects, Key::default()).unwrap();
        let range = client.range("large", PART - 10..2 * PART + 10).unwrap();
        let mut expected = vec![0; range.len()];
        read(PART - 10, &mut expected).unwrap();
        assert_eq!(range, expected);
        assert!(client.range("large", length - 1..length + 1).is_err());
        break;
    }
    assert_eq!(failures, 5, "the begin, three parts, the end");
}
