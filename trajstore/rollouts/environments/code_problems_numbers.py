"""Problems over numbers."""

from __future__ import annotations

from trajstore.rollouts.environments.code_problem import Problem, numbers, one

_ROMAN = (("", "M", "MM"), ("CC", "CD", "D", "CM"), ("XX", "XL", "XC"), ("I", "II", "IV", "IX"))

PROBLEMS = (
    Problem(
        module="middle",
        level=1,
        source='''def median(values):
    """The middle value of a list; the mean of the two middle ones where their number is even.

    Raises ValueError for an empty list.
    """
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2
''',
        bugs=(
            ("sorted(values)", "list(values)"),
            ("ordered[half - 1] + ordered[half]", "ordered[half] + ordered[half + 1]"),
            ("len(ordered) % 2 == 1", "len(ordered) % 2 == 0"),
            (") / 2", ") // 2"),
        ),
        draw=lambda r: one("median", numbers(r, 7)),
    ),
    Problem(
        module="limits",
        level=1,
        source='''def clamp(value, low, high):
    """The value, but never below low and never above high.

    Raises ValueError where low is above high.
    """
    if low > high:
        raise ValueError("low is above high")
    return max(low, min(value, high))


def overlap(first, second):
    """How long two ranges [start, end] overlap; 0 where they do not."""
    start = max(first[0], second[0])
    end = min(first[1], second[1])
    return max(0, end - start)
''',
        bugs=(
            ("max(low, min(value, high))", "min(low, max(value, high))"),
            ("low > high", "low >= high"),
            ("max(first[0], second[0])", "min(first[0], second[0])"),
            ("max(0, end - start)", "abs(end - start)"),
        ),
        draw=lambda r: (
            one("clamp", r.randint(-9, 9), r.randint(-5, 2), r.randint(0, 5))
            if r.random() < 0.5
            else one(
                "overlap",
                sorted(r.sample(range(20), 2)),
                sorted(r.sample(range(20), 2)),
            )
        ),
    ),
    Problem(
        module="windows",
        level=1,
        source='''def moving_sums(values, size):
    """Sum of each run of so many neighbours, from left to right.

    There is none where the list is shorter. Raises ValueError for a size below 1.
    """
    if size < 1:
        raise ValueError("size must be at least 1")
    sums = []
    for start in range(len(values) - size + 1):
        sums.append(sum(values[start : start + size]))
    return sums
''',
        bugs=(
            ("len(values) - size + 1", "len(values) - size"),
            ("values[start : start + size]", "values[start : size]"),
            ("size < 1", "size < 2"),
            ("start : start + size", "start : start + size + 1"),
        ),
        draw=lambda r: one("moving_sums", numbers(r, 8), r.randint(0, 4)),
    ),
    Problem(
        module="divisors",
        level=1,
        source='''def gcd(a, b):
    """Greatest common divisor of two whole numbers; never negative."""
    while b:
        a, b = b, a % b
    return abs(a)


def lcm(a, b):
    """Least common multiple of two whole numbers; 0 where one of them is 0."""
    if a == 0 or b == 0:
        return 0
    return abs(a * b) // gcd(a, b)
''',
        bugs=(
            ("return abs(a)\n", "return a\n"),
            ("return 0\n", "return 1\n"),
            ("abs(a * b) // gcd(a, b)", "abs(a * b)"),
            ("abs(a * b)", "(a * b)"),
        ),
        draw=lambda r: one(
            r.choice(("gcd", "lcm")), r.choice((-12, 0, 6, 8, 15)), r.randint(-24, 24)
        ),
    ),
    Problem(
        module="sieve",
        level=2,
        source='''def primes(limit):
    """All prime numbers up to limit, limit included."""
    if limit < 2:
        return []
    prime = [True] * (limit + 1)
    prime[0] = prime[1] = False
    for number in range(2, int(limit**0.5) + 1):
        if prime[number]:
            for multiple in range(number * number, limit + 1, number):
                prime[multiple] = False
    return [number for number in range(limit + 1) if prime[number]]


def factors(number):
    """Prime factors of a number from 2 on, smallest first, each as often as it divides."""
    found = []
    for prime in primes(number):
        while number % prime == 0:
            found.append(prime)
            number //= prime
    return found
''',
        bugs=(
            ("int(limit**0.5) + 1", "int(limit**0.5)"),
            ("for number in range(limit + 1) if", "for number in range(limit) if"),
            ("while number % prime == 0", "if number % prime == 0"),
            ("prime[number]:", "number % 2 == 1:"),
        ),
        draw=lambda r: (
            one("primes", r.randint(0, 60))
            if r.random() < 0.5
            else one("factors", r.randint(2, 120))
        ),
    ),
    Problem(
        module="roman",
        level=2,
        source='''VALUES = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
PAIRS = (
    (1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
    (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"),
)


def to_roman(number):
    """A number from 1 to 3999 in Roman numerals. Raises ValueError for any other."""
    if not 1 <= number <= 3999:
        raise ValueError("out of range")
    text = ""
    for value, sign in PAIRS:
        text += sign * (number // value)
        number %= value
    return text


def from_roman(text):
    """The number that Roman numerals stand for: a sign before a larger one is taken away."""
    total = 0
    for place, sign in enumerate(text):
        value = VALUES[sign]
        if place + 1 < len(text) and VALUES[text[place + 1]] > value:
            total -= value
        else:
            total += value
    return total
''',
        bugs=(
            ('(400, "CD")', '(400, "DC")'),
            ('(4, "IV")', '(4, "IIII")'),
            ("VALUES[text[place + 1]] > value", "VALUES[text[place + 1]] >= value"),
            ("            total -= value", "            total += value - 1"),
        ),
        draw=lambda r: (
            one("to_roman", r.choice((0, 4, 400, 10 * r.randint(0, 9))) + r.randint(0, 99))
            if r.random() < 0.5
            else one("from_roman", "".join(map(r.choice, _ROMAN)))
        ),
    ),
    Problem(
        module="bases",
        level=2,
        source='''DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def to_base(number, base):
    """A whole number written in a base from 2 to 36, with a minus sign where it is negative.

    Raises ValueError for another base.
    """
    if not 2 <= base <= 36:
        raise ValueError("base must be from 2 to 36")
    if number == 0:
        return "0"
    digits = ""
    rest = abs(number)
    while rest > 0:
        digits = DIGITS[rest % base] + digits
        rest //= base
    return "-" + digits if number < 0 else digits
''',
        bugs=(
            ("2 <= base <= 36", "2 <= base < 36"),
            ("DIGITS[rest % base] + digits", "digits + DIGITS[rest % base]"),
            ('return "0"', 'return ""'),
            ("if number < 0 else digits", "if number < 1 - base else digits"),
        ),
        draw=lambda r: one(
            "to_base", r.choice((0, r.randint(-9, 99))), r.choice((1, 2, 3, 8, 16, 36))
        ),
    ),
    Problem(
        module="calendars",
        level=2,
        source='''DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def is_leap(year):
    """Whether a year of the Gregorian calendar is a leap year."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in(year, month):
    """Days of a month from 1 to 12. Raises ValueError for another month."""
    if not 1 <= month <= 12:
        raise ValueError("month must be from 1 to 12")
    return 29 if month == 2 and is_leap(year) else DAYS[month - 1]


def day_of_year(year, month, day):
    """Number of the day in its year, from 1."""
    return sum(days_in(year, m) for m in range(1, month)) + day
''',
        bugs=(
            ("(year % 100 != 0 or year % 400 == 0)", "year % 100 != 0"),
            ("DAYS[month - 1]", "DAYS[month % 12]"),
            ("range(1, month)", "range(1, month + 1)"),
            ("29 if month == 2", "29 if month == 1"),
        ),
        draw=lambda r: (
            one(
                "day_of_year",
                r.choice((1900, 2000, 2023, 2024)),
                r.randint(1, 12),
                r.randint(1, 28),
            )
            if r.random() < 0.6
            else one("days_in", r.choice((1900, 2000, 2024, 2100)), r.choice((0, 2, 6, 7, 12, 13)))
        ),
    ),
)
"""Modules about numbers."""
