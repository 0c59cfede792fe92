# Thin names for what cmake and the scripts in tools/ do. `make help` lists them.
PREFIX ?= /usr/local
prefix := $(patsubst ~/%,$(HOME)/%,$(PREFIX))
jobs := $(or $(JOBS),$(shell nproc))
MAKEFLAGS += --no-print-directory

.PHONY: help demo build web quick test check fuzz attack soak bench lint format docs install deb wheel clean

help:  ## this list
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' Makefile

demo:  ## build the program, in five minutes on two cores, and watch it work, offline
	@tools/setup build
	@tools/build demo --target cubepi_app
	@build/demo/bin/cubepi demo

build:  ## build everything for development (build/dev)
	@tools/setup all
	@tools/build dev

quick:  ## after an edit: the tests of the core, the providers, the agent and the pipeline that it can affect
	@tools/setup all
	@tools/run-tests dev --changed --only 'core|schema|provider|agent|bub|bub_channel|bub_builtin'

test:  ## build once with clang and run all tests, with the servers they need
	@tools/setup all
	@tools/run-tests dev

check:  ## all that must hold before a change lands (ALL=1: before a release)
	@tools/setup all
	@tools/check

fuzz:  ## search for inputs that break something, SECONDS=60 for each fuzz target
	@tools/setup all
	@tools/fuzz "$(or $(SECONDS),60)"

attack:  ## attack it FACTOR=20 times as often as the tests do, from a new seed
	@tools/setup all
	@tools/attack "$(or $(FACTOR),20)"

soak:  ## run a gateway under hostile clients for MINUTES=30 (CLUSTER=1 MESSAGES=1000000: several gateways and faults)
	@tools/setup all
	@tools/soak $(if $(CLUSTER),--cluster) "$(or $(MINUTES),30)" $(if $(CLUSTER),$(MESSAGES))

bench:  ## measure against the floors of bench/README.md (PEERS=1: also other systems)
	@tools/setup all
	@tools/build release -DCUBEPI_BUILD_BENCH=ON
	@bench/run build/release
	@if [ "$(PEERS)" = 1 ]; then bench/peers/run build/release; fi

lint:  ## format, module order, coroutine rules, words, headers that compile alone
	@tools/setup all
	@tools/lint

format:  ## format the C++ files that git knows
	@tools/check-format --fix

docs:  ## check the links and compile the snippets of README and docs/
	@tools/setup all
	@tools/check-docs

web:  ## build the page of the web console from web/ into web/dist, which the program contains
	@tools/web

install:  ## install library and program, e.g. make install PREFIX=~/.local
	@tools/setup build
	@tools/build release
	@cmake --install build/release --prefix "$(prefix)"

deb:  ## Debian packages of library and program, in build/packages
	@tools/setup build
	@tools/build release
	@cd build/release && cpack -G DEB -B ../packages

wheel:  ## a Python wheel and an npm package of the program, in build/packages
	@tools/setup all
	@tools/build release --target cubepi_app
	@tools/package build/release/bin/cubepi build/packages

clean:  ## remove everything that was built
	rm -rf build
