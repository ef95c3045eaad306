#!/usr/bin/env bash
# compaction-jar.sh [--check]: tests and compiles the compaction strategy for Cassandra, and writes its jar.
# With --check, the jar is compared with the committed one instead, and its SHA-256 with docs/cluster.md.
# Exits with 3 if this machine cannot do so: javac 17 or the jars of Cassandra are missing.
#
# The jar depends only on the sources, javac 17 and the classes of Cassandra: entries are not compressed, and have one
# date and no manifest.
set -euo pipefail
cd "$(dirname "$0")/.."

version=5.0.9
sources=crates/cassandra/java
jar=$sources/seiner-compaction-$version.jar
cache=${XDG_CACHE_HOME:-$HOME/.cache}/seiner/cassandra-$version

skip() {
    echo "$1" >&2
    exit 3
}

command -v javac >/dev/null && command -v jar >/dev/null || skip "javac is missing. Install a JDK of version 17"
javac -version 2>&1 | grep -q '^javac 17\.' || skip "$(javac -version 2>&1) is not javac 17"
[ -f "$cache/cassandra-all-$version.jar" ] ||
    skip "The jars of Cassandra are missing in $cache. A start of a local cluster fetches them: make cluster"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Cassandra 5.0 runs on Java 11 and 17. The jars of Cassandra refer to annotations that they do not contain.
javac --release 11 -g:source,lines -Xlint:all,-classfile,-path,-processing -proc:none -Werror -cp "$cache/*" \
    -d "$work" "$sources"/io/seiner/*.java
java -ea -cp "$work" io.seiner.PolicyTest
rm "$work"/io/seiner/PolicyTest*.class
classes=$(cd "$work" && find . -name '*.class' -printf '%P\n' | LC_ALL=C sort)
# shellcheck disable=SC2086 # One argument per class.
(cd "$work" && TZ=UTC jar --create --file new.jar --no-manifest --no-compress --date=2026-01-01T00:00:00Z $classes)
sum=$(sha256sum "$work/new.jar" | cut -d ' ' -f 1)
if [ "${1:-}" = --check ]; then
    cmp "$work/new.jar" "$jar" || { echo "$jar differs from its sources: run make compaction-jar" >&2; exit 1; }
    grep -q "$sum" docs/cluster.md || { echo "docs/cluster.md has another SHA-256 than $sum" >&2; exit 1; }
else
    cp "$work/new.jar" "$jar"
fi
echo "$sum  $jar"
