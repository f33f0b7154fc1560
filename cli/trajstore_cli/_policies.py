"""Policies of the command line: profiles of scripted agents, and models."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trajstore.rollouts import Policy, Sampling, Shipped
    from trajstore.rollouts.dialect import Dialect

UrlOption = Annotated[
    str, typer.Option(metavar="URL", help="Server of an endpoint or vllm policy: .../v1.")
]
ModelOption = Annotated[
    str, typer.Option(metavar="M", help="Model: its name on the server, or its folder.")
]
TokenizerOption = Annotated[
    str, typer.Option(metavar="DIR", help="Folder with the tokenizer of a vllm policy's model.")
]
TemplateOption = Annotated[
    str,
    typer.Option(
        metavar="T", help="How vllm and transformers write messages: chatml-tools, bare or own."
    ),
]
VersionOption = Annotated[
    str | None, typer.Option(metavar="V", help="What the runs call the weights of the model.")
]
TemperatureOption = Annotated[
    float, typer.Option(metavar="T", min=0.0, help="Temperature of the model.")
]
TokenIdsOption = Annotated[
    bool, typer.Option("--token-ids", help="Have an endpoint tell tokens and logprobs; vLLM does.")
]

EVERY = "all"
"""Every profile of the scripted agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What the command line says of a model."""

    url: str
    """Of its server, with the version."""
    name: str
    """Of the model on its server, or its folder."""
    tokenizer: str
    """Folder of the tokenizer; the model's own where empty."""
    template: str
    """How messages become text."""
    version: str | None
    """What the runs call the weights."""
    temperature: float
    """Of sampling."""
    max_tokens: int
    """Of one turn."""
    token_ids: bool
    """Whether a chat endpoint must tell tokens."""
    api_key_env: str
    """Environment variable with the key."""

    @property
    def sampling(self) -> Sampling:
        """How to draw."""
        from trajstore.rollouts import Sampling

        return Sampling(temperature=self.temperature, max_tokens=self.max_tokens)


def policies_of(chosen: Shipped, wanted: list[str] | None, model: Model) -> list[Policy]:
    """The policies that were asked for, the most able profile where none was."""
    names = list(dict.fromkeys(wanted or chosen.profiles[:1]))
    if EVERY in names:
        names = [*chosen.profiles, *(n for n in names if n in _MODELS)]
    unknown = [name for name in names if name not in chosen.profiles and name not in _MODELS]
    if unknown:
        known = ", ".join((*chosen.profiles, EVERY, *_MODELS))
        message = f"there is no policy '{unknown[0]}' here; those there are: {known}"
        raise typer.BadParameter(message, param_hint="--policy")
    return [_MODELS[n](model) if n in _MODELS else chosen.agent(n) for n in names]


def _endpoint(model: Model) -> Policy:
    from trajstore.rollouts import EndpointPolicy

    policy = EndpointPolicy(
        base_url=_url(model, "endpoint"),
        model=_name(model, "endpoint", "its name on the server"),
        version=model.version,
        api_key=os.environ.get(model.api_key_env) or None,
        temperature=model.temperature,
        max_tokens=model.max_tokens,
        token_ids=model.token_ids,
    )
    policy.check()
    return policy


def _vllm(model: Model) -> Policy:
    from trajstore.rollouts import VllmServerPolicy

    url, name = _url(model, "vllm"), _name(model, "vllm", "its name on the server")
    policy = VllmServerPolicy(
        url,
        _dialect(model),
        model=name,
        version=model.version,
        sampling=model.sampling,
        api_key=os.environ.get(model.api_key_env) or None,
    )
    policy.check()
    return policy


def _transformers(model: Model) -> Policy:
    from trajstore._optional import require
    from trajstore.rollouts.policies.checkpoints import holds_weights, load_causal
    from trajstore.rollouts.policies.transformers_policy import TransformersPolicy

    folder = _name(model, "transformers", "the folder that holds it")
    if not holds_weights(Path(folder)):
        message = f"{folder} holds no model: neither config.json nor adapter_config.json is in it"
        raise typer.BadParameter(message, param_hint="--model")
    dialect = _dialect(model)
    library = require("transformers", extra="train", purpose="Sampling from a model")
    library.utils.logging.disable_progress_bar()
    return TransformersPolicy(
        load_causal(Path(folder)).eval(),
        dialect,
        name=Path(folder).name,
        version=model.version,
        temperature=model.temperature,
        max_tokens=model.max_tokens,
        device=_device(),
    )


_MODELS: Mapping[str, Callable[[Model], Policy]] = {
    "endpoint": _endpoint,
    "vllm": _vllm,
    "transformers": _transformers,
}


def _url(model: Model, policy: str) -> str:
    if not model.url:
        message = f"the policy '{policy}' needs a server, such as http://localhost:8000/v1"
        raise typer.BadParameter(message, param_hint="--url")
    return model.url


def _name(model: Model, policy: str, what: str) -> str:
    if not model.name:
        message = f"the policy '{policy}' needs a model: {what}"
        raise typer.BadParameter(message, param_hint="--model")
    return model.name


def _dialect(model: Model) -> Dialect:
    from trajstore.rollouts.dialect import Dialect
    from trajstore.rollouts.policies.checkpoints import load_words
    from trajstore.rollouts.templates import BARE, CHATML, template_of

    folder = model.tokenizer or model.name
    if not Path(folder).is_dir():
        message = (
            f"there is no folder {folder}; prompts are made of tokens here, so give the folder "
            "with the tokenizer of the model"
        )
        raise typer.BadParameter(message, param_hint="--tokenizer")
    tokenizer = load_words(Path(folder))
    templates = {t.name: t for t in (CHATML, BARE)}
    if model.template == "own":
        return Dialect(tokenizer, template_of(tokenizer))
    if model.template not in templates:
        message = (
            f"there is no template '{model.template}'; those there are: own, chatml-tools, bare"
        )
        raise typer.BadParameter(message, param_hint="--template")
    return Dialect(tokenizer, templates[model.template])


def _device() -> str | None:
    from trajstore._optional import require

    torch = require("torch", extra="train", purpose="Sampling from a model")
    return "cuda" if torch.cuda.is_available() else None
