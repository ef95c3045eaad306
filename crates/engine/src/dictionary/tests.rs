//! Tests of the dictionary.

use super::select::MANY_VALUES;
use super::*;
use seiner_model::{Condition, Matcher, Selector};

fn dictionary() -> Dictionary {
    let (mut dictionary, mut names) = (Dictionary::default(), Names::new(1));
    for n in 0..100 {
        let host = format!("h{}", n / 10);
        let core = format!("{}", n % 10);
        let key =
            SourceKey::new("cpu", [("host", host.as_str()), ("core", core.as_str())]).unwrap();
        assert_eq!(dictionary.intern(&mut names, &key), (n, true));
        assert_eq!(dictionary.intern(&mut names, &key), (n, false));
        assert_eq!(dictionary.find(&names, &key), Some(n));
        assert_eq!(dictionary.key(n), Some(key));
    }
    for n in 0..5 {
        let key = SourceKey::new("mem", [("host", format!("h{n}"))]).unwrap();
        dictionary.intern(&mut names, &key);
    }
    dictionary
}

#[test]
fn selection_agrees_with_a_scan_of_all_keys() {
    let dictionary = dictionary();
    for text in [
        "cpu",
        "mem",
        "none",
        "",
        "cpu{host=h3}",
        "{host=h3}",
        "{host!=h3}",
        "cpu{core=\"\"}",
        "{core=\"\"}",
        "{core!=\"\"}",
        "{core=~\"[1-3]\"}",
        "{core!~\"[1-3]\"}",
        "{core=~\"|7\"}",
        "{host^=h, core=5}",
        "{host^=x}",
        "{nosuch=x}",
        "{nosuch!=x}",
        "cpu{host=~\"h1|h2\",core!=0}",
    ] {
        let selector = Selector::parse(text).unwrap();
        let expected: Vec<u32> = (0..105)
            .filter(|&n| selector.holds(&dictionary.key(n).unwrap()))
            .collect();
        assert_eq!(
            dictionary.select(&selector).iter().collect::<Vec<_>>(),
            expected,
            "{text}"
        );
    }
}

#[test]
fn patterns_over_very_many_values_agree_with_a_scan_of_all_keys() {
    let (mut dictionary, mut names) = (Dictionary::default(), Names::new(1));
    let mut keys = Vec::new();
    for n in 0..2 * MANY_VALUES {
        // Most hosts have one source, some have several, and some sources have no host.
        let host = format!("host-{}", if n % 50 < 9 { n / 3 } else { n });
        let host = ("host", host.as_str());
        let key = match n % 100 {
            10 => SourceKey::new("cpu", [("core", n.to_string())]),
            core => SourceKey::new("cpu", [host, ("core", &core.to_string())]),
        };
        let key = key.unwrap();
        if dictionary.intern(&mut names, &key).1 {
            keys.push(key);
        }
    }
    assert!(dictionary.pairs.values("host") > MANY_VALUES);
    for pattern in [
        "host-12.*",
        ".*42",
        "host-(1|2|3)5.*",
        "host-7|host-7001|none",
        "|host-7",
        "(?i)HOST-12.*",
        ".*[13579]",
        ".*",
        ".+",
        "host-1.*\\b",
    ] {
        for operator in ["=~", "!~"] {
            let selector = Selector::parse(&format!("cpu{{host{operator}\"{pattern}\"}}"));
            let selector = selector.unwrap();
            let expected = (0..).zip(&keys).filter(|(_, key)| selector.holds(key));
            let found = dictionary.select(&selector);
            assert!(found.iter().eq(expected.map(|(n, _)| n)), "{selector}");
        }
    }
}

#[test]
fn no_source_has_a_tag_with_an_empty_name() {
    let dictionary = dictionary();
    for (condition, expected) in [
        (Condition::Is("cpu".into()), 0),
        (Condition::IsNot("".into()), 0),
        (Condition::IsNot("cpu".into()), 105),
        (Condition::Is("".into()), 105),
    ] {
        let matcher = Matcher {
            tag: String::new(),
            condition,
        };
        let selector = Selector {
            measurement: None,
            matchers: vec![matcher],
        };
        assert_eq!(dictionary.select(&selector).len(), expected, "{selector}");
    }
}

#[test]
fn measurements_tag_names_and_values_are_listed() {
    let dictionary = dictionary();
    let mem = Selector::parse("mem").unwrap();
    assert_eq!(dictionary.measurements(), ["cpu", "mem"]);
    assert_eq!(dictionary.tag_names(&Selector::all()), ["core", "host"]);
    assert_eq!(dictionary.tag_names(&mem), ["host"]);
    assert_eq!(dictionary.tag_values(&mem, "host", 3), ["h0", "h1", "h2"]);
}

#[test]
fn names_and_keys_register_the_same_sources() {
    let keys: Vec<SourceKey> = [
        ("m", vec![]),
        ("m", vec![("a", "1"), ("b", "2")]),
        ("m", vec![("a", "1"), ("b", "x,=\\")]),
        ("m", vec![("a", "1"), ("b", "3")]),
        ("m", vec![("b", "3")]),
        ("m,n", vec![("a", "1"), ("b", "3")]),
        ("n", vec![("a", "1"), ("b", "3"), ("c", "1")]),
    ]
    .into_iter()
    .map(|(measurement, tags)| SourceKey::new(measurement, tags).unwrap())
    .collect();
    let (mut by_key, mut key_names) = (Dictionary::default(), Names::new(1));
    let (mut by_name, mut names) = (Dictionary::default(), Names::new(2));
    for (number, key) in (0..).zip(&keys) {
        assert_eq!(by_key.intern(&mut key_names, key), (number, true));
        let (name, hash) = canonical(names.seed(), key);
        match by_name.intern_name(&mut names, &name, hash) {
            Some(added) => assert!(added == (number, true) && !name.contains(&b'\\')),
            None => assert_eq!(by_name.intern(&mut names, key), (number, true)),
        }
        for (dictionary, names) in [(&by_key, &key_names), (&by_name, &names)] {
            assert_eq!(dictionary.find(names, key), Some(number));
            assert_eq!(dictionary.key(number).as_ref(), Some(key));
            let (measurement, tags) = dictionary.texts(number);
            assert_eq!(measurement, key.measurement().as_bytes());
            assert!(
                tags.eq(key
                    .tags()
                    .map(|(tag, value)| (tag.as_bytes(), value.as_bytes())))
            );
        }
    }
    for key in &keys {
        let selector = Selector {
            measurement: Some(key.measurement().to_string()),
            ..Selector::all()
        };
        let found = by_name.select(&selector);
        assert_eq!(found, by_key.select(&selector));
        assert!(
            found
                .iter()
                .eq((0..7).filter(|&n| selector.holds(&keys[n as usize])))
        );
    }
}

#[test]
fn canonical_names_with_backslashes_are_not_mistaken_for_line_names() {
    let (mut dictionary, mut names) = (Dictionary::default(), Names::new(1));
    let key = |value: &str| SourceKey::new("m", [("a", value)]).unwrap();
    let (one, two) = (key("\\x"), key("\\\\x"));
    assert_eq!(dictionary.intern(&mut names, &one), (0, true));
    assert_eq!(dictionary.intern(&mut names, &two), (1, true));
    assert_eq!(dictionary.intern(&mut names, &one), (0, false));
    assert_eq!(dictionary.find(&names, &two), Some(1));
    // Canonical name of one source, which lines may write for the other source.
    let mut name = Vec::new();
    one.put_name(&mut name);
    assert_eq!(name, b"m,a=\\\\x");
    let hash = hash_name(names.seed(), SourceKey::NOTATION, &name);
    assert_eq!(names.find(hash), None);
}

#[test]
fn the_order_of_tags_creates_no_new_source() {
    let (mut dictionary, mut names) = (Dictionary::default(), Names::new(1));
    let mut intern = |name: &str| {
        let hash = hash_name(names.seed(), SourceKey::NOTATION, name.as_bytes());
        let known = names.find(hash).map(|source| (source, false));
        known.or_else(|| dictionary.intern_name(&mut names, name.as_bytes(), hash))
    };
    assert_eq!(intern("m,b=1,a=2,c=3"), Some((0, true)));
    assert_eq!(intern("m,a=2,b=1,c=3"), Some((0, false)));
    assert_eq!(intern("m,c=3,b=1,a=2"), Some((0, false)));
    assert_eq!(intern("m,b=1,a=2"), Some((1, true)));
    assert_eq!(intern("m,a=2,b=1,c=4"), Some((2, true)));
    assert_eq!(intern("m,b=1,c=4,a=2"), Some((2, false)));
    for rejected in [
        "m,b=1,a=2,b=1",
        "m,b=1,a=",
        "m,b,a=1",
        ",b=1,a=1",
        "m,b=\0,a=1",
    ] {
        assert_eq!(intern(rejected), None, "{rejected:?}");
    }
    let key = SourceKey::new("m", [("a", "2"), ("b", "1"), ("c", "4")]).unwrap();
    assert_eq!(dictionary.intern(&mut names, &key), (2, false));
    assert_eq!(dictionary.key(2), Some(key));
}

#[test]
fn forgotten_sources_leave_their_numbers_and_texts_to_new_ones() {
    let (mut dictionary, mut names) = (Dictionary::default(), Names::new(1));
    let key = |round: u32, n: u32| {
        let (pod, node) = (format!("pod-{round:04}-{n:04}"), format!("n{}", n % 7));
        SourceKey::new("cpu", [("pod", pod.as_str()), ("node", node.as_str())]).unwrap()
    };
    let (mut live, mut most) = (Vec::new(), 0);
    for round in 0..50_u32 {
        for n in 0..200 {
            let key = key(round, n);
            let (source, new) = dictionary.intern(&mut names, &key);
            assert!(new);
            live.push((source, key));
        }
        // The second half of the round before, and the first half of this one.
        let gone: Vec<_> = live.drain(..live.len() - 100).collect();
        for (source, _) in &gone {
            let of = RoaringBitmap::from_iter([*source]);
            let mut all = Vec::new();
            assert_eq!(names.list(0, u32::MAX, &of, &mut all), Some(1 << 31));
            all.iter().for_each(|(_, number)| names.remove(*number));
            dictionary.hide(*source);
        }
        let found = dictionary.select(&Selector::all());
        assert_eq!(found, live.iter().map(|(source, _)| *source).collect());
        for (source, key) in gone {
            assert_eq!(dictionary.find(&names, &key), None);
            assert_eq!(dictionary.key(source), Some(key), "until it is removed");
            dictionary.remove(source);
            dictionary.release(source);
            assert_eq!(dictionary.key(source), None);
        }
        for (source, key) in &live {
            assert_eq!(dictionary.key(*source).as_ref(), Some(key));
            assert_eq!(dictionary.find(&names, key), Some(*source));
        }
        let pods = dictionary.tag_values(&Selector::all(), "pod", usize::MAX);
        assert_eq!(pods.len(), live.len());
        assert_eq!(dictionary.tag_values(&Selector::all(), "node", 9).len(), 7);
        if round == 20 {
            most = dictionary.memory() + names.memory();
        }
    }
    assert_eq!(dictionary.len(), 300);
    let memory = dictionary.memory() + names.memory();
    assert!(memory <= most, "{memory} bytes, {most} before");
}

#[test]
fn measurements_without_sources_are_not_listed() {
    let (mut dictionary, mut names) = (Dictionary::default(), Names::new(1));
    let key = |measurement| SourceKey::new(measurement, [("a", "b")]).unwrap();
    let (gone, _) = dictionary.intern(&mut names, &key("gone"));
    dictionary.intern(&mut names, &key("here"));
    dictionary.hide(gone);
    assert_eq!(dictionary.measurements(), ["here"]);
    assert_eq!(
        dictionary.tag_names(&Selector::parse("gone").unwrap()),
        [""; 0]
    );
    names.remove(0);
    dictionary.remove(gone);
    assert_eq!(dictionary.measurements(), ["here"]);
    let other = SourceKey::new("other", [("a", "b"), ("c", "d")]).unwrap();
    assert!(
        dictionary.put_at(&mut names, gone, &other).is_none(),
        "it has too many tags"
    );
    for (name, put) in [
        ("other", Some((gone, true))),
        ("other", Some((gone, false))),
        ("again", None),
    ] {
        assert_eq!(dictionary.put_at(&mut names, gone, &key(name)), put);
    }
    assert_eq!(dictionary.key(gone), Some(key("other")));
    assert_eq!(dictionary.measurements(), ["here", "other"]);
}

/// Hosts with ten sources each, and sources with a value of their own.
#[test]
fn a_source_takes_few_bytes() {
    let bytes = |key: &dyn Fn(u32) -> SourceKey| {
        let (mut dictionary, mut names) = (Dictionary::default(), Names::new(1));
        let count = 300_000;
        for number in 0..count {
            dictionary.intern(&mut names, &key(number));
        }
        (dictionary.memory() + names.memory()) / count as usize
    };
    let shared = bytes(&|number| {
        let (host, sensor) = (format!("host-{:07}", number / 10), number % 10);
        SourceKey::new("gauge", [("host", host), ("sensor", format!("s{sensor}"))]).unwrap()
    });
    let own = bytes(&|number| SourceKey::new("gauge", [("id", format!("d-{number:09}"))]).unwrap());
    assert!(shared <= 32, "{shared}");
    assert!(own <= 64, "{own}");
}
