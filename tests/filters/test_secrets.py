from __future__ import annotations

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trajstore.filters import SECRET_KINDS, SecretMatch, find_secrets, redact

# Every value is made up. They are put together here so that no scanner of this repository trips.
B62 = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6"
HEX = "0123456789abcdef" * 10


def b64(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


HEADER, CLAIMS = b64('{"alg":"HS256","typ":"JWT"}'), b64('{"sub":"1234567890"}')
JWT = f"{HEADER}.{CLAIMS}.{B62[:43]}"
PEM_LINES = [
    "-----BEGIN RSA " + "PRIVATE KEY-----",
    *[B62[:48] + "MIIEpQIBAAKCAQEA"] * 3,
    "c0FfEe==",
]
PEM = "\n".join([*PEM_LINES, "-----END RSA " + "PRIVATE KEY-----"])

SAMPLES = [
    ("aws-access-key-id", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("aws-access-key-id", "ASIA" + "Q3EGRIKEXAMPLE22"),
    ("aws-session-token", "IQoJb3JpZ2lu" + B62 * 4),
    ("github-token", "ghp_" + B62[:36]),
    ("github-token", "gho_" + B62[:36]),
    ("github-token", "ghs_" + B62[:36]),
    ("github-token", "github_pat_" + B62[:22] + "_" + (B62 + B62)[:59]),
    ("gitlab-token", "glpat-" + B62[:20]),
    ("gitlab-token", "glpat-" + B62[:27] + ".01.0w1a2b3c4"),
    ("slack-token", "xoxb-" + "123456789012-123456789012-" + B62[:24]),
    ("slack-token", "xapp-1-" + "A012-345-" + HEX[:64]),
    ("openai-api-key", "sk-" + B62[:20] + "T3BlbkFJ" + B62[20:40]),
    ("openai-api-key", "sk-proj-" + B62 + "_" + B62 + "-x"),
    ("openai-api-key", "sk-or-v1-" + HEX[:64]),
    ("anthropic-api-key", "sk-ant-api03-" + B62 + "-" + B62[:40] + "AA"),
    ("google-api-key", "AIza" + "Sy" + B62[:33]),
    ("google-oauth-token", "ya29." + "a0AfH6SM" + B62),
    ("google-oauth-client-secret", "GOCSPX-" + B62[:28]),
    ("stripe-live-key", "sk_live_" + B62[:24]),
    ("stripe-live-key", "rk_live_" + B62[:24]),
    ("huggingface-token", "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh"),
    ("npm-token", "npm_" + B62[:36]),
    ("pypi-token", "pypi-AgEIcHlwaS5vcmc" + B62 + "-" + B62),
    ("sendgrid-api-key", "SG." + B62[:22] + "." + B62[:43]),
    ("twilio-api-key", "SK" + HEX[:32]),
    ("discord-bot-token", b64("104857600123456789") + ".GaBcD1." + B62[:38]),
    ("databricks-token", "dapi" + HEX[:32]),
    ("digitalocean-token", "dop_v1_" + HEX[:64]),
    ("mailgun-api-key", "key-" + HEX[:32]),
    ("groq-api-key", "gsk_" + B62),
    ("nvidia-api-key", "nvapi-" + B62 + B62[:12]),
    ("cloudflare-origin-ca-key", "v1.0-" + HEX[:24] + "-" + HEX[:146]),
    ("jwt", JWT),
    ("private-key", PEM),
]
IN_CONTEXT = [
    (
        "aws-secret-access-key",
        "AWS_SECRET_ACCESS_KEY={}",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ),
    (
        "aws-secret-access-key",
        '"SecretAccessKey": "{}"',
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    ),
    ("aws-secret-access-key", "aws configure set aws_secret_access_key {}", B62[:40]),
    ("aws-secret-access-key", "<SecretAccessKey>{}</SecretAccessKey>", B62[:40]),
    ("bearer-token", "Authorization: Bearer {}", B62[:32]),
    ("bearer-token", "{{'authorization': 'Bearer {}'}}", "opaque-" + B62[:12]),
    ("bearer-token", 'curl -H "Authorization: bearer {}" https://x.org', B62[:16]),
    ("basic-auth", "Authorization: Basic {}", base64.b64encode(b"bob:hunter2!").decode()),
    ("url-password", "https://bob:{}@example.com/x", "hunter2"),
    ("url-password", "postgresql://svc:{}@db:5432/x", "p%40ss-w0rd!"),
    ("url-password", "redis://:{}@cache:6379", "s3cr3t"),
    ("telegram-bot-token", "https://api.telegram.org/bot123456789:{}/getMe", "AAF" + B62[:32]),
    ("slack-webhook", "https://hooks.slack.com/services/T0123ABCD/B0123ABCD/{}", B62[:24]),
    ("discord-webhook", "https://discord.com/api/webhooks/123456789012345678/{}", B62 + B62[:16]),
    ("azure-storage-key", "AccountName=x;AccountKey={};EndpointSuffix=y", (B62 * 2)[:86] + "=="),
    ("gcp-private-key", '{{"private_key": "{}\\n"}}', PEM.replace("\n", "\\n")),
]


def kinds(text: str) -> list[str]:
    return [match.kind for match in find_secrets(text)]


@pytest.mark.parametrize(("kind", "secret"), SAMPLES)
def test_a_secret_is_found_with_its_exact_place(kind: str, secret: str) -> None:
    text = f'TOKEN="{secret}" # done'
    assert find_secrets(text) == [SecretMatch(kind, 7, 7 + len(secret))]


@pytest.mark.parametrize(("kind", "context", "secret"), IN_CONTEXT)
def test_a_secret_without_a_mark_is_known_by_its_context(
    kind: str, context: str, secret: str
) -> None:
    assert redact(context.format(secret))[0] == context.format(f"[REDACTED:{kind}]")


def test_every_kind_has_a_sample_here() -> None:
    assert {kind for kind, *_ in [*SAMPLES, *IN_CONTEXT]} == set(SECRET_KINDS)


@pytest.mark.parametrize(("kind", "secret"), SAMPLES)
@pytest.mark.parametrize(
    "before", ["", "\n", "=", "(", "\\n", "\\\\n", "\\u003d", "\x1b[32m", "%3D"]
)
def test_what_stands_before_a_secret_does_not_hide_it(kind: str, secret: str, before: str) -> None:
    assert kinds(before + secret) == [kind]


@pytest.mark.parametrize(("kind", "context", "secret"), IN_CONTEXT)
def test_secrets_are_found_inside_json_text_inside_json_text(
    kind: str, context: str, secret: str
) -> None:
    once = json.dumps({"out": context.format(secret)})
    twice = json.dumps([once])
    for text in (once, twice, once.replace("/", "\\/")):
        clean, found = redact(text)
        assert found == {kind: 1}
        assert "[REDACTED:" in str(json.loads(clean))


def test_a_private_key_goes_as_a_whole_also_from_a_numbered_listing() -> None:
    listing = "\n".join(f"{n:6}\t{line}" for n, line in enumerate(PEM.split("\n"), 1))
    assert redact(f"$ cat -n id_rsa\n{listing}\n$") == (
        "$ cat -n id_rsa\n     1\t[REDACTED:private-key]\n$",
        {"private-key": 1},
    )


def test_a_private_key_that_was_cut_off_goes_as_far_as_it_goes() -> None:
    cut = "\n".join(PEM_LINES[:3])
    assert redact(f"{cut}\n{B62[:20]}\n[output truncated]")[0] == (
        "[REDACTED:private-key]\n[output truncated]"
    )
    assert redact(f"{cut}\nThat was the key.")[0] == "[REDACTED:private-key]\nThat was the key."


def test_a_private_key_goes_as_a_whole_from_source_code() -> None:
    lines = PEM.split("\n")
    code = "KEY = (\n" + "".join(f'    "{line}\\n"\n' for line in lines) + ")\nprint(KEY)"
    assert redact(code)[0] == 'KEY = (\n    "[REDACTED:private-key]\\n"\n)\nprint(KEY)'


@pytest.mark.parametrize("name", ["", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED "])
def test_private_keys_of_every_algorithm_are_found(name: str) -> None:
    begin, end = f"-----BEGIN {name}" + "PRIVATE KEY-----", f"-----END {name}" + "PRIVATE KEY-----"
    assert redact(f"<{begin}\r\n{B62}\r\n{B62[:20]}==\r\n{end}>")[0] == "<[REDACTED:private-key]>"


def test_a_pgp_key_with_its_headers_goes_as_a_whole() -> None:
    block = (
        "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\nVersion: 1\nComment: mine\n\n"
        f"{B62}\n{B62}\n=aBcD\n-----END PGP " + "PRIVATE KEY BLOCK-----"
    )
    assert redact(f"{block}\nbye")[0] == "[REDACTED:private-key]\nbye"


def test_an_encrypted_key_that_was_cut_off_goes_with_its_headers() -> None:
    cut = f"{PEM_LINES[0]}\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A1B\n\n{B62}\n{B62}"
    assert redact(cut)[0] == "[REDACTED:private-key]"


def test_two_private_keys_are_two() -> None:
    assert redact(f"{PEM}\nand\n{PEM}")[0] == "[REDACTED:private-key]\nand\n[REDACTED:private-key]"


def test_the_more_specific_kind_names_an_overlap() -> None:
    assert kinds(f"Authorization: Bearer {JWT}") == ["jwt"]
    assert kinds(f"https://oauth2:glpat-{B62[:20]}@gitlab.com") == ["gitlab-token"]


def test_an_overlap_is_covered_whole() -> None:
    clean, found = redact(f"https://oauth2:glpat-{B62[:20]}!more@gitlab.com")
    assert clean == "https://oauth2:[REDACTED:gitlab-token]@gitlab.com"
    assert found == {"gitlab-token": 1}


def test_every_occurrence_is_counted_by_kind() -> None:
    key, token = SAMPLES[0][1], SAMPLES[3][1]
    clean, found = redact(f"{key} {token} {key}")
    assert found == {"aws-access-key-id": 2, "github-token": 1}
    assert "AKIA" not in clean
    assert "ghp_" not in clean


EXACT_LENGTH = [
    ("aws-access-key-id", "AKIA" + "IOSFODNN7EXAMPLE"),
    ("google-api-key", "AIza" + "Sy" + B62[:33]),
    ("twilio-api-key", "SK" + HEX[:32]),
    ("databricks-token", "dapi" + HEX[:32]),
    ("mailgun-api-key", "key-" + HEX[:32]),
]


@pytest.mark.parametrize(("kind", "secret"), EXACT_LENGTH)
def test_a_format_of_fixed_length_is_part_of_nothing_longer(kind: str, secret: str) -> None:
    assert kinds(secret) == [kind]
    assert find_secrets(secret[:-1]) == []
    assert find_secrets(f"{secret}0A") == []
    assert find_secrets(f"a{secret}") == []


@pytest.mark.parametrize(("kind", "secret"), SAMPLES)
def test_a_secret_at_the_end_of_a_long_text_is_found(kind: str, secret: str) -> None:
    filler = "The caf\u00e9 \U0001f600 log says: step done.\n" * 2000
    assert find_secrets(filler + secret) == [
        SecretMatch(kind, len(filler), len(filler) + len(secret))
    ]


def test_neighbours_are_kept_apart() -> None:
    first, second = SAMPLES[3][1], SAMPLES[5][1]
    assert redact(f"{first},{second}")[0] == "[REDACTED:github-token],[REDACTED:github-token]"


@pytest.mark.parametrize("password", ["hunter2", "p%40ss", "Passw0rd!", "a$b&c=d", "postgres"])
def test_any_password_in_a_url_goes_and_the_rest_of_it_stays(password: str) -> None:
    clean, found = redact(f"git clone https://bob:{password}@host.org:8443/a/b.git?x=1#y")
    assert clean == "git clone https://bob:[REDACTED:url-password]@host.org:8443/a/b.git?x=1#y"
    assert found == {"url-password": 1}


@pytest.mark.parametrize("line", ["Authorization", "AUTHORIZATION", "Proxy-Authorization"])
def test_a_bearer_token_is_found_in_every_spelling_of_the_header(line: str) -> None:
    token = B62[:24]
    assert redact(f"{line}: Bearer {token}\n")[0] == f"{line}: Bearer [REDACTED:bearer-token]\n"
    assert redact(f"{line}: BEARER {token}\n")[0] == f"{line}: BEARER [REDACTED:bearer-token]\n"


def test_kinds_are_plain_names() -> None:
    assert all(kind.replace("-", "").isalnum() and kind.islower() for kind in SECRET_KINDS)
    assert len(set(SECRET_KINDS)) == len(SECRET_KINDS)


def test_clean_text_is_the_same_object() -> None:
    text = "nothing to see in sha256:" + HEX[:64]
    assert redact(text)[0] is text


@given(
    st.lists(st.sampled_from([s for _, s in SAMPLES] + [c.format(s) for _, c, s in IN_CONTEXT])),
    st.text(max_size=40),
)
def test_redacting_twice_is_redacting_once(secrets: list[str], filler: str) -> None:
    clean, found = redact(f" {filler} ".join(secrets))
    assert redact(clean) == (clean, {})
    assert sum(found.values()) >= (1 if secrets else 0)


@given(st.text(max_size=200), st.sampled_from(SAMPLES))
def test_only_the_secret_goes(filler: str, sample: tuple[str, str]) -> None:
    kind, secret = sample
    text = f"{filler} {secret} {filler}"
    if find_secrets(f"{filler}  {filler}") == []:
        assert redact(text)[0] == f"{filler} [REDACTED:{kind}] {filler}"
