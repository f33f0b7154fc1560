"""Read shell command lines: which programs run, with which words, and which files they touch.

This is no shell: nothing is expanded or executed. It knows quotes, escapes, comments, operators,
redirections, here-documents and command substitution, which is enough to see what a command line
does to files. What cannot be read is read as far as it goes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t\r]+|\\\n)
    | (?P<line>\n)
    | (?P<redirect>(?:\d+|&)?(?:<<<|<<-|<<|>>|>\||>&|<&|<>|>|<))
    | (?P<operator>&&|\|\||;;|\|&|[;&|()])
    | (?P<substitution>\$\(|`)
    | (?P<dollar>\$'(?:[^'\\]|\\.)*(?:'|\Z))
    | (?P<single>'[^']*(?:'|\Z))
    | (?P<double>"(?:[^"\\]|\\.)*(?:"|\Z))
    | (?P<escape>\\.?)
    | (?P<plain>[^\s\\'"$`;&|()<>]+|\$)
    """,
    re.VERBOSE | re.DOTALL,
)
_DOUBLE_ESCAPE = re.compile(r"\\([\"\\$`]|\n)")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_WORDS_IN_FRONT = frozenset(
    {
        "sudo",
        "env",
        "time",
        "nohup",
        "command",
        "exec",
        "then",
        "do",
        "else",
        "if",
        "while",
        "!",
        "{",
    }
)
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_DEEPEST = 4


@dataclass(slots=True)
class Command:
    """One program with its words."""

    words: list[str] = field(default_factory=list)
    """The program and its arguments, quotes taken off, assignments and ``sudo`` in front left
    out."""
    reads: list[str] = field(default_factory=list)
    """Files that ``<`` feeds in."""
    writes: list[str] = field(default_factory=list)
    """Files that ``>`` makes anew."""
    appends: list[str] = field(default_factory=list)
    """Files that ``>>`` adds to."""
    stdin: str | None = None
    """Text of a here-document or here-string."""

    @property
    def program(self) -> str:
        """Name of the program without its folder, or ''."""
        return self.words[0].rpartition("/")[2] if self.words else ""

    @property
    def arguments(self) -> list[str]:
        """What follows the program."""
        return self.words[1:]

    def operands(self) -> list[str]:
        """Arguments that are no options; behind ``--`` all are."""
        found: list[str] = []
        for place, word in enumerate(self.arguments):
            if word == "--":
                return [*found, *self.arguments[place + 1 :]]
            if not word.startswith("-") or word == "-":
                found.append(word)
        return found

    def has_option(self, *options: str) -> bool:
        """Whether an option is there: ``-r`` also inside ``-rf``, ``--x`` also as ``--x=1``."""
        for word in self.arguments:
            if word == "--":
                return False
            for option in options:
                if word == option or word.startswith(f"{option}="):
                    return True
                short = len(option) == 2 and word.startswith("-") and not word.startswith("--")
                if short and option[1] in word[1:]:
                    return True
        return False


def commands(text: str) -> list[Command]:
    """The commands of a command line or script, in order.

    Commands inside ``$(...)``, backquotes and ``bash -c '...'`` come behind the one they are in.

    >>> [c.words for c in commands("cd src && sed -i 's/a b/c/' x.py | tee -a log")]
    [['cd', 'src'], ['sed', '-i', 's/a b/c/', 'x.py'], ['tee', '-a', 'log']]
    """
    return _Reader(text, 0).read()


class _Reader:
    """Reads one text from left to right."""

    def __init__(self, text: str, depth: int) -> None:
        self._text = text
        self._depth = depth
        self._at = 0
        self._found: list[Command] = []
        self._inner: list[str] = []
        self._command = Command()
        self._word: list[str] | None = None
        self._redirect: str | None = None
        self._documents: list[tuple[Command, str, bool]] = []

    def read(self) -> list[Command]:
        while self._at < len(self._text):
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                self._at += 1
                continue
            self._at = match.end()
            kind = match.lastgroup or ""
            if self._is_comment(match.group()):
                end = self._text.find("\n", match.start())
                self._at = len(self._text) if end < 0 else end
                continue
            getattr(self, f"_on_{kind}")(match.group())
        self._end_command()
        return self._found

    def _is_comment(self, token: str) -> bool:
        return token.startswith("#") and self._word is None

    def _on_blank(self, _: str) -> None:
        self._end_word()

    def _on_line(self, _: str) -> None:
        self._end_command()
        for command, end, strip in self._documents:
            command.stdin = self._document(end, strip=strip)
            if command.program in _SHELLS and self._depth < _DEEPEST:
                self._found += _Reader(command.stdin, self._depth + 1).read()
        self._documents = []

    def _on_redirect(self, token: str) -> None:
        self._end_word()
        self._redirect = token.lstrip("0123456789&")

    def _on_operator(self, _: str) -> None:
        self._end_command()

    def _on_plain(self, token: str) -> None:
        self._add(token)

    def _on_single(self, token: str) -> None:
        self._add(token[1:].removesuffix("'"))

    def _on_dollar(self, token: str) -> None:
        body = token[2:].removesuffix("'")
        self._add(body.replace("\\n", "\n").replace("\\t", "\t").replace("\\'", "'"))

    def _on_double(self, token: str) -> None:
        body = token[1:-1] if len(token) > 1 and token.endswith('"') else token[1:]
        self._inner += re.findall(r"\$\(([^()]+)\)", body)
        self._add(_DOUBLE_ESCAPE.sub(lambda m: "" if m[1] == "\n" else m[1], body))

    def _on_escape(self, token: str) -> None:
        self._add(token[1:])

    def _on_substitution(self, piece: str) -> None:
        end = self._closing() if piece == "$(" else self._text.find("`", self._at)
        end = len(self._text) if end < 0 else end
        inner = self._text[self._at : end]
        self._inner.append(inner)
        self._add(piece + inner + ("`" if piece == "`" else ")"))
        self._at = end + 1

    def _closing(self) -> int:
        """Place of the bracket that closes the one before ``_at``; -1 if there is none."""
        depth, at = 1, self._at
        while at < len(self._text):
            match = _TOKEN.match(self._text, at)
            piece = match.group() if match else self._text[at]
            if piece in {"(", "$("}:
                depth += 1
            elif piece == ")":
                depth -= 1
                if not depth:
                    return at
            at += len(piece)
        return -1

    def _document(self, end: str, *, strip: bool) -> str:
        """The here-document that starts at ``_at``."""
        lines: list[str] = []
        while self._at < len(self._text):
            stop = self._text.find("\n", self._at)
            stop = len(self._text) if stop < 0 else stop
            line = self._text[self._at : stop]
            self._at = stop + 1
            line = line.lstrip("\t") if strip else line
            if line.rstrip("\r") == end:
                break
            lines.append(line)
        return "".join(f"{line}\n" for line in lines)

    def _add(self, part: str) -> None:
        if self._word is None:
            self._word = []
        self._word.append(part)

    def _end_word(self) -> None:
        if self._word is None:
            return
        word, self._word = "".join(self._word), None
        sign, self._redirect = self._redirect, None
        if sign is None:
            self._take(word)
        elif sign in {"<<", "<<-"}:
            self._documents.append((self._command, word, sign == "<<-"))
        elif sign == "<<<":
            self._command.stdin = word
        elif sign in {">&", "<&"} and (word.isdigit() or word == "-"):
            return
        elif sign == "<":
            self._command.reads.append(word)
        elif sign == ">>":
            self._command.appends.append(word)
        else:
            self._command.writes.append(word)

    def _take(self, word: str) -> None:
        if not self._command.words and (word in _WORDS_IN_FRONT or _ASSIGNMENT.match(word)):
            return
        self._command.words.append(word)

    def _end_command(self) -> None:
        self._end_word()
        command, self._command = self._command, Command()
        if command.words or command.writes or command.appends:
            self._found.append(command)
            self._inner += _script_of(command)
        inner, self._inner = self._inner, []
        if self._depth < _DEEPEST:
            for text in inner:
                self._found += _Reader(text, self._depth + 1).read()


def _script_of(command: Command) -> list[str]:
    """The script in ``bash -c '...'``, also behind ``timeout 60`` and the like."""
    words = command.words
    for place, word in enumerate(words[:-2]):
        if word.rpartition("/")[2] in _SHELLS and re.fullmatch(r"-[a-z]*c", words[place + 1]):
            return [words[place + 2]]
    return []
