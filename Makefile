# The two commands are `make run` and `make test`; both install what is missing first. Everything else is Meson's work.
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
SEEDS ?= 2000
SERVER_SEEDS ?= 5000
STORE_SEEDS ?= 100
FAULTS ?= 2
N ?= 20

.DEFAULT_GOAL := all
.PHONY: promises promises-planted campaign all run test check bench fuzz lint sim soak install deb clean setup

all:
	@tools/build $(BUILD)

setup:
	@tools/setup

run: setup
	@tools/build $(BUILD)
	@if [ -x tools/demo ]; then exec tools/demo $(BUILD)/weir; else exec $(BUILD)/weir serve; fi

test: setup
	@exec test/run

# what people run while they work: a part of `make test`
check: setup
	@exec test/run check

bench: setup
	@tools/build $(BUILD)
	@exec bench/run $(BUILD)/weir

# A simulated year: what it leaves in the tables that come and go, and in memory, is what its first week left.
soak: setup
	@tools/build build && WEIR_SOAK_DAYS=365 build/test/unit/engine/test_soak && \
		WEIR_SOAK_DAYS=365 test/lib/postgres.py build/test/unit/engine/test_soak

# Histories of the engine on virtual time, in a plain optimized build of their own (test/sim/README.md).
sim: setup
	@test -f build-sim/build.ninja || meson setup build-sim --buildtype=release >/dev/null
	@ninja --quiet -C build-sim test/sim/sim test/sim/sim-planted && build-sim/test/sim/sim --small $(FAULTS) && \
		build-sim/test/sim/sim --seeds 1 $(SEEDS) && build-sim/test/sim/sim --servers --seeds 1 $(SERVER_SEEDS) && \
		build-sim/test/sim/sim --changesets --seeds 1 $(SEEDS) && build-sim/test/sim/sim --changesets --servers --seeds 1 $(SEEDS) && \
		build-sim/test/sim/sim --quotas --seeds 1 $(SERVER_SEEDS) && build-sim/test/sim/sim --quotas --servers --seeds 1 $(SERVER_SEEDS) && \
		exec test/sim/on_stores.py build-sim/test/sim/sim $(STORE_SEEDS) $(STORE_SEEDS)

fuzz: setup
	@exec tools/fuzz $(FUZZ_SECONDS)

# the promises of RELIABILITY.md as one table; the campaign is N times the size, with a ledger in doc/campaign-ledger.tsv
promises: setup
	@exec test/promises/run

promises-planted: setup
	@exec test/promises/run --planted

campaign: setup
	@exec test/promises/run --campaign $(N)

lint:
	@tools/setup lint
	@exec tools/lint

install:
	@tools/build $(BUILD) -Dprefix='$(PREFIX)'
	@meson install -C $(BUILD) --no-rebuild --destdir '$(DESTDIR)'

deb: setup
	@exec tools/deb

clean:
	rm -rf build build-asan build-clang build-fuzz build-fail build-planted build-deb
