"""What the docstrings under the fields of a class say."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator


def field_words(kind: type) -> Iterator[tuple[str, str]]:
    """Each field of a dataclass with the docstring under it, line breaks taken out.

    Names in double backticks come in single ones, as Markdown has them.
    """
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, words in itertools.pairwise(body):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(words, ast.Expr) and isinstance(words.value, ast.Constant):
            said = " ".join(str(words.value.value).split())
            sentence = said if said.endswith("..") else said.removesuffix(".")
            yield field.target.id, sentence.replace("``", "`")
