"""The version of the form on disk, and each step between versions."""

from __future__ import annotations

from trajstore.errors import StoreFormatError

SCHEMA_VERSION = 2
"""Version of the tables on disk. It goes up with any change that an older reader would misread.

1. Every step has its calls and results as lists.
2. A step with at most one call and one result has them as plain columns. Files of version 1 are
   read as they are; the first write to such a store makes it one of version 2.
"""

OLDEST_VERSION = 1
"""Oldest version that is still read."""


def check_version(found: int, *, path: str) -> None:
    """Refuse a store of a version that is not read, with the way out."""
    if OLDEST_VERSION <= found <= SCHEMA_VERSION:
        return
    if found > SCHEMA_VERSION:
        message = (
            f"The store at {path} has format version {found}; this trajstore reads up to "
            f"{SCHEMA_VERSION}. Upgrade it: pip install --upgrade trajstore"
        )
    else:
        message = f"The store at {path} names format version {found}, which never existed."
    raise StoreFormatError(message, path=path)
