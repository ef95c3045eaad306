//! Tests of the first and last time of samples.

use crate::site::Site;
use serde_json::{Value, json};

fn range(site: &Site, parameters: &str) -> Value {
    let answer = site.get(&format!("/api/v1/range{parameters}"));
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()
}

fn seconds(first: i64, last: i64) -> Value {
    let ns = |seconds: i64| (seconds * 1_000_000_000).to_string();
    json!({ "first": ns(first), "last": ns(last) })
}

#[test]
fn a_range_is_that_of_the_selected_samples() {
    for site in [Site::new(), Site::in_memory()] {
        let lines = b"room,room=a t=1.5 10\nroom,room=a n=7i 20\nroom,room=b t=2.5 30\ncpu t=1 5";
        site.post("/write?precision=s", &[], lines);
        for flushed in [false, true] {
            if flushed {
                site.post("/api/v1/flush", &[], b"");
            }
            assert_eq!(range(&site, ""), seconds(5, 30));
            assert_eq!(range(&site, "?select=room"), seconds(10, 30));
            assert_eq!(
                range(&site, "?select=room%7Broom%3D%22a%22%7D"),
                seconds(10, 20)
            );
            assert_eq!(range(&site, "?select=room&fields=n,x"), seconds(20, 20));
            assert_eq!(
                range(&site, "?from=10000000001ns&to=29000000000ns"),
                seconds(20, 20)
            );
            let none = json!({ "first": null, "last": null });
            assert_eq!(range(&site, "?select=disk"), none);
            assert_eq!(range(&site, "?from=31000000000ns"), none);
        }
        site.delete("/api/v1/delete?select=room&from=0ns&to=15000000000ns", &[]);
        assert_eq!(range(&site, "?select=room"), seconds(20, 30));
        assert_eq!(site.get("/api/v1/range?step=5s").status, 400);
        assert_eq!(site.get("/api/v1/range?from=5ns&to=4ns").status, 400);
    }
}
