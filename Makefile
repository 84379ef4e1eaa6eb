# Two commands are all a newcomer needs: `make demo` and `make test`. Both set up .venv on the way.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test conformance bench lint clean

demo: $(READY)
	$(BIN)/pomona demo

test: $(READY) lint
	$(BIN)/python -m pytest -n 2 -m "not conformance"

conformance: $(READY)
	@command -v eprover > /dev/null || (apt-get update -qq && apt-get install -y -qq eprover) || echo "the E prover is missing: apt-get install eprover"
	$(BIN)/python -m pytest -m conformance

bench: $(READY)
	$(BIN)/python -m benchmarks

lint: $(READY)
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
