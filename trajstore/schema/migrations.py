"""The version of the form on disk, and each step between versions."""

from __future__ import annotations

from trajstore.errors import StoreFormatError

SCHEMA_VERSION = 1
"""Version of the tables on disk. It goes up with any change that an older reader would misread."""


def check_version(found: int, *, path: str) -> None:
    """Refuse a store of another version, with the way out.

    Version 1 is the first, so there is nothing to migrate from yet; a newer store needs a newer
    trajstore.
    """
    if found == SCHEMA_VERSION:
        return
    if found > SCHEMA_VERSION:
        message = (
            f"The store at {path} has format version {found}; this trajstore reads up to "
            f"{SCHEMA_VERSION}. Upgrade it: pip install --upgrade trajstore"
        )
    else:
        message = f"The store at {path} names format version {found}, which never existed."
    raise StoreFormatError(message, path=path)
