"""What a measurement would look at again and again, out of its way."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def _only_its_own_garbage() -> None:
    """A clock starts after a collection, which is slow where thousands of tests ran before."""
    gc.collect()
    gc.freeze()
