"""Problems over text."""

from __future__ import annotations

from trajstore.rollouts.environments.code_problem import Problem, one, words

_VERSIONS = ("1", "1.0", "v1.0.0", "1.0.0.0", "1.9", "1.10", "v1.10.0", "2", "2.0", "10.1")

PROBLEMS = (
    Problem(
        module="runs",
        level=1,
        source='''def encode(text):
    """Runs of equal characters as [character, length] pairs, from left to right."""
    runs = []
    for character in text:
        if runs and runs[-1][0] == character:
            runs[-1][1] += 1
        else:
            runs.append([character, 1])
    return runs


def decode(runs):
    """The text back from its runs."""
    return "".join(character * length for character, length in runs)
''',
        bugs=(
            ("runs[-1][0] == character", "runs[0][0] == character"),
            ("runs.append([character, 1])", "runs.append([character, 0])"),
            ("character * length for", "character * (length - 1) for"),
            ("runs[-1][1] += 1", "runs[-1][1] = 2"),
        ),
        draw=lambda r: (
            one("encode", "".join(r.choice("ab") * r.randint(1, 4) for _ in range(r.randint(0, 4))))
            if r.random() < 0.7
            else one("decode", [[r.choice("xyz"), r.randint(1, 4)] for _ in range(r.randint(0, 3))])
        ),
    ),
    Problem(
        module="cipher",
        level=1,
        source='''def shift(text, by):
    """Each letter moved so many places on in the alphabet, z being followed by a.

    Capital letters stay capital; all that is no letter from a to z stays as it is.
    """
    moved = ""
    for character in text:
        if "a" <= character <= "z":
            moved += chr((ord(character) - ord("a") + by) % 26 + ord("a"))
        elif "A" <= character <= "Z":
            moved += chr((ord(character) - ord("A") + by) % 26 + ord("A"))
        else:
            moved += character
    return moved
''',
        bugs=(
            ('(ord(character) - ord("a") + by) % 26', '(ord(character) - ord("a") + by)'),
            ('% 26 + ord("A"))', '% 26 + ord("a"))'),
            ('"a" <= character <= "z"', '"a" < character <= "z"'),
            ("            moved += character\n", '            moved += ""\n'),
        ),
        draw=lambda r: one(
            "shift",
            "".join(r.choices("abcxyzABYZ ,!", k=r.randint(0, 9))),
            r.choice((0, 1, 3, 13, -2, 30)),
        ),
    ),
    Problem(
        module="mirrors",
        level=1,
        source='''def is_palindrome(text):
    """Whether the letters and digits read the same from both ends, whatever their case."""
    kept = [character.lower() for character in text if character.isalnum()]
    return kept == kept[::-1]


def longest_palindrome(words):
    """The longest palindrome among words, the first of equally long ones, or "" without any."""
    longest = ""
    for word in words:
        if is_palindrome(word) and len(word) > len(longest):
            longest = word
    return longest
''',
        bugs=(
            ("character.lower() for", "character for"),
            ("if character.isalnum()]", "if character.isalpha()]"),
            ("len(word) > len(longest)", "len(word) >= len(longest)"),
            (" if character.isalnum()]", "]"),
        ),
        draw=lambda r: (
            one(
                "is_palindrome",
                r.choice(("Anna", "Was it a car?", "No lemon, no melon", "1a2", "12 21", "ab", "")),
            )
            if r.random() < 0.4
            else one("longest_palindrome", words(r, 7, "aAb1!"))
        ),
    ),
    Problem(
        module="counts",
        level=2,
        source='''def word_counts(text):
    """How often each word occurs; case does not matter, and words are parted by space."""
    counts = {}
    for word in text.lower().split():
        counts[word] = counts.get(word, 0) + 1
    return counts


def most_common(text, most):
    """Up to so many words, the most frequent first; equally frequent ones by the alphabet."""
    counts = word_counts(text)
    ordered = sorted(counts, key=lambda word: (-counts[word], word))
    return ordered[:most]
''',
        bugs=(
            ("text.lower().split()", "text.split()"),
            ("counts.get(word, 0) + 1", "counts.get(word, 1) + 1"),
            ("(-counts[word], word)", "(counts[word], word)"),
            ("ordered[:most]", "ordered[: most + 1]"),
        ),
        draw=lambda r: (
            one("most_common", " ".join(words(r, 9, "abA")), r.randint(0, 3))
            if r.random() < 0.7
            else one("word_counts", " ".join(words(r, 6, "bB")))
        ),
    ),
    Problem(
        module="brackets",
        level=2,
        source='''PAIRS = {")": "(", "]": "[", "}": "{"}


def balanced(text):
    """Whether every bracket is closed by its own kind, in the right order."""
    opened = []
    for character in text:
        if character in "([{":
            opened.append(character)
        elif character in PAIRS:
            if not opened or opened.pop() != PAIRS[character]:
                return False
    return not opened


def depth(text):
    """How many round brackets are open at most at one time."""
    deepest = now = 0
    for character in text:
        if character == "(":
            now += 1
            deepest = max(deepest, now)
        elif character == ")":
            now -= 1
    return deepest
''',
        bugs=(
            ("return not opened\n", "return True\n"),
            ("opened.pop() != PAIRS[character]", "opened.pop() == character"),
            ("deepest = max(deepest, now)", "deepest = now"),
            ('"]": "["', '"]": "("'),
        ),
        draw=lambda r: (
            one(
                "balanced",
                "".join(r.choices(("()", "[", "]", "{}", "([])", "(]", "a"), k=r.randint(0, 4))),
            )
            if r.random() < 0.5
            else one("depth", "".join(r.choices(("(", ")", "(a)", "((b))"), k=r.randint(0, 4))))
        ),
    ),
    Problem(
        module="durations",
        level=2,
        source='''SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


def parse(text):
    """Seconds of a duration such as "1h30m" or "45s".

    Raises ValueError for an unknown unit, and where a number has no unit.
    """
    total = 0
    digits = ""
    for character in text:
        if character.isdigit():
            digits += character
        elif character in SECONDS and digits:
            total += int(digits) * SECONDS[character]
            digits = ""
        else:
            raise ValueError("unknown unit: " + character)
    if digits:
        raise ValueError("a number without a unit")
    return total


def show(seconds):
    """Seconds as hours, minutes and seconds: 3661 is "1:01:01"."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
''',
        bugs=(
            ('            digits = ""\n        else', '            digits = "0"\n        else'),
            ('"m": 60', '"m": 600'),
            (
                "    hours, minutes = divmod(minutes, 60)",
                "    hours, minutes = divmod(minutes, 100)",
            ),
            ("total += int(digits)", "total = int(digits)"),
        ),
        draw=lambda r: (
            one(
                "parse",
                "".join(f"{r.randint(0, 99)}{r.choice('dhmms')}" for _ in range(r.randint(0, 3)))
                + r.choice(("", "", "", "7", "3x")),
            )
            if r.random() < 0.6
            else one("show", r.randint(0, 20000))
        ),
    ),
    Problem(
        module="versions",
        level=2,
        source='''def parts(version):
    """The numbers of a version such as "v1.20.3"."""
    return [int(part) for part in version.removeprefix("v").split(".")]


def compare(first, second):
    """-1, 0 or 1: whether the first version is older, the same or newer. "1.0" equals "1"."""
    a, b = parts(first), parts(second)
    longest = max(len(a), len(b))
    a += [0] * (longest - len(a))
    b += [0] * (longest - len(b))
    return (a > b) - (a < b)


def newest(versions):
    """The newest version, the first of equal ones, or None without any."""
    best = None
    for version in versions:
        if best is None or compare(version, best) > 0:
            best = version
    return best
''',
        bugs=(
            (
                '[int(part) for part in version.removeprefix("v").split(".")]',
                'version.removeprefix("v").split(".")',
            ),
            ("a += [0] * (longest - len(a))", "a += [0] * (len(a) - longest)"),
            ("compare(version, best) > 0", "compare(version, best) >= 0"),
            ("(a > b) - (a < b)", "(a > b) - (a <= b)"),
        ),
        draw=lambda r: (
            one("compare", *r.choices(_VERSIONS, k=2))
            if r.random() < 0.6
            else one("newest", r.choices(_VERSIONS, k=r.randint(0, 4)))
        ),
    ),
    Problem(
        module="columns",
        level=2,
        source='''def split_line(line, comma=","):
    """The fields of one line of a table.

    Inside double quotes the comma is part of the field, and "" is a quote.
    """
    fields, field, quoted, place = [], "", False, 0
    while place < len(line):
        character = line[place]
        if quoted and character == '"':
            if line[place + 1 : place + 2] == '"':
                field += '"'
                place += 1
            else:
                quoted = False
        elif character == '"':
            quoted = True
        elif character == comma and not quoted:
            fields.append(field)
            field = ""
        else:
            field += character
        place += 1
    fields.append(field)
    return fields
''',
        bugs=(
            ("character == comma and not quoted", "character == comma"),
            ("    fields.append(field)\n    return", "    return"),
            ("                field += '\"'\n", '                field += "\'"\n'),
            ("elif character == comma", 'elif character == ","'),
        ),
        draw=lambda r: one(
            "split_line",
            r.choice((",", ";", "")).join(
                r.choices(("a", '"b,c"', '"d;e"', '"say ""hi"""', "", "f,g"), k=r.randint(1, 4))
            ),
            r.choice((",", ";")),
        ),
    ),
)
"""Modules about text."""
