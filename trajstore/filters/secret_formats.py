r"""The table of secret formats: what each kind looks like, and a cheap gate in front of it.

Only formats that their issuer documents and that nothing else looks like are listed; nothing is
guessed from entropy, so hashes, UUIDs, git ids and base64 media pass. Formats that share a first
test stand in one :class:`Family`: most text fails the gate and never meets the patterns. A gate
starts with a literal (which ``re`` finds at memory speed) and looks back from there.

A pattern must hold in plain text and inside JSON text, where a line break is the two characters
``\n`` and a slash may be ``\/``. A secret never holds a quote or a lone backslash, so that
replacing one leaves JSON valid.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass

_MASK = re.compile(r"(?i)x{5}|\*{3}|your[_-]|[_-]here(?![a-z0-9])|redacted|placeholder")
_FILL = frozenset("xX0*.#_-")
_VARIABLE = re.compile(r"\$[A-Za-z_{(]|%[sr(]|#\{|[\[<{]|[*x.]+$")
_DUMMIES = frozenset({"pass", "password", "passwd", "passphrase", "pwd", "secret", "token"})
_BODY = re.compile(r"[A-Za-z0-9+/=]{32}")
_LONG_TOKEN = 32


def not_masked(secret: str) -> bool:
    """Whether a value is more than a stand-in such as ``sk-xxxxxxxx`` or ``YOUR_TOKEN_HERE``."""
    return _MASK.search(secret) is None and not _FILL.issuperset(secret[-16:])


def _letters_and_digits(secret: str) -> bool:
    body = secret.removeprefix("sk-")
    return not_masked(secret) and not body.isalpha() and not body.isdigit()


def _opaque(secret: str) -> bool:
    """A bearer value that is no variable name: with a digit, or long."""
    mixed = len(secret) >= _LONG_TOKEN or any(c.isdigit() for c in secret)
    return mixed and not_masked(secret)


def _password(secret: str) -> bool:
    """A password in a URL that is neither a variable nor the word 'password' of an example."""
    if _VARIABLE.match(secret) or ("{" in secret and "}" in secret):
        return False
    return secret.casefold() not in _DUMMIES and _MASK.search(secret) is None


def _user_and_password(secret: str) -> bool:
    """Base64 of ``user:password``, as HTTP basic authentication sends it."""
    decoded = _decode(secret).decode("utf-8", "replace")
    _, colon, password = decoded.partition(":")
    return bool(colon) and decoded.isprintable() and _password(password)


def _jwt(secret: str) -> bool:
    """Whether the first part decodes to a JOSE header."""
    header = _decode(secret.partition(".")[0])
    return header.startswith(b"{") and (b'"alg"' in header or b'"typ"' in header)


def _decode(text: str) -> bytes:
    whole = text.rstrip("=")
    try:
        return base64.urlsafe_b64decode(whole + "=" * (-len(whole) % 4))
    except (binascii.Error, ValueError):
        return b""


def _key_body(secret: str) -> bool:
    """Whether a PEM block holds key material and not just dots."""
    return _BODY.search(secret) is not None


@dataclass(frozen=True, slots=True)
class Format:
    """One kind of secret."""

    kind: str
    """Name in reports and placeholders."""
    pattern: re.Pattern[str]
    """Where it stands; group 1 is the secret where there is a group, else the whole match."""
    is_real: Callable[[str], bool] = not_masked
    """A last look at the matched secret: False for stand-ins."""


@dataclass(frozen=True, slots=True)
class Family:
    """Formats behind one cheap test."""

    formats: tuple[Format, ...]
    """The formats, the more specific first."""
    literals: tuple[str, ...] = ()
    """One of these must be in the text, unless ``gate`` is set."""
    gate: re.Pattern[str] | None = None
    """This must be found in the text."""

    def may_hold(self, text: str) -> bool:
        """Whether ``text`` is worth a look with the patterns."""
        if self.gate is not None:
            return self.gate.search(text) is not None
        return any(literal in text for literal in self.literals)


def _format(kind: str, pattern: str, is_real: Callable[[str], bool] = not_masked) -> Format:
    return Format(kind, re.compile(pattern), is_real)


def _word(name: str) -> str:
    """Pattern for ``name``, a pattern of fixed width, where it starts a word.

    An escape, a percent code or a terminal colour in front is no word. The name comes first, as
    ``re`` then searches for a literal at memory speed, and the look behind reaches over it.
    """
    return (
        rf"{name}(?:(?<![A-Za-z0-9_-]{name})|(?<=\\[nrtbf]{name})|(?<=\\u[0-9A-Fa-f]{{4}}{name})"
        rf"|(?<=%[0-9A-F]{{2}}{name})|(?<=[0-9]m{name}))"
    )


_PEM_NAME = r"(?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
_PEM_BREAK = r"(?:\\[nrt]|[\s\"'+,|\\]|(?<=\s)[0-9]{1,6}(?=\s))"
_PEM = (
    rf"-----BEGIN {_PEM_NAME}"
    rf"(?:(?:(?!-----)[\s\S]){{40,16000}}?-----END {_PEM_NAME}"
    # Cut off before its end: as far as lines of base64 go.
    rf"|(?:{_PEM_BREAK}{{1,24}}(?:Proc-Type|DEK-Info)[^\n\\]{{1,80}}){{0,2}}"
    rf"(?:{_PEM_BREAK}{{1,24}}[A-Za-z0-9+/=]{{32,}}+){{1,400}}"
    rf"(?:{_PEM_BREAK}{{1,24}}[A-Za-z0-9+/=]{{1,31}}+(?![ A-Za-z0-9]))?)"
)
_DISCORD_DIGITS = r"[MNO][DTjz][AEIMQUYcgk][w-z0-5]"
"""Base64 of three decimal digits: a bot token starts with its user's number."""

_AWS_NAMES = (
    r"ecret[_-]?[Aa]ccess[_-]?[Kk]ey",
    r"ECRET_ACCESS_KEY",
    r"aws_secret(?:_key)?",
    r"AWS_SECRET(?:_KEY)?",
)
_AWS_VALUE = (
    r"(?:\s*:\s*str)?[\s\"'\\\]\)>=:,|]{1,16}"
    r"(?![0-9a-f]{40})((?:[A-Za-z0-9+]|\\{0,2}/){40})(?![A-Za-z0-9+/=])"
)
_HEADERS = ("uthorization", "UTHORIZATION")
_HEADER_VALUE = r"(?: header)?[^A-Za-z0-9]{1,16}(?:[fbru]{1,2}[\\\"']{1,4})?"

FAMILIES: tuple[Family, ...] = (
    Family(
        literals=("PRIVATE KEY",),
        formats=(
            _format(
                "gcp-private-key",
                rf"private_key[\\\"']{{1,6}}\s*:\s*[\\\"']{{1,6}}({_PEM})",
                _key_body,
            ),
            _format("private-key", _PEM, _key_body),
        ),
    ),
    Family(
        gate=re.compile(r"_(?:(?<=gh[pousr]_|npm_|gsk_|pat_|ive_|_v1_)|(?<=hf_))[A-Za-z0-9_]{16}"),
        formats=(
            _format("github-token", r"gh[pousr]_[A-Za-z0-9_]{30,255}"),
            _format("github-token", r"github_pat_[A-Za-z0-9_]{36,}"),
            _format("huggingface-token", rf"{_word('hf_')}[A-Za-z0-9]{{30,}}"),
            _format("npm-token", r"npm_[A-Za-z0-9]{36,}"),
            _format("stripe-live-key", r"sk_live_[A-Za-z0-9]{16,}"),
            _format("stripe-live-key", r"rk_live_[A-Za-z0-9]{16,}"),
            _format("digitalocean-token", r"do[opr]_v1_[0-9a-f]{64}"),
            _format("groq-api-key", rf"{_word('gsk_')}[A-Za-z0-9]{{48,}}"),
        ),
    ),
    Family(
        gate=re.compile(
            r"-(?:(?<=sk-)[A-Za-z0-9_-]{20}|(?<=xox[a-z]-)[A-Za-z0-9-]{10}|(?<=xapp-)[0-9]-"
            r"|(?<=key-)[0-9a-f]{32}|(?<=pypi-)AgE|(?<=PX-|pi-)[A-Za-z0-9_-]{24}"
            r"|(?<=v1\.0-)[0-9a-f]{24}-|(?:(?<=gl[a-z]{2}-)|(?<=gl[a-z]{3}-)|(?<=gl[a-z]{4}-)"
            r"|(?<=gl[a-z]{5}-))[A-Za-z0-9_-]{20})"
        ),
        formats=(
            _format("anthropic-api-key", rf"{_word('sk-ant-')}[A-Za-z0-9_-]{{20,}}"),
            _format(
                "openai-api-key",
                rf"{_word('sk-')}(?:proj|svcacct|admin|None|or-v1)-[A-Za-z0-9_-]{{20,}}",
            ),
            _format("openai-api-key", rf"{_word('sk-')}[A-Za-z0-9]{{20,}}", _letters_and_digits),
            _format(
                "gitlab-token",
                r"gl(?:pat|dt|ft|soat|rt|cbt|ptt|imt|agent)-[A-Za-z0-9_-]{20,}"
                r"(?:\.[0-9a-z]{2}\.[0-9a-z]{9})?",
            ),
            _format("slack-token", r"xox(?:e\.xox)?[abeoprs]-[A-Za-z0-9-]{10,}"),
            _format("slack-token", rf"{_word('xapp-')}[0-9]-[A-Za-z0-9-]{{16,}}"),
            _format("google-oauth-client-secret", rf"{_word('GOCSPX-')}[A-Za-z0-9_-]{{24,}}"),
            _format("pypi-token", r"pypi-AgE[A-Za-z0-9_-]{30,}"),
            _format("mailgun-api-key", rf"{_word('key-')}[0-9a-f]{{32}}(?![A-Za-z0-9_-])"),
            _format("nvidia-api-key", rf"{_word('nvapi-')}[A-Za-z0-9_-]{{48,}}"),
            _format(
                "cloudflare-origin-ca-key", rf"{_word('v1[.]0-')}[0-9a-f]{{24}}-[0-9a-f]{{146}}"
            ),
        ),
    ),
    Family(
        gate=re.compile(
            r"\.(?:(?<=[A-Za-z0-9_-]{20}\.)[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27}|(?:(?<=SG\.)|(?<=ya29\.))[A-Za-z0-9_-]{16})"
        ),
        formats=(
            _format(
                "sendgrid-api-key",
                rf"{_word('SG[.]')}[A-Za-z0-9_-]{{16,32}}\.[A-Za-z0-9_-]{{32,64}}",
            ),
            _format("google-oauth-token", rf"{_word('ya29[.]')}[A-Za-z0-9_-]{{20,}}"),
            _format(
                "discord-bot-token",
                rf"{_word(_DISCORD_DIGITS)}(?:{_DISCORD_DIGITS}){{4,5}}[A-Za-z0-9_-]{{0,4}}"
                r"\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}",
            ),
        ),
    ),
    Family(
        literals=("eyJ",),
        formats=(
            _format(
                "jwt",
                rf"{_word('eyJ')}[A-Za-z0-9_-]{{8,}}+\.[A-Za-z0-9_-]{{8,}}+\.[A-Za-z0-9_-]{{16,}}",
                _jwt,
            ),
        ),
    ),
    Family(
        gate=re.compile(r"A(?<=A[KSB]IA|ACCA)[A-Z2-7]{16}"),
        formats=(
            _format(
                "aws-access-key-id",
                rf"{_word('A')}(?:KIA|SIA|BIA|CCA)[A-Z2-7]{{16}}(?![A-Za-z0-9])",
            ),
        ),
    ),
    Family(
        literals=("AIza",),
        formats=(
            _format(
                "google-api-key",
                rf"{_word('AIza')}(?<![+/]AIza)[A-Za-z0-9_-]{{35}}(?![A-Za-z0-9_-])",
            ),
        ),
    ),
    Family(
        literals=(
            "ecret_access_key",
            "ECRET_ACCESS_KEY",
            "ecretAccessKey",
            "ecret-access-key",
            "aws_secret",
            "AWS_SECRET",
        ),
        formats=tuple(_format("aws-secret-access-key", name + _AWS_VALUE) for name in _AWS_NAMES),
    ),
    Family(
        literals=("IQoJb3JpZ2lu",),
        formats=(_format("aws-session-token", r"IQoJb3JpZ2lu[A-Za-z0-9+/=]{80,}"),),
    ),
    Family(
        literals=_HEADERS,
        formats=tuple(
            _format(kind, header + _HEADER_VALUE + value, is_real)
            for header in _HEADERS
            for kind, value, is_real in (
                ("bearer-token", r"(?i:bearer)(?:\s|%20)+([A-Za-z0-9._~+/=-]{12,})", _opaque),
                ("basic-auth", r"(?i:basic)(?:\s|%20)+([A-Za-z0-9+/=_-]{8,})", _user_and_password),
            )
        ),
    ),
    Family(
        gate=re.compile(
            r":(?:A[A-Za-z0-9_-]{34}|(?:\\{0,4}/){2}[^\s/:@\"'`<>\\?#]{0,64}:[^\s/@\"'`<>\\]{3,200}@)"
        ),
        formats=(
            _format("telegram-bot-token", r":(?<=[0-9]{8}:)(A[A-Za-z0-9_-]{34})(?![A-Za-z0-9_-])"),
            _format(
                "url-password",
                r":(?:\\{0,4}/){2}[^\s/:@\"'`<>\\?#]{0,64}"
                r":([^\s/@\"'`<>\\]{3,200})@(?=[A-Za-z0-9_\[$%{.-])",
                _password,
            ),
        ),
    ),
    Family(
        literals=("hooks.slack",),
        formats=(
            _format(
                "slack-webhook",
                r"hooks\.slack(?:-gov)?\.com(?:\\{0,4}/)(?:services|workflows|triggers)"
                r"(?:\\{0,4}/[A-Za-z0-9_]{6,}){1,3}\\{0,4}/([A-Za-z0-9_]{16,})",
            ),
        ),
    ),
    Family(
        literals=("webhooks",),
        formats=(
            _format(
                "discord-webhook",
                r"discord(?:app)?\.com\\{0,4}/api\\{0,4}/(?:v[0-9]+\\{0,4}/)?webhooks"
                r"\\{0,4}/[0-9]{15,21}\\{0,4}/([A-Za-z0-9_-]{40,})",
            ),
        ),
    ),
    Family(
        gate=re.compile(r"SK[0-9a-f]{32}"),
        formats=(_format("twilio-api-key", rf"{_word('SK')}[0-9a-f]{{32}}(?![A-Za-z0-9])"),),
    ),
    Family(
        gate=re.compile(r"dapi[0-9a-f]{32}"),
        formats=(
            _format(
                "databricks-token", rf"{_word('dapi')}[0-9a-f]{{32}}(?:-[0-9])?(?![A-Za-z0-9])"
            ),
        ),
    ),
    Family(
        literals=("AccountKey=",),
        formats=(_format("azure-storage-key", r"AccountKey=([A-Za-z0-9+/]{86}==)"),),
    ),
)
"""Every format, the more specific families first: where two overlap, the earlier names it."""

KINDS: tuple[str, ...] = tuple(
    dict.fromkeys(format_.kind for family in FAMILIES for format_ in family.formats)
)
"""Every kind of secret that is found, by name."""
