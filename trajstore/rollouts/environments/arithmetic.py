"""A calculator for text that a model wrote: exact, bounded, and never run as code.

It has a parser of its own, as ``ast.parse`` raises a SystemError now and then (CPython 3.11) when
several threads use it and a garbage collection callback lets another thread in between.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple, TypeVar

MAX_LENGTH = 200
"""Longest expression in characters."""
MAX_DEPTH = 40
"""Brackets inside brackets at most."""
MAX_BITS = 512
"""Largest numerator or denominator of any value on the way, in bits."""

_T = TypeVar("_T")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)|(?P<word>[^\W\d]\w*)"
    r"|(?P<sign>\*\*|//|[-+*/%(),]))"
)


class ExpressionError(ValueError):
    """The text is no expression that the calculator can work out; the message says why."""


class _Token(NamedTuple):
    """A number, a function name or a sign, with its place from 1."""

    kind: str
    text: str
    place: int


def evaluate(expression: str) -> Fraction:
    """Work out an expression exactly.

    Numbers, ``+ - * / // % **``, brackets, and the functions abs, max, min, round and sqrt, with
    the precedence of Python.

    Raises:
        ExpressionError: the text is too long, does not parse, or has no (small enough) value.

    >>> evaluate("(0.1 + 0.2) * 10")
    Fraction(3, 1)
    """
    if len(expression) > MAX_LENGTH:
        message = f"the expression has {len(expression)} characters, at most {MAX_LENGTH} are read"
        raise ExpressionError(message)
    try:
        return _Parser(_tokens(expression)).value()
    except ZeroDivisionError as error:
        message = f"division by zero in '{expression}'"
        raise ExpressionError(message) from error


def format_number(value: Fraction) -> str:
    """A number as people write it: whole, or with up to ten significant digits.

    >>> format_number(Fraction(7, 2)), format_number(Fraction(6, 3))
    ('3.5', '2')
    """
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.10g}"


def _tokens(expression: str) -> list[_Token]:
    """The expression in pieces; what is none is named with its place."""
    text = expression.rstrip()
    if not text:
        raise ExpressionError("the expression is empty")
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            hint = "; write ** for a power" if text[start] == "^" else ""
            raise ExpressionError(f"unexpected '{text[start]}' at position {start + 1}{hint}")
        kind = str(match.lastgroup)
        tokens.append(_Token(kind, match[kind], match.start(kind) + 1))
        position = match.end()
    return tokens


class _Parser:
    """Reads tokens from left to right and works them out on the way."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self._depth = 0

    def value(self) -> Fraction:
        """The value of the whole expression."""
        result = self._sum()
        if self._next < len(self._tokens):
            raise self._unexpected()
        return result

    def _sum(self) -> Fraction:
        return self._chain(("+", "-"), self._product)

    def _product(self) -> Fraction:
        return self._chain(("*", "/", "//", "%"), self._signed)

    def _chain(self, signs: tuple[str, ...], part: Callable[[], Fraction]) -> Fraction:
        """Parts joined by signs of one rank, from the left."""
        result = part()
        while sign := self._take(*signs):
            result = _bounded(Fraction(_OPERATORS[sign](result, part())))
        return result

    def _signed(self) -> Fraction:
        negative = False
        while sign := self._take("+", "-"):
            negative ^= sign == "-"
        value = self._power()
        return -value if negative else value

    def _power(self) -> Fraction:
        """A power binds tighter than a sign before it, and to the right."""
        powers = [self._atom()]
        signs: list[bool] = []
        while self._take("**"):
            negative = False
            while sign := self._take("+", "-"):
                negative ^= sign == "-"
            signs.append(negative)
            powers.append(self._atom())
        result = powers.pop()
        while powers:
            result = _raised(powers.pop(), -result if signs.pop() else result)
        return result

    def _atom(self) -> Fraction:
        if self._next == len(self._tokens):
            raise ExpressionError("the expression ends too early")
        token = self._tokens[self._next]
        if token.kind == "number":
            self._next += 1
            return _bounded(Fraction(token.text))
        if token.kind == "word":
            return self._call(token)
        if self._take("("):
            return self._inside(self._closed_sum)
        raise self._unexpected()

    def _closed_sum(self) -> Fraction:
        value = self._sum()
        self._expect(")")
        return value

    def _call(self, token: _Token) -> Fraction:
        function = _FUNCTIONS.get(token.text)
        if function is None:
            known = ", ".join(sorted(_FUNCTIONS))
            raise ExpressionError(f"unknown name '{token.text}'; known functions are {known}")
        self._next += 1
        self._expect("(")
        values = self._inside(self._arguments)
        least, most = _ARITY[token.text]
        if not least <= len(values) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise ExpressionError(f"{token.text} takes {wanted} numbers, not {len(values)}")
        return _bounded(function(*values))

    def _arguments(self) -> list[Fraction]:
        values: list[Fraction] = []
        if self._take(")"):
            return values
        values.append(self._sum())
        while self._take(","):
            values.append(self._sum())
        self._expect(")")
        return values

    def _inside(self, read: Callable[[], _T]) -> _T:
        """Read what stands in brackets."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(f"brackets are nested more than {MAX_DEPTH} deep")
        value = read()
        self._depth -= 1
        return value

    def _take(self, *signs: str) -> str:
        """The next token if it is one of these signs, else ''."""
        if self._next < len(self._tokens) and self._tokens[self._next].text in signs:
            self._next += 1
            return self._tokens[self._next - 1].text
        return ""

    def _expect(self, sign: str) -> None:
        if self._take(sign):
            return
        if self._next == len(self._tokens):
            raise ExpressionError(f"the expression ends too early: '{sign}' is missing")
        raise self._unexpected()

    def _unexpected(self) -> ExpressionError:
        token = self._tokens[self._next]
        return ExpressionError(f"unexpected '{token.text}' at position {token.place}")


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ExpressionError(f"a value on the way needs more than {MAX_BITS} bits")
    return value


def _raised(base: Fraction, exponent: Fraction) -> Fraction:
    """The power, refused before it is worked out where it would be huge."""
    if exponent.denominator != 1:
        raise ExpressionError("only whole numbers can be exponents; use sqrt for a root")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if size > 1 and (size - 1) * abs(exponent.numerator) > MAX_BITS:
        raise ExpressionError(f"a value on the way needs more than {MAX_BITS} bits")
    return _bounded(Fraction(base**exponent))


def _sqrt(value: Fraction) -> Fraction:
    if value < 0:
        raise ExpressionError("a negative number has no square root here")
    top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
    if top * top == value.numerator and bottom * bottom == value.denominator:
        return Fraction(top, bottom)
    return Fraction(repr(math.sqrt(value)))


def _round(value: Fraction, digits: Fraction = Fraction(0)) -> Fraction:
    if digits.denominator != 1 or abs(digits) > MAX_BITS // 4:
        raise ExpressionError("round takes a small whole number of digits")
    return Fraction(round(value, digits.numerator))


_OPERATORS: dict[str, Callable[[Fraction, Fraction], Fraction | int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_FUNCTIONS: dict[str, Callable[..., Fraction]] = {
    "abs": abs,
    "max": max,
    "min": min,
    "round": _round,
    "sqrt": _sqrt,
}
_ARITY = {"abs": (1, 1), "max": (2, 20), "min": (2, 20), "round": (1, 2), "sqrt": (1, 1)}
