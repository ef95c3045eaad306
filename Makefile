# All tasks of the project. Targets install missing packages, except toolchains: cargo (rustup), node and npm, python3, gcc
# and g++.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Additional arguments of the program: make serve ARGS='--listen 127.0.0.1:9000'
ARGS ?=
# SLOW=1 adds the long tests to `make test`.
SLOW ?=
# Seconds for which `make fuzz` runs each target.
FUZZ_SECONDS ?= 60
# Command that runs `make tour-root` as root. Empty if the user is root.
SUDO ?= $(if $(filter 0,$(shell id -u)),,sudo)

page_sources := $(shell find web/src web/public -type f 2>/dev/null) web/index.html web/vite.config.ts web/tsconfig.json

.PHONY: help serve build sql dist dist-test cluster tour tour-root page test test-slow test-engine bench-peers bench-protocols bench-queries bench-embedded bench-core bench-core-lock bench-bundles bench-sensors bench-crowd bench-churn bench-restart \
        bench-amplification bench-merge-sim bench-merge-writes bench-merge-rate bench-merge-latency bench-merge-figures bench-soak bench-soak-peers \
        bench-simulate bench-raid-matrix bench-raid-heldout bench-raid-phases bench-raid-real bench-raid-faults \
        bench-cluster-faults bench-cluster-cost bench-cluster-scale bench-cluster-balance \
        bench-cluster-compaction compaction-jar fuzz fmt doc docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

serve: build ## Build the program if necessary and start the server on 127.0.0.1:7670
	exec target/release/seiner serve $(ARGS)

build: page ## Build the optimised program with its web page: target/release/seiner
	scripts/need.sh cargo compiler
	cargo build --release --locked -p seiner

sql: ## Build the program that answers SQL, beside the server: target/release/seiner-sql (8 minutes on two cores)
	scripts/need.sh cargo compiler
	CARGO_TARGET_DIR=$(CURDIR)/target/sql cargo build --locked --profile sql --manifest-path sql/Cargo.toml
	mkdir -p target/release
	cp target/sql/sql/seiner-sql target/release/

dist: ## Build the files of a release for x86-64 and aarch64 in target/dist: make dist ARGS=--help lists parts
	@scripts/venv.sh target/tools/dist scripts/release/requirements.txt
	@target/tools/dist/bin/python scripts/release $(ARGS)

dist-test: ## Install and use the files of make dist in clean systems (as root, on Debian)
	scripts/need.sh debootstrap systemd-nspawn qemu-aarch64 chromium mosquitto
	scripts/venv.sh target/e2e-venv e2e/requirements.txt
	SEINER_RELEASE=target/dist SEINER_BIN=target/dist-work/$(shell uname -m)/programs/seiner \
	    target/e2e-venv/bin/python -m pytest e2e/test_release.py e2e/test_first_hour.py -v --tb=short -p no:cacheprovider $(ARGS)

cluster: build ## Try a cluster on this machine: three nodes of Cassandra and three ports
	scripts/need.sh java maven
	target/release/seiner cluster try $(ARGS)

tour: build ## Measure a disk in five minutes, as an ordinary user, with a report: make tour ARGS=/data
	target/release/seiner lab tour $(ARGS)

tour-root: build ## The same as root, with fresh file systems, a memory limit and alignment
	$(SUDO) target/release/seiner lab tour --out lab-tour-root $(ARGS)

page: crates/server/dist/index.html ## Build the web page: crates/server/dist

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	scripts/need.sh node
	cd web && npm ci --no-audit --no-fund
	@touch $@

crates/server/dist/index.html: web/node_modules/.package-lock.json $(page_sources)
	cd web && npm run build
	@touch $@

test: ## Build everything and run all tests; SLOW=1 adds long simulations, more kills, and fuzzing
	SLOW=$(SLOW) FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/test.sh

test-slow: ## Run make test SLOW=1
	$(MAKE) test SLOW=1

test-engine: ## Test the model, the platform, the codecs and the engine only
	cargo test --locked -p seiner-model -p seiner-platform -p seiner-codec -p seiner-engine

bench-peers: build ## Compare the server with VictoriaMetrics and InfluxDB on loopback
	@# A server that cannot be installed is left out of the results, with a note.
	scripts/need.sh victoria-metrics || true
	scripts/need.sh influxdb || true
	cargo run --release --locked -p seiner-bench -- peers $(ARGS)

bench-protocols: build ## Load the server and VictoriaMetrics in several protocols
	scripts/need.sh victoria-metrics || true
	cargo run --release --locked -p seiner-bench -- protocols $(ARGS)

bench-queries: build ## Ask the server, VictoriaMetrics, Prometheus and QuestDB questions over many series
	scripts/need.sh victoria-metrics || true
	scripts/need.sh prometheus || true
	cargo run --release --locked -p seiner-bench -- queries $(ARGS)

bench-embedded: ## Measure the engine alone on one core
	cargo run --release --locked -p seiner-bench -- embedded $(ARGS)

bench-core: ## Measure memory and appends with millions of sources (ARGS), and run bench-core-lock
	cargo run --release --locked -p seiner-bench -- core-lock
	cargo run --release --locked -p seiner-bench -- core $(ARGS)

bench-core-lock: ## Measure the holds of the engine's lock with a million sources, and one heavy query
	cargo run --release --locked -p seiner-bench -- core-lock $(ARGS)

bench-sensors: ## Measure size and speed by the number of sensors, with bundles and without
	cargo run --release --locked -p seiner-bench -- sensors $(ARGS)

bench-churn: ## Register sensors that live for an hour, six million in all
	cargo run --release --locked -p seiner-bench -- churn $(ARGS)

bench-crowd: ## Store ten million sensors in a fixed memory, and start again
	cargo run --release --locked -p seiner-bench -- crowd $(ARGS)

bench-bundles: ## Measure size and speed of bundles: few rows each of many sources
	cargo run --release --locked -p seiner-bench -- bundles $(ARGS)

bench-restart: build ## Measure the time to the first answer, after a clean stop and after kill -9
	cargo run --release --locked -p seiner-bench -- restart $(ARGS)

bench-amplification: build ## Measure the bytes written to the device per byte kept
	cargo run --release --locked -p seiner-bench -- amplification $(ARGS)

bench-merge-sim: ## Simulate the bytes written by merging, by policy
	cargo run --release --locked -p seiner-bench -- merge-sim $(ARGS)

bench-merge-rate: ## Measure the write rate of a nearly full store and of an empty one, by policy
	cargo run --release --locked -p seiner-bench -- merge-rate $(ARGS)

bench-merge-writes: ## Measure the bytes written per byte stored, by policy
	cargo run --release --locked -p seiner-bench -- merge-writes $(ARGS)

bench-merge-latency: ## Measure the time to acknowledge writes while segments are merged
	cargo run --release --locked -p seiner-bench -- merge-latency $(ARGS)

bench-merge-figures: ## Draw the paper's figures of the log store for this engine: target/bench/merge-figures.html
	cargo run --release --locked -p seiner-bench -- merge-figures $(ARGS)

bench-soak: ## Overwrite a small, nearly full volume hundreds of times
	cargo run --release --locked -p seiner-bench -- soak $(ARGS)

bench-soak-peers: ## Write the same rows to small volumes of this store, InfluxDB and VictoriaMetrics; without root, to folders
	scripts/need.sh victoria-metrics
	scripts/need.sh influxdb
	cargo run --release --locked -p seiner-bench -- soak --peers influxdb,victoriametrics \
	    $(or $(ARGS),--volume 512 --live 0.65 --turns 30)

bench-simulate: ## Simulate the engine: millions of steps, crashes at every kind of work
	cargo run --release --locked -p seiner-bench -- simulate $(ARGS)

bench-raid-matrix: ## Simulate the array under the paper's matrix of loads, and measure syndromes
	cargo run --release --locked -p seiner-bench -- raid-matrix $(ARGS)

bench-raid-heldout: ## Simulate the array under the loads that judge write merging
	cargo run --release --locked -p seiner-bench -- raid-heldout $(ARGS)

bench-raid-phases: ## Simulate the array under changing loads
	cargo run --release --locked -p seiner-bench -- raid-phases $(ARGS)

bench-raid-real: ## Run arrays on real files behind a network block device: verified by fio, processor time per request
	scripts/need.sh fio nbdkit
	cargo run --release --locked -p seiner-bench -- raid-real $(ARGS)

bench-raid-faults: ## Run 100,000 seeded runs of the array with faults: ARGS='--runs 1000000' for more
	cargo run --release --locked -p seiner-bench -- raid-faults $(ARGS)

bench-cluster-faults: build ## Kill, cut off and disturb parts of a cluster; network namespaces need root
	scripts/need.sh java maven
	cargo run --release --locked -p seiner-bench -- cluster-faults $(ARGS)

bench-cluster-cost: build ## Measure the cost of a cluster by layer, and reads, against one row per sample
	scripts/need.sh java maven
	cargo run --release --locked -p seiner-bench -- cluster-cost $(ARGS)

bench-cluster-scale: build ## Measure the cost of a sample from one node to five
	scripts/need.sh java maven
	cargo run --release --locked -p seiner-bench -- cluster-scale $(ARGS)

bench-cluster-balance: build ## Measure how ports balance skewed clients
	scripts/need.sh java maven
	cargo run --release --locked -p seiner-bench -- cluster-balance $(ARGS)

bench-cluster-compaction: ## Measure the bytes that a node of Cassandra writes: time windows against our compaction
	scripts/need.sh java maven cargo compiler
	cargo run --release --locked -p seiner-bench -- cluster-compaction $(ARGS)

compaction-jar: ## Compile the compaction strategy for Cassandra: crates/cassandra/java (JDK 17)
	scripts/need.sh jdk
	scripts/compaction-jar.sh

fuzz: ## Fuzz every decoder for FUZZ_SECONDS (nightly Rust and cargo-fuzz)
	scripts/fuzz.sh $(FUZZ_SECONDS)

fmt: ## Format the Rust code
	cargo fmt --all

doc: ## Build the reference of the Rust crates: target/doc
	cargo doc --locked --workspace --no-deps

docs: ## Build the documentation as a site: target/docs. To search it: python3 -m http.server -d target/docs
	@scripts/venv.sh target/tools/docs scripts/docs/requirements.txt
	NO_MKDOCS_2_WARNING=1 target/tools/docs/bin/mkdocs build
	@echo "The site is in target/docs/index.html"

clean: ## Remove everything that was built; data directories stay
	rm -rf target fuzz/target python/target crates/server/dist web/node_modules
