# Pelton's commands. `make demo` and `make test` do everything on a fresh machine with Rust: they install what is
# missing, build once (one profile for demo, tests and benches) and keep the build outside the clone.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pelton/target
PELTON := $(CARGO_TARGET_DIR)/debug/pelton

.PHONY: help setup build demo demo-kafka test test-quick bench lint

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: ## install what is missing (compilers, headers, a JDK and Maven for the Kafka broker of the tests)
	@dev/setup.sh

build: setup ## build everything, tests too: one set of features, so that nothing is compiled twice
	@dev/build.sh build --workspace --all-targets $$(sed 's/^/--exclude /' dev/left-out.txt)

demo: build ## the main job over the files that come with it, killed half-way and started again
	@examples/inference/demo.sh "$(PELTON)"

demo-kafka: build ## the same statements between topics of a real broker (or BROKERS=host:port)
	@examples/inference/demo-kafka.sh "$(PELTON)"

test: build ## every test, those against a real Kafka broker too
	@dev/test.sh

test-quick: build ## every test that needs no broker
	@dev/test.sh quick

bench: build ## tables of figures, and JSON in the target directory; peers on the same core in the same run
	@benches/run.sh "$(PELTON)"

lint: setup ## format and clippy, warnings are errors
	@dev/build.sh fmt --all --check
	@dev/build.sh clippy --workspace --all-targets -- -D warnings
