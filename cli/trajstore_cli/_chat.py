"""Options of commands that ask a chat model, and the model that they name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trajstore.memory import Chat

EndpointOption = Annotated[
    str, typer.Option(metavar="URL", help="OpenAI-compatible endpoint of the model: .../v1.")
]
ModelOption = Annotated[str, typer.Option(metavar="M", help="Name of the model.")]
KeyOption = Annotated[
    str,
    typer.Option("--api-key-env", metavar="NAME", help="Environment variable with the API key."),
]
MaxTokensOption = Annotated[
    int, typer.Option(metavar="N", min=1, help="Tokens of one answer at most.")
]


def chat_of(endpoint: str, model: str, api_key_env: str, max_tokens: int = 1024) -> Chat:
    """The model behind an endpoint, as a function of messages."""
    from trajstore.pipeline import ChatEndpoint

    if not model:
        raise typer.BadParameter("an endpoint needs a model", param_hint="--model")
    asked = ChatEndpoint(
        base_url=endpoint,
        model=model,
        api_key=os.environ.get(api_key_env),
        max_tokens=max_tokens,
    )
    return lambda messages: asked.complete(messages).text
