"""Problems over lists, tables and objects that keep a state."""

from __future__ import annotations

from random import Random

from trajstore.rollouts.environments.code_problem import Problem, Question, numbers, one, words


def _nested(random: Random, depth: int = 3) -> list[object]:
    return [
        _nested(random, depth - 1) if depth and random.random() < 0.4 else random.randint(0, 9)
        for _ in range(random.randint(0, 3))
    ]


def _account(random: Random) -> tuple[Question, ...]:
    calls: list[Question] = [("Account", (random.randint(0, 50),))]
    for _ in range(random.randint(2, 4)):
        kind = random.choice((".deposit", ".withdraw", ".withdraw"))
        calls.append((kind, (random.choice((0, 10, 20, 50)),)))
    return (*calls, (".balance", ()), (".history", ()))


def _cache(random: Random) -> tuple[Question, ...]:
    calls: list[Question] = [("Cache", (random.randint(1, 2),))]
    for number in range(random.randint(4, 8)):
        key = random.choice("abc")
        calls.append((".put", (key, number)) if random.random() < 0.6 else (".get", (key,)))
    return (*calls, (".keys", ()))


def _table(random: Random, width: int) -> list[list[int]]:
    return [[random.randint(0, 9) for _ in range(width)] for _ in range(random.randint(0, 4))]


def _ranges(random: Random) -> list[list[int]]:
    return [sorted(random.sample(range(15), 2)) for _ in range(random.randint(0, 5))]


PROBLEMS = (
    Problem(
        module="chunks",
        level=1,
        source='''def chunk(values, size):
    """The list in pieces of so many values; the last piece may be shorter.

    Raises ValueError for a size below 1.
    """
    if size < 1:
        raise ValueError("size must be at least 1")
    return [values[start : start + size] for start in range(0, len(values), size)]


def rotate(values, by):
    """The list moved so many places to the right; what falls off comes back at the left."""
    if not values:
        return []
    by %= len(values)
    return values[len(values) - by :] + values[: len(values) - by]
''',
        bugs=(
            ("range(0, len(values), size)", "range(0, len(values) - size + 1, size)"),
            ("by %= len(values)", "by %= 3"),
            (
                "values[len(values) - by :] + values[: len(values) - by]",
                "values[by:] + values[:by]",
            ),
            ("start in range(0,", "start in range(1,"),
        ),
        draw=lambda r: (
            one("chunk", numbers(r, 7, 0, 9), r.randint(0, 4))
            if r.random() < 0.5
            else one("rotate", numbers(r, 6, 0, 9), r.randint(-4, 9))
        ),
    ),
    Problem(
        module="uniques",
        level=1,
        source='''def unique(values):
    """Each value once, in the order of first occurrence. The list itself stays as it is."""
    kept = []
    for value in values:
        if value not in kept:
            kept.append(value)
    return kept


def duplicates(values):
    """The values that occur more than once, sorted, each once."""
    return sorted({value for value in values if values.count(value) > 1})
''',
        bugs=(
            ("if value not in kept:", "if value not in kept[-1:]:"),
            ("values.count(value) > 1", "values.count(value) > 2"),
            (
                "sorted({value for value in values if values.count(value) > 1})",
                "sorted(value for value in values if values.count(value) > 1)",
            ),
            ("    return kept\n", "    return sorted(kept)\n"),
        ),
        draw=lambda r: one(r.choice(("unique", "duplicates")), numbers(r, 8, 0, 4)),
    ),
    Problem(
        module="lookups",
        level=1,
        source='''def first_at_least(ordered, wanted):
    """Place of the first value of a sorted list that is not below the wanted one.

    The length of the list where all are below.
    """
    low, high = 0, len(ordered)
    while low < high:
        middle = (low + high) // 2
        if ordered[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


def count(ordered, wanted):
    """How often a whole number is in a sorted list of whole numbers."""
    return first_at_least(ordered, wanted + 1) - first_at_least(ordered, wanted)
''',
        bugs=(
            ("ordered[middle] < wanted", "ordered[middle] <= wanted"),
            ("0, len(ordered)", "0, len(ordered) - 1"),
            ("wanted + 1) - first", "wanted) - first"),
            ("low, high = 0,", "low, high = 1,"),
        ),
        draw=lambda r: one(
            r.choice(("first_at_least", "count")), sorted(numbers(r, 8, 0, 9)), r.randint(-1, 10)
        ),
    ),
    Problem(
        module="intervals",
        level=2,
        source='''def merge(ranges):
    """Ranges [start, end] put together where they overlap or touch, sorted by start."""
    merged = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return merged


def covered(ranges):
    """Length that all ranges cover together; what lies in several counts once."""
    return sum(end - start for start, end in merge(ranges))
''',
        bugs=(
            ("start <= merged[-1][1]", "start < merged[-1][1]"),
            ("max(merged[-1][1], end)", "end"),
            ("in sorted(ranges)", "in ranges"),
            ("in merge(ranges))", "in ranges)"),
        ),
        draw=lambda r: one(r.choice(("merge", "covered")), _ranges(r)),
    ),
    Problem(
        module="nesting",
        level=2,
        source='''def flatten(values):
    """All values of lists inside lists, in order."""
    flat = []
    for value in values:
        if isinstance(value, list):
            flat.extend(flatten(value))
        else:
            flat.append(value)
    return flat


def depth(values):
    """How deep lists are nested; 1 for a list without lists."""
    return 1 + max((depth(value) for value in values if isinstance(value, list)), default=0)
''',
        bugs=(
            ("flat.extend(flatten(value))", "flat.extend(value)"),
            ("default=0", "default=1"),
            ("flat.extend(flatten(value))", "flat = flatten(value) + flat"),
            ("return 1 + max(", "return max("),
        ),
        draw=lambda r: one(r.choice(("flatten", "depth")), _nested(r)),
    ),
    Problem(
        module="grids",
        level=2,
        source='''def transpose(rows):
    """Rows as columns."""
    if not rows:
        return []
    return [[row[place] for row in rows] for place in range(len(rows[0]))]


def spiral(rows):
    """The values of a table from the outside in, clockwise from the top left."""
    rows = [list(row) for row in rows]
    values = []
    while rows and rows[0]:
        values += rows.pop(0)
        rows = transpose(rows)[::-1]
    return values
''',
        bugs=(
            ("range(len(rows[0]))", "range(len(rows))"),
            ("transpose(rows)[::-1]", "transpose(rows)"),
            ("rows.pop(0)", "rows.pop()"),
            ("[row[place] for row in rows]", "[row[place] for row in rows[::-1]]"),
        ),
        draw=lambda r: one(r.choice(("transpose", "spiral")), _table(r, r.randint(1, 4))),
    ),
    Problem(
        module="groups",
        level=2,
        source='''def anagrams(words):
    """Words with the same letters in one list each; lists and words in order of occurrence."""
    groups = {}
    for word in words:
        key = "".join(sorted(word))
        groups.setdefault(key, []).append(word)
    return list(groups.values())


def add(item, to=None):
    """The list with an item more; a new list where none is given."""
    if to is None:
        to = []
    to.append(item)
    return to
''',
        bugs=(
            ('"".join(sorted(word))', '"".join(sorted(set(word)))'),
            ("to=None):", "to=[]):"),
            ("groups.setdefault(key, []).append(word)", "groups[key] = [word]"),
            ("list(groups.values())", "sorted(groups.values())"),
        ),
        draw=lambda r: (
            one("anagrams", words(r, 7, "ab"))
            if r.random() < 0.6
            else (("add", (r.randint(0, 9),)), ("add", (r.randint(0, 9),)))
        ),
    ),
    Problem(
        module="bank",
        level=2,
        source='''class Account:
    """Money in whole units."""

    def __init__(self, opening=0):
        self._balance = opening
        self._history = []

    def deposit(self, amount):
        """Pay in and return the balance. Raises ValueError unless the amount is above 0."""
        if amount <= 0:
            raise ValueError("the amount must be above 0")
        self._balance += amount
        self._history.append(amount)
        return self._balance

    def withdraw(self, amount):
        """Take out and return whether there was enough; where not, nothing changes.

        Raises ValueError unless the amount is above 0.
        """
        if amount <= 0:
            raise ValueError("the amount must be above zero")
        if amount > self._balance:
            return False
        self._balance -= amount
        self._history.append(-amount)
        return True

    def balance(self):
        """What is there."""
        return self._balance

    def history(self):
        """Every change, oldest first."""
        return list(self._history)
''',
        bugs=(
            ("if amount > self._balance", "if amount >= self._balance"),
            ("self._history.append(-amount)", "self._history.append(amount)"),
            (
                'if amount <= 0:\n            raise ValueError("the amount must be above 0")',
                'if amount < 0:\n            raise ValueError("the amount must be above 0")',
            ),
            ("        self._balance -= amount\n", ""),
        ),
        draw=_account,
    ),
    Problem(
        module="recent",
        level=2,
        source='''class Cache:
    """Keeps a number of values; beyond that the one that was not used for longest goes."""

    def __init__(self, size):
        self._size = size
        self._values = {}

    def get(self, key):
        """The value, or None where it is not there. It counts as used."""
        if key not in self._values:
            return None
        value = self._values.pop(key)
        self._values[key] = value
        return value

    def put(self, key, value):
        """Keep a value. It counts as used."""
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self._size:
            del self._values[next(iter(self._values))]

    def keys(self):
        """The keys, from the one that was not used for longest to the last used one."""
        return list(self._values)
''',
        bugs=(
            (
                "        self._values[key] = value\n        return value",
                "        self._values = {key: value, **self._values}\n        return value",
            ),
            ("        self._values.pop(key, None)\n", ""),
            ("len(self._values) > self._size", "len(self._values) >= self._size"),
            ("del self._values[next(iter(self._values))]", "self._values.popitem()"),
        ),
        draw=_cache,
    ),
    Problem(
        module="postfix",
        level=2,
        source='''def evaluate(tokens):
    """The value of a calculation in postfix form: ["3", "4", "+"] is 7.

    Division is rounded down. Raises ValueError where numbers are missing or left over.
    """
    stack = []
    for token in tokens:
        if token not in ("+", "-", "*", "/"):
            stack.append(int(token))
            continue
        if len(stack) < 2:
            raise ValueError("a number is missing")
        right = stack.pop()
        left = stack.pop()
        if token == "+":
            stack.append(left + right)
        elif token == "-":
            stack.append(left - right)
        elif token == "*":
            stack.append(left * right)
        else:
            stack.append(left // right)
    if len(stack) != 1:
        raise ValueError("a number is left over")
    return stack[0]
''',
        bugs=(
            ("left - right", "right - left"),
            ("left * right", "left + right"),
            ("left // right", "int(left / right)"),
            ("len(stack) < 2", "len(stack) < 3"),
        ),
        draw=lambda r: one(
            "evaluate",
            [
                *(str(r.randint(-9, 9)), str(r.randint(1, 9)), r.choice("+-*/")),
                *r.choice(([], [str(r.randint(1, 9)), r.choice("+-*/")], ["5"], ["+"], ["2", "-"])),
            ],
        ),
    ),
)
"""Modules about lists and objects."""
