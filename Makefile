# The front door. The build itself is CMake (CMakePresets.json); this file sets up the
# machine, calls it, and runs what comes out.

PREFIX  ?= /usr/local
DESTDIR ?=
JOBS    ?= $(shell nproc)
export JOBS

.PHONY: all demo test proof soak lint bench install clean help
.NOTPARALLEL:

all:
	@tools/setup.sh --check build
	@tools/build.sh release apps gradus gradus_static

demo:
	@tools/setup.sh build
	@tools/build.sh release apps
	@tools/demo.sh

test:
	@tools/setup.sh test
	@tools/test.sh

proof:
	@tools/setup.sh build
	@tools/build.sh dev test_nn_models
	@build/dev/tests/test_nn_models full

soak:
	@tools/setup.sh test
	@tools/build.sh dev
	@mkdir -p build/dev/scratch/soak && cd build/dev/scratch/soak && \
	    GR_BIN=$(CURDIR)/build/dev/bin GR_SOURCE=$(CURDIR) bash $(CURDIR)/tests/launch/soak.sh 100 && \
	    GR_BIN=$(CURDIR)/build/dev/bin GR_SOURCE=$(CURDIR) bash $(CURDIR)/tests/launch/stops.sh 200 && \
	    $(CURDIR)/build/dev/tests/test_ckpt_kill 500 && \
	    GR_BIN=$(CURDIR)/build/dev/bin bash $(CURDIR)/tests/multi/train_kill.sh 1000 && \
	    { GR_BIN=$(CURDIR)/build/dev/bin GR_SOURCE=$(CURDIR) bash $(CURDIR)/tests/launch/outage.sh long || \
	      [ $$? = 77 ]; }

lint:
	@tools/setup.sh lint
	@tools/build.sh dev
	@tools/lint.sh

bench:
	@tools/setup.sh build
	@tools/build.sh release benches
	@tools/bench.sh

install: all
	DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

clean:
	rm -rf build
	@if grep -qsx 'recipe: "shapes"' demo-run/config.yaml; then rm -rf demo-run; fi

help:
	@echo "make            build the release preset into build/release"
	@echo "make demo       train a small network here, in under a minute"
	@echo "make test       all tests; then again under the sanitizers"
	@echo "make proof      whole models of full size beside PyTorch's curves, some minutes"
	@echo "make soak       jobs started, stopped and killed at random, a thousand: nothing is lost or"
	@echo "                left behind, every checkpoint is whole, every record is there once; links"
	@echo "                between hosts cut for 12 s and 60 s"
	@echo "make lint       formatting and static analysis"
	@echo "make bench      the benchmarks"
	@echo "make install    into PREFIX (now $(PREFIX)), below DESTDIR if set"
	@echo "make clean      remove build/ and the demo's run"
	@echo
	@echo "demo, test, lint and bench install missing Debian or Ubuntu packages first,"
	@echo "as root or with sudo. JOBS=N limits parallel jobs (now $(JOBS))."
	@echo "One stage or test: tools/test.sh dev; ctest --test-dir build/dev -R NAME"
