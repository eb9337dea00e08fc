# Two commands: `make site` sets everything up and proves it; `make test` tests trainrig itself.
# INVENTORY chooses the fleet, ARGS adds options: make site INVENTORY=inventories/prod ARGS="--limit node-a"
INVENTORY ?= inventories/local
ARGS ?=
PYTHON ?=
REQUIRE ?=

# A world-writable checkout makes Ansible ignore its ansible.cfg without a word.
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
BIN := $(CURDIR)/.venv/bin

.DEFAULT_GOAL := help
.PHONY: help site plan verify test test-slow fuzz bench lint docs data-refresh lab lab-clean setup setup-dev clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

site: setup ## Set the inventory's nodes up, verify them, write the report
	@"$(BIN)/ansible-playbook" site.yml -i "$(INVENTORY)" $(ARGS)

plan: setup ## Say what `make site` would do and why; change nothing
	@"$(BIN)/ansible-playbook" playbooks/plan.yml -i "$(INVENTORY)" $(ARGS)

verify: setup ## Verify only; ARGS="-e trainrig_python=/path" for an environment that is not ours
	@"$(BIN)/ansible-playbook" playbooks/verify.yml -i "$(INVENTORY)" $(ARGS)

setup:
	@tools/setup controller "$(PYTHON)"

setup-dev:
	@tools/setup dev "$(PYTHON)"

test: setup-dev ## Run every test this machine can run in reasonable time
	@"$(BIN)/python" tools/tiers.py test --require "$(REQUIRE)"

test-slow: setup-dev ## Run the slow tiers (kills, more on real nodes, drivers, long fuzz)
	@"$(BIN)/python" tools/tiers.py test-slow

fuzz: setup-dev ## Run the long fuzz (bundles, logs, simulated fleets)
	@"$(BIN)/python" tools/tiers.py fuzz

bench: setup-dev ## Print speed ratios measured in one run
	@"$(BIN)/python" tools/tiers.py bench

lint: setup-dev ## ruff, mypy, yamllint, ansible-lint, ansible-test sanity
	@"$(BIN)/python" tools/tiers.py lint

docs: setup-dev ## Write the generated parts of docs/ again
	@for page in tools/*_page.py; do "$(BIN)/python" $$page || exit 1; done

data-refresh: setup ## Compare data/torch.yml with the package index; ARGS=--write writes what differs
	@"$(BIN)/python" tools/data_refresh.py $(ARGS)

lab: setup ## Make throw-away nodes here (root, Debian); ARGS="--nodes 4 --base debian13"
	@"$(BIN)/python" -m tools.lab up $(ARGS)

lab-clean: setup ## Remove them and all that was made for them
	@"$(BIN)/python" -m tools.lab clean $(ARGS)

clean: ## Remove the environment and caches of this checkout (reports stay)
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .ansible .hypothesis
