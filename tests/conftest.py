"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trajstore import Pool
from trajstore import open as open_store

_DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"


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
