"""Token ids and log-probabilities are taken whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from trajstore.importers.token_lists import logprobs, token_ids


def test_lists_are_kept_in_order() -> None:
    assert token_ids([3, 1, 0, 2**31 - 1]) == (3, 1, 0, 2**31 - 1)
    assert logprobs([-0.5, -1]) == (-0.5, -1.0)


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_nothing_is_none(nothing: Any) -> None:
    assert token_ids(nothing) is None
    assert logprobs(nothing) is None


@pytest.mark.parametrize("bad", ["12", {"a": 1}, 5, [1.5], ["1"], [True], [-1], [2**31], [None]])
def test_what_is_no_token_id_is_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="token id"):
        token_ids(bad)


@pytest.mark.parametrize("bad", ["12", {"a": 1}, 5, ["-0.5"], [True], [None], [[-0.5]]])
def test_what_is_no_logprob_is_refused(bad: Any) -> None:
    with pytest.raises(TypeError, match="log-probabilit"):
        logprobs(bad)
