# Every target installs what it needs, on macOS or Linux with Python 3.11 or later and make.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
    command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    2>/dev/null && { echo $$p; break; }; done)

# MLX's backend, an extra of the package: cpu, cuda12 or cuda13 on Linux. On macOS MLX has one backend.
MLX_BACKEND ?= $(if $(filter Linux,$(shell uname -s)),cpu)

# An environment has one backend, since the packages of two overwrite each other's files.
VENV := .venv$(patsubst %,-%,$(filter-out cpu,$(MLX_BACKEND)))
BIN := $(VENV)/bin
# The runtime and the backend; INSTALLED-NAME adds the extra NAME.
INSTALLED := $(VENV)/.installed

# Benchmarks use helpers of the tests.
BENCHMARKS := PYTHONPATH=tests/support $(BIN)/python benchmarks

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

PYTEST_ARGS ?=
WORKERS ?= auto
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
SERVE_ARGS ?=
BENCH_ARGS ?=
AUDIT_ARGS ?=
MEMORY_ARGS ?=
GROWTH_ARGS ?=
GRAMMARS_ARGS ?=
E2E_ARGS ?=
SPECULATION_ARGS ?=
VISION_ARGS ?=
HOSTILE_ARGS ?=
QUALITY_ARGS ?=
BFCL_ARGS ?=
FUZZ_ARGS ?=
COMPAT_ARGS ?=
PROCESSORS_ARGS ?=
RAY_ARGS ?=
RUNTIMES ?= torch llama-cpp-python
NOTEBOOKS ?=

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-ray test-runtimes runtime-tests processor-figures coverage matrix data lint docs notebooks screenshots bench audit memory growth bench-grammars bench-tools bench-e2e bench-free-texts bench-speculation bench-heads bench-validity bench-prefix-reuse bench-vision bench-hostile bench-quality bench-bfcl bench-calibration bench-processors bench-distributed bench-prompt-cache bench-ray plots fuzz ledgers compat test-js-readers soak model speech-model clean

help:
	@echo "make demo          a real model turns a text into JSON that matches a schema"
	@echo "make serve         the OpenAI-compatible server (SERVE_ARGS='--port N')"
	@echo "make test          all tests (PYTEST_ARGS=... for pytest, WORKERS=0 for one process)"
	@echo "make test-runtimes  logits processors with transformers and llama-cpp-python, in .venv-runtimes"
	@echo "make test-ray      extraction on a cluster of Ray on this machine; minutes"
	@echo "make coverage      all tests, with coverage of lines and branches"
	@echo "make matrix        all tests with every installed Python of 3.11 to 3.14"
	@echo "make lint          style and types"
	@echo "make docs          the documentation site, in build/site"
	@echo "make notebooks     execute the notebooks in docs/notebooks and save their outputs (NOTEBOOKS='tools batch')"
	@echo "make screenshots   the screenshots in docs/images, with Chromium"
	@echo "make data          MaskBench for the tests (MASKBENCH=path/to/jsonschemabench)"
	@echo "make ledgers       compute the conformance ledgers again"
	@echo "make test-js-readers  zod, valibot, TypeBox and arktype read texts under the masks of their schemas"
	@echo "make compat        run other projects' clients against the server (COMPAT_ARGS='instructor llm')"
	@echo "make fuzz          search for failing schemas, generated and near those of MaskBench (FUZZ_ARGS for pytest)"
	@echo "make release-check  build sdist and wheels, and try each in clean environments"
	@echo "make soak          the long end-to-end run with the embedded model"
	@echo "make bench         masks on MaskBench (BENCH_ARGS='--data FILE.jsonl.gz --tokenizer FILE')"
	@echo "make audit         keywords that engines refuse or get wrong (AUDIT_ARGS='--data ... --tokenizer FILE')"
	@echo "make memory        memory over many schemas and texts (MEMORY_ARGS='--data ... --tokenizer FILE')"
	@echo "make growth        growth of costs with size (GROWTH_ARGS='--tokenizer FILE')"
	@echo "make bench-grammars  masks of grammars, beside llguidance and XGrammar (GRAMMARS_ARGS='--only json.lark')"
	@echo "make bench-tools   sets of tools, beside llguidance and XGrammar (TOOLS_ARGS='--repeats 3')"
	@echo "make bench-e2e     whole requests with a model (E2E_ARGS='--data FILE.jsonl.gz')"
	@echo "make bench-free-texts  a batch of free texts, beside mlx-lm's batch_generate (FREE_TEXTS_ARGS='--model 8x256')"
	@echo "make bench-speculation  time and forward passes with drafts (SPECULATION_ARGS='--repeats 3')"
	@echo "make bench-heads   tokens per pass with draft heads of a known agreement (HEADS_ARGS='--documents 5')"
	@echo "make bench-validity  validity by kind of constraint, drafts, batch and sampling (VALIDITY_ARGS='--answers 32')"
	@echo "make bench-prefix-reuse  prompt tokens that conversations process again (PREFIX_REUSE_ARGS='--turns 20')"
	@echo "make bench-vision  questions about images, beside mlx-vlm (VISION_ARGS='--repeats 5')"
	@echo "make bench-hostile the effect of hostile requests on a server's clients (HOSTILE_ARGS=...)"
	@echo "make bench-calibration  how often values of each confidence are right (CALIBRATION_ARGS='--records 40')"
	@echo "make bench-quality quality of constrained answers (QUALITY_ARGS='--records 40 --arms all')"
	@echo "make bench-bfcl    tool calls on the Berkeley Function Calling Leaderboard (BFCL_ARGS='--cases 20')"
	@echo "make bench-processors  loop cost of logits processors, beside llguidance's (PROCESSORS_ARGS=...)"
	@echo "make bench-distributed  the time of a token that several ranks compute (DISTRIBUTED_ARGS=...)"
	@echo "make bench-prompt-cache  prompt caches on disk: first token, look-ups, writes (PROMPT_CACHE_ARGS=...)"
	@echo "make bench-ray     extraction on Ray with one and two actors, and memory of the driver (RAY_ARGS='--rows 2000')"
	@echo "make plots         plots and tables of docs/performance.md, from the figures in docs/plots"

demo: model
	@echo "The text:   $$(cat examples/person.txt)"
	@echo "The schema: examples/person.json"
	@echo "The answer, token by token:"
	@$(BIN)/python -m proxy_engine extract --stream \
	    --schema examples/person.json examples/person.txt
	@echo
	@echo "To use it with OpenAI's clients, run 'make serve', and in another shell:"
	@cat examples/ask.sh

serve: $(INSTALLED)-server model
	$(BIN)/python -m proxy_engine serve $(SERVE_ARGS)

# The tests of a file share fixtures, like a server, so a file runs in one process. tests/conftest.py
# orders the files. Without bytecode, each of the interpreters that tests start would compile the package.
TESTS := PYTHONDONTWRITEBYTECODE=

test: $(INSTALLED)-dev model speech-model
	$(TESTS) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# torch and llama-cpp-python are too large for the development environment. llama-cpp-python is compiled.
test-runtimes:
	@$(MAKE) --no-print-directory runtime-tests VENV=.venv-runtimes

runtime-tests: $(INSTALLED)-runtimes model
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/state_machines/processors \
	    tests/proxy_engine/integrations/test_mlx_lm.py $(PYTEST_ARGS)

# Starting a cluster and its actors takes tens of seconds, so these tests are not part of `make test`.
test-ray: $(INSTALLED)-dev $(INSTALLED)-ray model
	$(BIN)/python -m pytest -m 'soak or not soak' tests/proxy_engine/integrations/ray $(PYTEST_ARGS)

coverage: $(INSTALLED)-dev model speech-model
	$(TESTS) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --cov --cov-report=term:skip-covered $(PYTEST_ARGS)

matrix:
	@for python in $(PYTHONS); do \
	    if command -v $$python >/dev/null 2>&1; then \
	        $(MAKE) test PYTHON=$$python VENV=.venv-$$python || exit 1; \
	    else echo "$$python is not installed"; fi; \
	done

data: $(INSTALLED)-dev
	$(BIN)/python tests/support/data_files.py $(MASKBENCH)

lint: $(INSTALLED)-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Material for MkDocs writes a notice about its successor unless this variable is set.
docs: $(INSTALLED)-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

notebooks: $(INSTALLED)-dev model speech-model
	$(BIN)/python tests/support/notebook_outputs.py $(NOTEBOOKS)

screenshots: docs model $(INSTALLED)-dev
	PYTHONPATH=tests/support $(BIN)/python tests/support/screenshots.py

bench: $(INSTALLED)-bench
	$(BENCHMARKS)/maskbench.py $(BENCH_ARGS)

audit: $(INSTALLED)-bench
	$(BENCHMARKS)/audit.py $(AUDIT_ARGS)

memory: $(INSTALLED)-bench
	$(BENCHMARKS)/memory.py $(MEMORY_ARGS)

growth: $(INSTALLED)-bench
	$(BENCHMARKS)/growth.py $(GROWTH_ARGS)

bench-tools: $(INSTALLED)-bench
	$(BENCHMARKS)/tools.py $(TOOLS_ARGS)

bench-grammars: $(INSTALLED)-bench
	$(BENCHMARKS)/grammars.py $(GRAMMARS_ARGS)

bench-e2e: $(INSTALLED)-bench model
	$(BENCHMARKS)/end_to_end.py $(E2E_ARGS)

bench-free-texts: $(INSTALLED)-bench model
	$(BENCHMARKS)/free_texts.py $(FREE_TEXTS_ARGS)

bench-speculation: $(INSTALLED)-bench model
	$(BENCHMARKS)/end_to_end.py --figures speculation,speculation-batch,draft-model \
	    --model 8x256 $(SPECULATION_ARGS)

bench-heads: $(INSTALLED)-bench model
	$(BENCHMARKS)/draft_heads.py $(HEADS_ARGS)

bench-validity: $(INSTALLED)-bench model
	$(BENCHMARKS)/validity.py $(VALIDITY_ARGS)

bench-prefix-reuse: $(INSTALLED)-bench model
	$(BENCHMARKS)/prefix_reuse.py $(PREFIX_REUSE_ARGS)

bench-vision: $(INSTALLED)-bench model
	$(BENCHMARKS)/vision.py $(VISION_ARGS)

bench-hostile: $(INSTALLED)-bench model
	$(BENCHMARKS)/hostile_load.py $(HOSTILE_ARGS)

bench-bfcl: $(INSTALLED)-bench model
	$(BIN)/python benchmarks/bfcl.py $(BFCL_ARGS)

bench-calibration: $(INSTALLED)-bench model
	$(BENCHMARKS)/calibration.py $(CALIBRATION_ARGS)

bench-quality: $(INSTALLED)-bench model
	$(BENCHMARKS)/quality.py $(QUALITY_ARGS)

bench-distributed: $(INSTALLED)-bench model
	$(BENCHMARKS)/distributed.py $(DISTRIBUTED_ARGS)

bench-prompt-cache: $(INSTALLED)-bench model
	$(BENCHMARKS)/prompt_cache_disk.py $(PROMPT_CACHE_ARGS)

bench-processors:
	@$(MAKE) --no-print-directory processor-figures VENV=.venv-runtimes

processor-figures: $(INSTALLED)-runtimes model
	OMP_NUM_THREADS=1 $(BENCHMARKS)/logits_processors.py $(PROCESSORS_ARGS)

bench-ray: $(INSTALLED)-bench $(INSTALLED)-ray model
	$(BENCHMARKS)/ray_extraction.py $(RAY_ARGS)

plots: $(INSTALLED)-bench
	$(BENCHMARKS)/plots.py

fuzz: $(INSTALLED)-dev
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -m 'soak or not soak' \
	    tests/state_machines/json_schema/test_invariants.py \
	    tests/state_machines/json_schema/test_near_real_schemas.py $(FUZZ_ARGS)

ledgers: $(INSTALLED)-dev
	$(BIN)/python tests/conformance/ledger.py
	$(BIN)/python tests/conformance/lark_ledger.py
	$(BIN)/python tests/conformance/type_ledger.py

# Each client is installed in an environment of its own, in the cache directory.
compat: $(INSTALLED)-dev model
	PYTHONPATH=tests/support $(BIN)/python tests/compat/run.py $(COMPAT_ARGS)

# The libraries are installed in a temporary directory, at the versions in package.json; needs node and npm.
READERS_ARGS ?=
test-js-readers: $(INSTALLED)-dev
	PYTHONPATH=tests/support $(BIN)/python tests/compat/js_validators/check.py $(READERS_ARGS)

# The distributions in dist, and clean environments in which they are installed; needs PyPI.
RELEASE_ARGS ?=
.PHONY: release-check
release-check: $(INSTALLED)-release model
	$(BIN)/python tests/release/release_check.py $(RELEASE_ARGS)

soak: $(INSTALLED)-dev model
	$(BIN)/python -m pytest -m soak $(PYTEST_ARGS)

model: $(INSTALLED)
	@$(BIN)/python -m proxy_engine fetch-model >/dev/null

speech-model: $(INSTALLED)
	@$(BIN)/python -m proxy_engine fetch-model whisper-tiny.en >/dev/null

clean:
	rm -rf $(VENV) .venv .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed, and none was found;" \
	    "name one with 'make PYTHON=/path/to/python'." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(BIN)/python pyproject.toml
	@echo "Installing into $(VENV) (once; about a minute)"
	@$(PIP_INSTALL) --editable '.$(MLX_BACKEND:%=[%])'
	@touch $@

$(INSTALLED)-%: $(INSTALLED)
	@echo "Installing the extra '$*' into $(VENV) (once)"
	@$(PIP_INSTALL) --editable '.[$*$(MLX_BACKEND:%=,%)]'
	@touch $@

$(INSTALLED)-runtimes: $(INSTALLED)
	@echo "Installing $(RUNTIMES) into $(VENV) (once; llama-cpp-python takes many minutes)"
	@$(PIP_INSTALL) pytest hypothesis 'llguidance>=1.0' $(RUNTIMES)
	@touch $@

# The helpers of the tests need the packages of the tests.
$(INSTALLED)-bench: $(INSTALLED)-dev

