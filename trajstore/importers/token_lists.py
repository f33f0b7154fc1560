"""Token ids and log-probabilities as sources hold them, checked."""

from __future__ import annotations

from typing import Any

_LARGEST = 2**31


def token_ids(value: Any) -> tuple[int, ...] | None:
    """A list of token ids; None where it is empty or not there.

    Raises:
        TypeError: it is no list of whole numbers that a 32-bit column holds.
    """
    if value is None or value in ([], ()):
        return None
    if not isinstance(value, list | tuple):
        raise TypeError(f"token ids are a list of whole numbers, not {value!r:.40}")
    for token in value:
        if type(token) is not int or not 0 <= token < _LARGEST:
            raise TypeError(f"a token id is a whole number, not {token!r:.40}")
    return tuple(value)


def logprobs(value: Any) -> tuple[float, ...] | None:
    """A list of log-probabilities; None where it is empty or not there.

    Raises:
        TypeError: it is no list of numbers.
    """
    if value is None or value in ([], ()):
        return None
    if not isinstance(value, list | tuple):
        raise TypeError(f"log-probabilities are a list of numbers, not {value!r:.40}")
    for number in value:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise TypeError(f"a log-probability is a number, not {number!r:.40}")
    return tuple(float(number) for number in value)
