"""Fixtures shared by all tests."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from trajstore import Pool
from trajstore import open as open_store

# Threads of torch wait for each other in a loop: with small models and a test on every core that is
# half of what they do. Read when torch is loaded, and by the processes that tests start.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# How long an example takes says how busy the machine is, not whether the code is right.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests first, so that with ``-n`` none of them is alone at the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Ten thousand collected tests are no garbage: a collection in a test need not look at them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of recorded trajectories (``TRAJSTORE_REAL_DATA``); must be there in CI."""
    folder = Path(os.environ.get("TRAJSTORE_REAL_DATA", _DEFAULT))
    if (folder / "PROVENANCE.md").is_file():
        return folder
    message = (
        f"no real trajectories at {folder}: set TRAJSTORE_REAL_DATA to the folder that holds them"
    )
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    """An empty store; not fsynced, which the tests of durability do themselves."""
    return open_store(tmp_path / "pool", durable=False)
