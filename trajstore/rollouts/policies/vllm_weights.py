"""New weights for a vLLM server that runs: adapters, full weights, and the version it reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trajstore.errors import EndpointError
from trajstore.rollouts.policies.endpoint_client import ModelClient, RefusedError

_UNKNOWN = frozenset({403, 404, 405, 501})
_LOADING_S = 600.0


def is_adapter(checkpoint: Path) -> bool:
    """Whether a folder holds a PEFT adapter, not full weights.

    Raises:
        EndpointError: it holds neither.
    """
    if (checkpoint / "adapter_config.json").is_file():
        return True
    if (checkpoint / "config.json").is_file():
        return False
    message = (
        f"{checkpoint} holds no weights: neither adapter_config.json of an adapter nor config.json "
        "of a model; give the folder that save_pretrained or a training job wrote"
    )
    raise EndpointError(message, path=checkpoint)


class VllmWeights:
    """Loads weights into one server, one caller at a time."""

    def __init__(self, base_url: str, *, api_key: str | None = None) -> None:
        """Prepare; nothing is sent yet.

        Args:
            base_url: URL up to and with ``/v1``.
            api_key: sent as bearer token.
        """
        self._api = ModelClient(base_url, api_key=api_key, timeout_s=_LOADING_S, retries=0)
        root = self._api.base_url.removesuffix("/v1")
        self._root = ModelClient(root, api_key=api_key, timeout_s=_LOADING_S, retries=0)

    def check(self, model: str) -> None:
        """Ask whether a model is served.

        Raises:
            EndpointError: it is not, or the server does not answer.
        """
        self._api.check_model(model)

    def adapter(self, folder: Path, name: str) -> None:
        """Load an adapter under a name; the base model and other adapters stay as they are.

        Raises:
            EndpointError: the server cannot load it.
        """
        given = {"lora_name": name, "lora_path": str(folder.resolve()), "load_inplace": True}
        advice = (
            "start the server with --enable-lora --max-lora-rank RANK and "
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING=True, and give a folder that the server can read"
        )
        _advised(self._api, "load_lora_adapter", given, advice)
        self._tell(name)

    def drop_adapter(self, name: str) -> None:
        """Forget an adapter; one that is gone already is no error.

        Raises:
            EndpointError: the server does not answer.
        """
        try:
            self._api.tell("unload_lora_adapter", {"lora_name": name})
        except RefusedError as error:
            if error.status not in {400, *_UNKNOWN}:
                raise

    def full(self, folder: Path, version: str) -> None:
        """Replace the weights of the model; no request may be under way.

        Raises:
            EndpointError: the server cannot load them.
        """
        advice = (
            "start the server with VLLM_SERVER_DEV_MODE=1, for nobody else to reach, and give a "
            "folder that the server can read, with weights of the model's own shape"
        )
        path = str(folder.resolve())
        reload = {"method": "reload_weights", "kwargs": {"weights_path": path}}
        _advised(self._root, "pause?mode=wait", {}, advice)
        try:
            _advised(self._root, "collective_rpc", reload, advice)
            self._root.tell("reset_prefix_cache")
        finally:
            self._root.tell("resume")
        self._tell(version)

    def version(self) -> str | None:
        """The version that the server says it has; None where it knows of none.

        Raises:
            EndpointError: the server does not answer.
        """
        try:
            told = self._root.get("weight_info", lambda v: v.get("weight_version"))
        except RefusedError as error:
            if error.status in _UNKNOWN:
                return None
            raise
        return None if told is None else str(told)

    def _tell(self, version: str) -> None:
        """Have the server report the version, where it can."""
        try:
            self._root.tell("update_weight_version", {"new_version": version})
        except RefusedError as error:
            if error.status not in _UNKNOWN:
                raise


def _advised(client: ModelClient, path: str, value: dict[str, Any], advice: str) -> None:
    try:
        client.tell(path, value)
    except RefusedError as error:
        raise RefusedError(f"{error}; {advice}", status=error.status) from error
