"""Import an optional dependency, or say which extra brings it."""

from __future__ import annotations

import importlib
from types import ModuleType

from trajstore.errors import MissingDependencyError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import ``module`` or explain how to get it.

    Args:
        module: dotted name, e.g. ``"s3fs"``.
        extra: the extra of trajstore that installs it.
        purpose: what the caller needs it for, in a few words.

    Raises:
        MissingDependencyError: the module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        message = (
            f"{purpose} needs the package '{module}', which is not installed. "
            f"Install it with: pip install 'trajstore[{extra}]'"
        )
        raise MissingDependencyError(message) from error
