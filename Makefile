# `make run` and `make test` set everything up themselves. PIP_ARGS goes to every pip call.
PYTHON ?= python3
PIP_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest -n 2

.PHONY: venv peers build run test test-long sanitize fuzz emulate lint bench clean

venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt CMakeLists.txt $(shell find csrc include -type f)
	$(PYTHON) -m venv $(VENV)
	@echo "installing torch, then building mhc-ops (minutes)"
	$(BIN)/pip install --quiet $(PIP_ARGS) -c constraints.txt torch
	$(BIN)/pip install --quiet $(PIP_ARGS) -c constraints.txt -e '.[dev]'
	touch $@

peers: $(VENV)/.peers

$(VENV)/.peers: $(VENV)/.installed
	$(BIN)/pip install --quiet $(PIP_ARGS) -c constraints.txt -e '.[peers]'
	touch $@

build: venv
	$(BIN)/pip install --quiet $(PIP_ARGS) -c constraints.txt --no-deps -e .

run: venv
	$(BIN)/mhc-ops demo

lint: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(PYTEST) -m 'not long'

test-long: peers sanitize fuzz emulate
	$(PYTEST)

# The C test program under the sanitizers; on std::thread for ThreadSanitizer, which misreads libgomp.
sanitize: venv
	tests/c/run.sh build/asan -DMHC_SANITIZE=address,undefined
	tests/c/run.sh build/tsan -DMHC_SANITIZE=thread -DMHC_STD_THREAD=ON

# Drawn calls of the aclnn library under AddressSanitizer, 10 minutes; SEED= for others.
SEED ?= 1
fuzz: sanitize
	ASAN_OPTIONS=allocator_may_return_null=1 UBSAN_OPTIONS=halt_on_error=1 build/asan/fuzz_aclnn 600 $(SEED)

# The same program for aarch64, cross-compiled and run by qemu-user (Debian: g++-aarch64-linux-gnu qemu-user).
emulate: venv
	tests/c/run.sh build/aarch64 --aarch64

bench: venv
	$(BIN)/python benchmarks/run.py --page

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
