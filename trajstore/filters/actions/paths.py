"""What a path says of its file: whether it holds tests, whether it holds the answer, which file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatch

_TEST_NAME = re.compile(
    r"""^(?:
        test_.*\.py | .*_tests?\.(?:py|go|rs|cc|cpp|c|cxx|exs?|dart|js|ts|rb|php|lua|sh|bats)
      | conftest\.py
      | .*[._-](?:test|spec)\.[cm]?[jt]sx? | .*_spec\.(?:rb|lua|js|ts)
      | (?:.*[a-z0-9])?Tests?\.(?:java|kt|cs|scala|swift|php|groovy) | .*Spec\.(?:scala|groovy|kt)
      | test[-_].*\.(?:R|r|sh|bats|js|ts|rb|php|lua|c|cc|cpp|rs|jl|el|ml|hs)
      | tests?\.(?:py|js|ts|rs)
    )$""",
    re.VERBOSE,
)
_TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "spec", "specs", "testing", "unittests"})
_ANSWER_WORD = (
    r"(?:answers?|answer[_-]?keys?|solutions?|gold(?:[_-](?:answers?|patch|labels?|solutions?))?"
    r"|ground[_-]?truth|oracle|hidden[_-]?tests?|test[._-]patch"
    r"|(?:expected|correct|reference|model|official|true)[_-](?:answers?|solutions?|labels?))"
)
_ANSWER = re.compile(rf"^\.?{_ANSWER_WORD}(?:[._-][\w.-]*)?$", re.IGNORECASE)
_OUTSIDE = ("/tmp/", "/var/tmp/", "/dev/", "/proc/")  # noqa: S108  paths in logs, no file here
_GLOB = re.compile(r"[*?\[]")


def is_test_path(path: str) -> bool:
    """Whether a file or folder of a project holds tests, by the habits of common languages.

    Files outside of projects (``/tmp``, ``/dev``) never do.

    >>> [is_test_path(p) for p in ("src/test_x.py", "tests", "/tmp/test_x.py", "src/latest.py")]
    [True, True, False, False]
    """
    parts = _parts(path)
    if not parts or path.startswith(_OUTSIDE):
        return False
    return bool(_TEST_NAME.match(parts[-1])) or any(p.lower() in _TEST_FOLDERS for p in parts)


def is_answer_path(path: str) -> bool:
    """Whether a file is named as one that holds the answer: ``solution.sh``, ``gold_patch.diff``.

    >>> [is_answer_path(p) for p in ("/oracle/solve.sh", "answer.txt", "src/solver.py")]
    [True, True, False]
    """
    return any(_ANSWER.match(part) for part in _parts(path)[-2:])


def same_file(one: str, other: str) -> bool:
    """Whether two paths can mean one file: equal, or the shorter is the end of the longer.

    A pattern such as ``tests/*.py`` means every file it fits.

    >>> same_file("/repo/tests/test_a.py", "tests/test_a.py"), same_file("a/x.py", "b/x.py")
    (True, False)
    """
    left, right = _parts(one), _parts(other)
    shorter = min(len(left), len(right))
    if not shorter or (one.startswith("/") and other.startswith("/") and len(left) != len(right)):
        return False
    return all(
        a == b or (_GLOB.search(a) and fnmatch(b, a)) or (_GLOB.search(b) and fnmatch(a, b))
        for a, b in zip(left[-shorter:], right[-shorter:], strict=True)
    )


def is_among(path: str, paths: Iterable[str]) -> bool:
    """Whether ``path`` is one of ``paths``, or lies in one of them that is a folder."""
    return any(same_file(path, p) or _parts(path)[: len(_parts(p))] == _parts(p) for p in paths)


def named_paths(text: str) -> set[str]:
    """Everything in a text that looks like the path of a file, without line numbers behind it.

    >>> sorted(named_paths("see tests/test_a.py:12 and `setup.cfg`, and so on"))
    ['setup.cfg', 'tests/test_a.py']
    """
    return {m.strip("./") if m.startswith("./") else m for m in _PATH.findall(text)}


_PATH = re.compile(r"(?<![\w/.-])(?:[\w.@+-]*/)*[\w@+-][\w.@+-]*\.[A-Za-z]\w{0,9}(?![\w/-])")


def _parts(path: str) -> list[str]:
    return [p for p in path.strip().split("/") if p not in {"", "."}]
