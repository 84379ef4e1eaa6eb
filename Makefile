# Two commands are all a newcomer needs: `make demo` and `make test`. Both set up .venv on the way.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test campaign browser chromium conformance bench docs tables pictures lint clean

demo: $(READY)
	$(BIN)/pomona demo

# The report is tested in a real browser. Where there is none and none can be installed, `make test` says so and leaves
# these tests out; `make browser`, and .ci/run, fail.
BROWSER = $(and $(shell command -v chromium),$(shell command -v chromedriver))

test: $(READY) lint chromium
	$(BIN)/python -m pytest -n 2 -m "not conformance$(if $(BROWSER),, and not browser)"
	@$(if $(BROWSER),true,echo "NOT RUN: the browser tests. There is no chromium here and apt-get could not install it.")

browser: $(READY) chromium
	$(BIN)/python -m pytest -m browser

chromium:
	@command -v chromium > /dev/null && command -v chromedriver > /dev/null || \
	  (apt-get update -qq && apt-get install -y -qq chromium chromium-driver) > /dev/null 2>&1 || \
	  echo "chromium is missing: apt-get install chromium chromium-driver"

conformance: $(READY)
	@command -v eprover > /dev/null || (apt-get update -qq && apt-get install -y -qq eprover) || echo "the E prover is missing: apt-get install eprover"
	@command -v slurmctld > /dev/null || command -v /usr/sbin/slurmctld > /dev/null || \
	  echo "NOT RUN: sweeps on a real Slurm. There is none here: apt-get install slurm-wlm munge"
	$(BIN)/python -m pytest -m conformance -rs

# Kills, faults, mutated files, races and equal bits: about 15 minutes on one core. For an hour of one part:
# .venv/bin/python -m campaign kills --seconds 3600
campaign: $(READY)
	$(BIN)/python -m campaign

bench: $(READY)
	$(BIN)/python -m benchmarks

# The site, in build/docs/index.html. Tables and the API are made from the code on the way; a warning is an error.
docs: .venv/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "Open build/docs/index.html"

# The tables of README.md and docs/models.md, from the code and results/.
tables: $(READY)
	$(BIN)/python docs/generated.py

# The pictures of README.md and the docs: two small runs and a browser, about five minutes.
pictures: $(READY) chromium
	$(BIN)/python docs/pictures.py

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks campaign docs
	$(BIN)/mypy

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,train]'
	touch $(READY)

.venv/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
