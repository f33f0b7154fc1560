from __future__ import annotations

import gc
import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.rollouts.environments.arithmetic import (
    MAX_LENGTH,
    ExpressionError,
    evaluate,
    format_number,
)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("0.1 + 0.2", "0.3"),
        ("10 / 4", "2.5"),
        ("7 // 2 + 7 % 2", "4"),
        ("-7 // 2", "-4"),
        ("2 ** 10", "1024"),
        ("2 ** -2", "0.25"),
        ("-3 ** 2", "-9"),
        ("--3", "3"),
        ("(8849 - 8611) * 3.28", "780.64"),
        ("sqrt(2) * sqrt(2)", "2"),
        ("sqrt(9 / 4)", "1.5"),
        ("round(2 / 3, 2)", "0.67"),
        ("round(2.5)", "2"),
        ("max(1, 5, 3) - min(4, 2) + abs(-1)", "4"),
        (".5 * 4", "2"),
        ("1 / 3", "0.3333333333"),
        ("1**999999999", "1"),
        ("0 ** 0", "1"),
        ("2 ** 3 ** 2", "512"),
        ("2 ** -1 ** 2", "0.5"),
        ("10 - 3 - 2", "5"),
        ("2 * -3", "-6"),
        ("007", "7"),
        ("123456789012345678.5 * 2", "246913578024691357"),
    ],
)
def test_expressions_have_the_value_that_arithmetic_gives(expression: str, value: str) -> None:
    assert format_number(evaluate(expression)) == value


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("1 +", "ends too early"),
        ("(1 + 2", "ends too early: ')' is missing"),
        ("1 2", "unexpected '2' at position 3"),
        ("1 / 0", "division by zero"),
        ("5 % (2 - 2)", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("2 ^ 3", "unexpected '^' at position 3; write ** for a power"),
        ("3 \u00d7 4", "unexpected '\u00d7' at position 3"),
        ("1 + $5", "unexpected '$' at position 5"),
        ("'a' * 3", "unexpected ''' at position 1"),
        ("x + 1", "unknown name 'x'; known functions are abs, max, min, round, sqrt"),
        ("__import__(1)", "unknown name '__import__'"),
        ("import os", "unknown name 'import'"),
        ("abs.__class__", "unexpected '.' at position 4"),
        ("1e5", "unexpected 'e5' at position 2"),
        ("1if 1else 2", "unexpected 'if' at position 2"),
        ("1 +* 2", "unexpected '*' at position 4"),
        ("1 + 2)", "unexpected ')' at position 6"),
        ("()", "unexpected ')' at position 2"),
        ("1,000 + 1", "unexpected ',' at position 2"),
        ("2(3)", "unexpected '(' at position 2"),
        ("abs", "ends too early: '(' is missing"),
        ("max(*(1, 2))", "unexpected '*' at position 5"),
        ("sqrt(-1)", "negative number"),
        ("2 ** 0.5", "whole numbers can be exponents"),
        ("abs(1, 2)", "abs takes 1 numbers, not 2"),
        ("max()", "max takes 2 to 20 numbers, not 0"),
        ("round(1, 0.5)", "whole number of digits"),
        ("9 ** 9 ** 9", "more than 512 bits"),
        ("9" * 170, "more than 512 bits"),
        ("1" * (MAX_LENGTH + 1), "has 201 characters"),
        ("(" * 41 + "1" + ")" * 41, "nested more than 40 deep"),
    ],
)
def test_what_cannot_be_worked_out_is_refused_with_the_reason(expression: str, reason: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(expression)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    "expression", ["9**9**9**9", "(9**99)**99", "-" * 199 + "1", "(" * 99 + "1" + ")" * 99]
)
def test_no_expression_takes_long(expression: str) -> None:
    start = time.process_time()
    with suppress(ExpressionError):
        evaluate(expression)
    assert time.process_time() - start < 0.5


numbers = st.integers(0, 999).map(lambda n: (str(n), Fraction(n)))


def joined(
    parts: st.SearchStrategy[tuple[str, Fraction]],
) -> st.SearchStrategy[tuple[str, Fraction]]:
    return st.tuples(parts, st.sampled_from("+-*"), parts).map(
        lambda p: (
            f"({p[0][0]} {p[1]} {p[2][0]})",
            {"+": p[0][1] + p[2][1], "-": p[0][1] - p[2][1], "*": p[0][1] * p[2][1]}[p[1]],
        )
    )


@given(st.recursive(numbers, joined, max_leaves=8))
def test_bracketed_expressions_agree_with_fractions(pair: tuple[str, Fraction]) -> None:
    text, value = pair
    assert evaluate(text) == value


SPELLED = st.lists(
    st.sampled_from([*"0123456789", *"+-*/%()", "**", "//", " ", "."]), max_size=12
).map("".join)


@given(SPELLED)
def test_python_reads_every_expression_the_same_way(text: str) -> None:
    try:
        value = evaluate(text)
    except ExpressionError:
        return
    exact = re.sub(r"[0-9]*\.[0-9]+|[0-9]+", r"Fraction('\g<0>')", text)
    assert value == eval(exact.strip(), {"Fraction": Fraction})


def test_many_threads_agree_while_garbage_is_collected() -> None:
    def interrupt(*_: object) -> None:
        time.sleep(0)  # lets another thread in, as a Python callback may

    gc.callbacks.append(interrupt)
    before = gc.get_threshold()
    gc.set_threshold(5)
    try:
        with ThreadPoolExecutor(8) as pool:
            values = set(pool.map(evaluate, ["(1 + 2) * (3 + 4) - 5 * (6 + 7)"] * 2000))
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(interrupt)
    assert values == {Fraction(-44)}


@given(st.text(alphabet="0123456789+-*/%(). ,abmxsqrtound^_'=", max_size=40))
def test_any_text_gives_a_number_or_an_expression_error(text: str) -> None:
    with suppress(ExpressionError):
        assert isinstance(evaluate(text), Fraction)
