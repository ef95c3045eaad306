# Everything one does with this project, one word each. Targets install what they lack, except the
# toolchains: cargo (rustup), node and npm, python3, gcc and g++.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# What `seiner serve` is given besides: make serve ARGS='--listen 127.0.0.1:9000'
ARGS ?=
# SLOW=1 makes `make test` run the long suites as well.
SLOW ?=
# How long `make fuzz` attacks each decoder.
FUZZ_SECONDS ?= 60
# Who becomes root for `make tour-root`: nobody needs to who is it.
SUDO ?= $(if $(filter 0,$(shell id -u)),,sudo)

page_sources := $(shell find web/src web/public -type f 2>/dev/null) web/index.html web/vite.config.ts web/tsconfig.json

.PHONY: help serve build tour tour-root page test test-slow test-engine bench-peers bench-embedded bench-core bench-core-lock bench-restart \
        bench-amplification bench-merge-sim bench-merge-writes bench-merge-rate bench-merge-latency bench-merge-figures bench-soak bench-soak-peers \
        bench-simulate bench-raid-matrix bench-raid-heldout bench-raid-phases bench-raid-real bench-raid-faults fuzz fmt doc clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' Makefile

serve: build ## Build what is missing and start the server on 127.0.0.1:7670
	exec target/release/seiner serve $(ARGS)

build: page ## The optimised program, with its page inside: target/release/seiner
	scripts/need.sh cargo compiler
	cargo build --release --locked -p seiner

tour: build ## Five minutes of the lab as an ordinary user, ending in a page: make tour ARGS=/data
	target/release/seiner lab tour $(ARGS)

tour-root: build ## The same as root, with fresh file systems, a memory limit and alignment
	$(SUDO) target/release/seiner lab tour --out lab-tour-root $(ARGS)

page: web/dist/index.html ## The page of the server: web/dist

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	scripts/need.sh node
	cd web && npm ci --no-audit --no-fund
	@touch $@

web/dist/index.html: web/node_modules/.package-lock.json $(page_sources)
	cd web && npm run build
	@touch $@

test: ## Build and pass all tests; SLOW=1 adds long simulations, more kills, and fuzzing
	SLOW=$(SLOW) FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/test.sh

test-slow: ## The same as make test SLOW=1
	$(MAKE) test SLOW=1

test-engine: ## The fast loop: nouns, platform, codecs and engine only
	cargo test --locked -p seiner-model -p seiner-platform -p seiner-codec -p seiner-engine

bench-peers: build ## Against VictoriaMetrics and InfluxDB on loopback
	@# What cannot be installed is left out, and the results say so.
	scripts/need.sh victoria-metrics || true
	scripts/need.sh influxdb || true
	cargo run --release --locked -p seiner-bench -- peers $(ARGS)

bench-embedded: ## The engine alone on one core
	cargo run --release --locked -p seiner-bench -- embedded $(ARGS)

bench-core: ## Memory with millions of sources, appends while they are registered (ARGS are for these), and bench-core-lock
	cargo run --release --locked -p seiner-bench -- core-lock
	cargo run --release --locked -p seiner-bench -- core $(ARGS)

bench-core-lock: ## How long the engine's lock is held with a million sources; one heavy query
	cargo run --release --locked -p seiner-bench -- core-lock $(ARGS)

bench-restart: build ## Time to the first answer, cold and after kill -9
	cargo run --release --locked -p seiner-bench -- restart $(ARGS)

bench-amplification: build ## Bytes written to the device for each byte kept
	cargo run --release --locked -p seiner-bench -- amplification $(ARGS)

bench-merge-sim: ## Bytes that merging writes, by policy, simulated
	cargo run --release --locked -p seiner-bench -- merge-sim $(ARGS)

bench-merge-rate: ## The rate of a nearly full store, by policy, beside an empty one
	cargo run --release --locked -p seiner-bench -- merge-rate $(ARGS)

bench-merge-writes: ## Bytes written for each byte stored, by policy
	cargo run --release --locked -p seiner-bench -- merge-writes $(ARGS)

bench-merge-latency: ## How long acknowledgements take while segments are merged
	cargo run --release --locked -p seiner-bench -- merge-latency $(ARGS)

bench-merge-figures: ## The paper's figures of the log store, on our engine: target/bench/merge-figures.html
	cargo run --release --locked -p seiner-bench -- merge-figures $(ARGS)

bench-soak: ## A small volume, nearly full, overwritten hundreds of times
	cargo run --release --locked -p seiner-bench -- soak $(ARGS)

bench-soak-peers: ## The same rows on small volumes for our store, InfluxDB and VictoriaMetrics; as root, or they are folders
	scripts/need.sh victoria-metrics
	scripts/need.sh influxdb
	cargo run --release --locked -p seiner-bench -- soak --peers influxdb,victoriametrics \
	    $(or $(ARGS),--volume 512 --live 0.65 --turns 30)

bench-simulate: ## The whole engine against plain models: millions of steps, crashes at every kind of work
	cargo run --release --locked -p seiner-bench -- simulate $(ARGS)

bench-raid-matrix: ## The array under the paper's matrix of loads, modelled; syndromes a second
	cargo run --release --locked -p seiner-bench -- raid-matrix $(ARGS)

bench-raid-heldout: ## The array under loads by which merging is judged, modelled
	cargo run --release --locked -p seiner-bench -- raid-heldout $(ARGS)

bench-raid-phases: ## How soon the array follows a load that changes, modelled
	cargo run --release --locked -p seiner-bench -- raid-phases $(ARGS)

bench-raid-real: ## Arrays on real files behind a network block device: verified by fio, processor time a request
	scripts/need.sh fio nbdkit
	cargo run --release --locked -p seiner-bench -- raid-real $(ARGS)

bench-raid-faults: ## 100,000 seeded runs of the array under faults: ARGS='--runs 1000000' for more
	cargo run --release --locked -p seiner-bench -- raid-faults $(ARGS)

fuzz: ## Hostile bytes for every decoder, FUZZ_SECONDS each (nightly Rust and cargo-fuzz)
	scripts/fuzz.sh $(FUZZ_SECONDS)

fmt: ## Format the Rust code
	cargo fmt --all

doc: ## The reference of the Rust crates: target/doc
	cargo doc --locked --workspace --no-deps

clean: ## Remove everything that was built; data directories stay
	rm -rf target fuzz/target python/target web/dist web/node_modules
