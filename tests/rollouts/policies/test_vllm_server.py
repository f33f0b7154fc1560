"""The server's life, with a program that behaves like vLLM's; a real one: ``test_vllm_real``."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from trajstore.errors import EndpointError
from trajstore.rollouts import VllmServer

PROGRAM = """
import http.server, json, os, subprocess, sys, time
print("loading weights", flush=True)
if os.environ.get("FAKE") == "fails":
    sys.exit("no such model: " + sys.argv[2])
if os.environ.get("FAKE") == "hangs":
    time.sleep(60)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
told = {"arguments": sys.argv[1:], "pids": [os.getpid(), child.pid], "variables": dict(os.environ)}

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())
    def log_message(self, *given):
        pass

port = int(sys.argv[sys.argv.index("--port") + 1])
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def fake(folder: Path, behaviour: str = "serves", **changes: Any) -> VllmServer:
    package = folder / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    (package / "api_server.py").write_text(PROGRAM)
    variables = {"PYTHONPATH": str(folder), "FAKE": behaviour}
    return VllmServer(model="some-model", environment=variables, **changes)


def asked(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url) as answer:
        told: dict[str, Any] = json.loads(answer.read())
    return told


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def gone(pids: list[int]) -> bool:
    """Whether all of them end; the system may take a moment to do what it was told."""
    ends = time.monotonic() + 30
    while any(map(alive, pids)) and time.monotonic() < ends:
        time.sleep(0.01)
    return not any(map(alive, pids))


def test_it_serves_inside_the_block_and_nothing_of_it_is_left_behind(tmp_path: Path) -> None:
    with fake(tmp_path) as server:
        pids = asked(server.url)["pids"]
        assert all(map(alive, pids))
    assert gone(pids)


def test_it_ends_also_where_the_block_fails(tmp_path: Path) -> None:
    pids: list[int] = []

    def failing() -> None:
        with fake(tmp_path) as server:
            pids.extend(asked(server.url)["pids"])
            raise OSError("mine")

    with pytest.raises(OSError, match="mine"):
        failing()
    assert gone(pids)


def test_it_is_started_as_training_needs_it(tmp_path: Path) -> None:
    with fake(tmp_path, dtype="float32", lora_rank=8, max_model_len=512, eager=True) as server:
        told = asked(server.url)
    given = " ".join(told["arguments"])
    assert given == (
        f"--model some-model --served-model-name policy --host 127.0.0.1 --port {server.port} "
        "--dtype float32 --logprobs-mode processed_logprobs --generation-config vllm "
        "--max-model-len 512 --enable-lora --max-loras 1 --max-cpu-loras 4 --max-lora-rank 8 "
        "--enforce-eager"
    )
    assert told["variables"]["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "True"


def test_a_server_that_ends_is_shown_with_what_it_said_last(tmp_path: Path) -> None:
    with (
        pytest.raises(EndpointError, match=r"(?s)exit code 1 .*no such model: some-model"),
        fake(tmp_path, "fails"),
    ):
        pass


def test_a_server_that_does_not_answer_in_time_is_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with (
        pytest.raises(EndpointError, match=r"(?s)within 4 s; allow more.*loading weights"),
        fake(tmp_path, "hangs", start_s=4.0, log=log),
    ):
        pass
    assert log.read_text() == "loading weights\n"


def test_a_python_that_is_not_there_is_named() -> None:
    missing = VllmServer(model="m", python="/nowhere/python")
    with pytest.raises(EndpointError, match="give the Python that has vLLM"), missing:
        pass


def test_the_output_is_at_hand_while_it_runs(tmp_path: Path) -> None:
    with fake(tmp_path) as server:
        assert server.output() == "loading weights"
    assert server.output() == ""
    assert os.environ.get("FAKE") is None
