# The only entry for people, README and CI. Every target sets up what it needs.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
DEMO_PLAN := plans/demo-three-web-servers.toml
DEMO_FILES_PLAN := plans/demo-samba-strict-sync.toml

# The profile shares its dependencies with the native module, see Cargo.toml.
RUST_TESTS := --profile bench --workspace --locked
QUICK := tests/analysis tests/plan tests/published tests/report tests/store tests/project/test_ci.py \
	tests/project/test_documents.py tests/project/test_tidy.py tests/project/test_tidy_modules.py tests/project/test_wording_banned.py

.PHONY: help demo test test-quick test-long test-rust test-python lint lint-rust lint-python format bench docs gallery site fuzz wheel setup servers servers-objects servers-for-tests lock clean

help: ## Say what can be made.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

# The environment is made anew when the lock changes, the native module when any Rust source does.
$(VENV)/.installed: requirements.lock
	@echo "installing Python packages into $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --requirement requirements.lock
	touch $@

# Of the dynamic page: servers that we start run it by CGI and FastCGI.
PAGE_PROGRAM := python/serverdyno/servers/dynamic/dyno-page

RUST := Cargo.toml Cargo.lock $(shell find crates -path '*/tests' -prune -o \( -name '*.rs' -o -name '*.toml' \) -print)

# Static, so that a web server may start it anywhere, and small, as each request starts it.
# With --jobs=2 it is made, and all crates are fetched, while pip fetches. A build says which crates can't be had.
$(PAGE_PROGRAM): $(RUST)
	@cargo fetch --quiet --locked || true
	cargo rustc --package dyno-page --bin dyno-page --profile program --locked --quiet -- -C target-feature=+crt-static
	install -D target/program/dyno-page $@

$(VENV)/.built: $(VENV)/.installed $(PAGE_PROGRAM) $(RUST) pyproject.toml
	@echo "building the native module, which takes 1 to 4 minutes"
	. $(BIN)/activate
	# It prints four lines even if all is well.
	PIP_QUIET=1 maturin develop --release --locked --quiet >target/develop.log 2>&1 || { cat target/develop.log; exit 1; }
	touch $@

setup: $(VENV)/.built ## Make the virtual environment and build the native module.

servers: ## Install Apache, nginx, lighttpd and Samba from Debian's packages, where root and missing.
	@tools/install-servers.sh

servers-objects: setup ## Install SeaweedFS, rclone and (with Go) versitygw; WITH="minio garage": these, too.
	@tools/install-object-servers.sh $(VENV) $(WITH)

servers-for-tests: # These, and the other clients and tools that tests hold ours against.
	@tools/install-servers.sh tests

demo: ## Measure three web servers, then Samba (as root); a report each, in about ten minutes with the build.
	@echo "1/3 building, and installing Apache, nginx, lighttpd and Samba where they are missing (2 to 3 minutes)"
	$(MAKE) --no-print-directory --jobs=2 setup servers
	plan=$(DEMO_PLAN)
	if $(BIN)/dyno plan check $$plan | grep "is not installed"; then
		echo "The reference server is measured instead."
		plan=plans/quick-web.toml
	fi
	echo "2/3 web servers: $$plan"
	web=experiments/demo-web-$$(date -u +%Y%m%d-%H%M%S)
	$(BIN)/dyno run $$plan --into $$web
	files=
	if ! PATH=$$PATH:/usr/sbin command -v smbd >/dev/null; then
		echo "3/3 skipped, the file server: smbd is not installed (Debian package samba)."
	elif [ "$$(id -u)" != 0 ]; then
		echo "3/3 skipped, the file server: its syncs are counted in the kernel, which takes root."
	else
		echo "3/3 file server: $(DEMO_FILES_PLAN)"
		files=experiments/demo-files-$$(date -u +%Y%m%d-%H%M%S)
		$(BIN)/dyno run $(DEMO_FILES_PLAN) --into $$files
	fi
	$(BIN)/python tools/demo_end.py $$web $$files

test: test-rust test-python ## Run every test but the long ones.

test-quick: setup ## Run the tests that need no server and no root, in a minute.
	cargo test $(RUST_TESTS) --quiet --test cache --test workload
	$(BIN)/pytest --numprocesses 2 -m "not long" $(QUICK)

test-long: setup servers-for-tests ## Run the tests that take minutes each.
	$(BIN)/pytest -m long

# A test skips where a program that it needs is missing, so all are installed before the first test.
test-rust: setup servers-for-tests
	# Most of a test is waiting.
	RUST_TEST_THREADS=6 cargo test $(RUST_TESTS) --quiet

test-python: setup servers-for-tests
	# Most of a test is waiting; tests/conftest.py says which tests may run side by side.
	$(BIN)/pytest --numprocesses 6 -m "not long"

lint: lint-python lint-rust ## Check format, lints and types; a warning is an error.

lint-rust: setup
	cargo fmt --all --check
	# Of libFuzzer, only the name is needed to check the fuzz targets: to make it takes a C++ compiler.
	CUSTOM_LIBFUZZER_PATH=none/libfuzzer.a cargo clippy $(RUST_TESTS) --all-targets --quiet -- -D warnings

lint-python: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: setup ## Format everything.
	cargo fmt --all
	$(BIN)/ruff check --fix --quiet
	$(BIN)/ruff format

bench: setup servers-for-tests ## Measure Serverdyno itself against its peers; results under benches/runs/.
	# In a network namespace of its own where root may make one, with plain congestion control for all:
	# BBR, where it is the system's default, paces with timers that cost every tool and every server CPU time.
	$(BIN)/python -c 'from benches.peers import install_missing; install_missing()'
	run="$(BIN)/python -m benches"
	if [ "$$(id -u)" = 0 ]; then
		unshare --net sh -c "ip link set lo up && echo reno >/proc/sys/net/ipv4/tcp_congestion_control && exec $$run"
	else
		$$run
	fi

fuzz: ## Fuzz each parser of what others send for a minute (needs cargo-fuzz: cargo install cargo-fuzz).
	for target in response content_coding h2_session smb_message nfs_message nfs4_message nfs_call s3_answer s3_request tls_records; do \
		mkdir -p fuzz/corpus/$$target && \
		RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none $$target fuzz/corpus/$$target fuzz/seeds/$$target -- \
			-max_total_time=60 -max_len=4096 || exit 1; \
	done

docs: setup servers ## Measure the demo's plans anew (5 minutes) and write the example reports that the README links.
	$(BIN)/python tools/example_report.py
	$(BIN)/python tools/gallery.py --pages

gallery: setup servers-for-tests ## Run the plans of the five published reports (hours; PLANS=names: only these) and write their pages.
	$(BIN)/python tools/gallery.py $(PLANS)

site: setup ## Build the documents as a site into target/site; a broken link is an error.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "target/site/index.html"

wheel: $(VENV)/.built ## Build a wheel (abi3, manylinux) and try it in an empty environment without Rust and gcc.
	. $(BIN)/activate
	rm -rf target/wheels
	maturin build --release --locked --quiet --auditwheel check --out target/wheels
	$(BIN)/python tools/try_wheel.py target/wheels/*.whl

lock: ## Write requirements.lock anew from pyproject.toml (needs uv).
	uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --universal --python-version 3.11 \
		--extra report --extra pdf --extra fleet --extra live \
		--group dev pyproject.toml --output-file requirements.lock

clean: ## Remove everything that was built; experiments stay.
	rm -rf $(VENV) target python/serverdyno/*.so
