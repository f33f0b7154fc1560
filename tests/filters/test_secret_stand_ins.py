from __future__ import annotations

import base64
import hashlib
import time
import uuid
from pathlib import Path

import pytest

from trajstore.filters import find_secrets

# Every value is made up. They are put together here so that no scanner of this repository trips.
B62 = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0u1V2w3X4y5Z6"


@pytest.mark.parametrize(
    "text",
    [
        "sk-...",
        "sk-**********",
        "OPENAI_API_KEY=sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-ant-api03-...",
        "sk-ant-api03-xK9mZ",
        "sk-proj-your-key-goes-in-this-place-please",
        "ghp_" + "x" * 36,
        "ghp_" + "X" * 36,
        "ghp_" + "*" * 36,
        "AKIA" + "X" * 16,
        "hf_...",
        "hf_model_name_or_path_for_the_tokenizer",
        "npm_config_registry_and_more_of_a_long_name",
        "Authorization: Bearer ${GITHUB_TOKEN}",
        "Authorization: Bearer $GITHUB_TOKEN_2_LONG",
        "Authorization: Bearer <token>",
        "Authorization: Bearer YOUR_ACCESS_TOKEN_123",
        "headers = {'Authorization': f'Bearer {token}'}",
        "'Authorization': 'Bearer ' + self.access_token_v2",
        "Authorization: Bearer authentication",
        "Authorization: Basic realm=x",
        "Authorization: Basic abcdefghi",
        "Authorization: Basic authentication",
        "https://user:pass@example.com",
        "https://user:password@example.com",
        "https://oauth2:${GITLAB_TOKEN}@gitlab.com/x",
        "https://{user}:{password}@host",
        "https://%s:%s@host",
        "https://bob:***@host",
        "https://<user>:<pw>@host",
        "https://example.com:8080/@scope/pkg",
        "git@github.com:owner/repo.git",
        "AWS_SECRET_ACCESS_KEY=<your secret>",
        "aws_secret_access_key = os.environ['AWS_SECRET_ACCESS_KEY']",
        "https://hooks.slack.com/services/T00000000/B00000000/" + "X" * 24,
        "-----BEGIN " + "PRIVATE KEY-----",
        "-----BEGIN " + "PRIVATE KEY-----\n...\n-----END " + "PRIVATE KEY-----",
        "-----BEGIN PUBLIC KEY-----\n" + B62 + "\n-----END PUBLIC KEY-----",
        "-----BEGIN CERTIFICATE-----\n" + B62 + "\n-----END CERTIFICATE-----",
        "[REDACTED:openai-api-key]",
        "https://bob:[REDACTED:url-password]@host",
    ],
)
def test_stand_ins_and_public_things_are_no_secrets(text: str) -> None:
    assert find_secrets(text) == []


@pytest.mark.parametrize(
    "text",
    [
        hashlib.sha1(b"x").hexdigest(),
        hashlib.sha256(b"x").hexdigest(),
        hashlib.md5(b"x").hexdigest(),
        f"state_key={hashlib.md5(b'x').hexdigest()}",
        f"state_key-{hashlib.md5(b'x').hexdigest()}",
        f"aws_secret_access_key changed in commit {hashlib.sha1(b'x').hexdigest()}",
        f"sha512-{base64.b64encode(hashlib.sha512(b'x').digest()).decode()}",
        str(uuid.UUID(int=2**127 + 12345)),
        "call_" + B62[:24],
        "toolu_01" + B62[:22],
        "msg_01" + B62[:22],
        "task-" + B62[:30],
        "disk-" + B62[:30],
        "mask-rcnn-inception-resnet-v2-atrous-coco",
        ".sk-toggleable__content, #sk-container-id-1",
        "eyJ0aGlzIjoiaXMgbm90IGEgand0In0",
        "eyJmb28uYmFy.eyJiYXo.not-a-signed-token-at-all",
        "MultiHeadAttentionLayerXY.config.a_rather_long_method_name_here_x",
        "SKIP" + "0" * 32,
        "2026-01-02T03:04:05.123456:A",
    ],
)
def test_hashes_and_ids_survive(text: str) -> None:
    assert find_secrets(f"id: {text}\n") == []


def test_a_base64_image_survives() -> None:
    blob = b"".join(hashlib.sha512(n.to_bytes(4, "big")).digest() for n in range(20_000))
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        image = "data:image/png;base64," + encode(blob).decode()
        assert find_secrets(image) == []


def test_basic_authentication_of_an_example_is_no_secret() -> None:
    example = base64.b64encode(b"user:password").decode()
    assert find_secrets(f"Authorization: Basic {example}") == []


@pytest.mark.parametrize(
    "unit",
    [
        "eyJ",
        "eyJhbGciOi.",
        "sk-",
        "sk-ant-",
        "://a:",
        "-----BEGIN " + "PRIVATE KEY-----\n",
        "AKIA",
        "_",
        "gh",
        ".aaaaaa.",
        "authorization: ",
        "xoxb-",
        "aws_secret_access_key ",
        "key-",
    ],
)
def test_no_input_makes_it_slow(unit: str) -> None:
    text = unit * (400_000 // len(unit))
    start = time.process_time()
    find_secrets(text)
    assert time.process_time() - start < 2


def test_clean_logs_pass_at_more_than_twenty_megabytes_a_second(real_data: Path) -> None:
    text = "".join(p.read_text(errors="replace") for p in sorted(real_data.rglob("*.traj")))
    seconds = []
    for _ in range(3):
        start = time.process_time()
        assert find_secrets(text) == []
        seconds.append(time.process_time() - start)
    assert len(text) / min(seconds) > 20e6


def test_no_real_file_holds_what_looks_like_a_secret(real_data: Path) -> None:
    found = {
        path.name: [m.kind for m in find_secrets(path.read_text(errors="replace"))]
        for path in real_data.rglob("*")
        if path.is_file() and path.suffix != ".eval"
    }
    assert {name: k for name, k in found.items() if k} == {}
