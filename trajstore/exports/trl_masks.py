"""The file with which TRL's preference trainers keep the loss on the agent's own turns."""

from __future__ import annotations

TRAINER_FILE = "trl_masks.py"
"""Its name in the folder of an export."""

TRAINERS = '''"""TRL's DPO and KTO trainers with loss on the agent's own turns only.

TRL puts loss on everything behind the prompt. In a run of an agent that holds tool results and
words of users. These trainers multiply TRL's mask with one made from the columns `trainable`,
`chosen_trainable` and `rejected_trainable`: one flag a message. Written for TRL 1.16.
"""

import json

from trl import DPOTrainer, KTOTrainer
from trl.chat_template_utils import get_training_chat_template, has_generation_markers


def _token_mask(tokenizer, messages, trainable, tools):
    """For each token of the messages, 1 where a message that may be trained on was generated."""
    rendered = tokenizer.apply_chat_template(
        messages,
        tools=json.loads(tools) if isinstance(tools, str) else tools,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    mask = list(rendered["assistant_masks"])
    flags = [t for m, t in zip(messages, trainable) if m["role"] == "assistant"]
    spans = [i for i, bit in enumerate(mask) if bit and (i == 0 or not mask[i - 1])]
    if len(spans) != len(flags):
        raise ValueError(
            f"the chat template marks {len(spans)} assistant turns of {len(flags)}; it needs "
            "{% generation %} around each"
        )
    for start, trained in zip(spans, flags):
        end = start
        while not trained and end < len(mask) and mask[end]:
            mask[end] = 0
            end += 1
    return mask


def _mark_generation(tokenizer):
    if not has_generation_markers(tokenizer.chat_template):
        tokenizer.chat_template = get_training_chat_template(tokenizer)


def _side(example, tokenizer, name, flags):
    """The mask of one side, cut to the tokens that TRL has for it."""
    whole = example["prompt"] + example[name]
    trainable = [False] * len(example["prompt"]) + list(example[flags])
    mask = _token_mask(tokenizer, whole, trainable, example.get("tools"))
    mask = mask[len(example["prompt_ids"]) :]
    if len(mask) != len(example[f"{name}_ids"]):
        raise ValueError(f"{name}: {len(mask)} masked tokens, {len(example[f'{name}_ids'])} tokens")
    return mask


class _Masked:
    """A collator whose completion mask is multiplied with the rows' own masks."""

    def __init__(self, collator, masks):
        self._collator = collator
        self._masks = masks

    def __call__(self, examples):
        bits = []
        for example in examples:
            ids = {ids: example[mask] for ids, mask in self._masks.items() if ids in example}
            bits.append({**example, "prompt_ids": [0] * len(example["prompt_ids"]), **ids})
        batch, mask = self._collator(examples), self._collator(bits)
        for name in ("", "KL_"):
            if f"{name}completion_mask" in batch:
                batch[f"{name}completion_mask"] *= mask[f"{name}input_ids"]
        return batch


class MaskedDPOTrainer(DPOTrainer):
    """DPO whose sums run over the agent's tokens."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        masks = {f"{side}_ids": f"{side}_mask" for side in ("chosen", "rejected")}
        self.data_collator = _Masked(self.data_collator, masks)

    def _prepare_dataset(self, dataset, processing_class, args, dataset_name):
        _mark_generation(processing_class)

        def mark(example):
            return {
                f"{side}_mask": _side(example, processing_class, side, f"{side}_trainable")
                for side in ("chosen", "rejected")
            }

        return super()._prepare_dataset(dataset, processing_class, args, dataset_name).map(mark)

    def _set_signature_columns_if_needed(self):
        super()._set_signature_columns_if_needed()
        names = ("chosen_mask", "rejected_mask")
        self._signature_columns += [n for n in names if n not in self._signature_columns]


class MaskedKTOTrainer(KTOTrainer):
    """KTO whose sums, the KL term too, run over the agent's tokens."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        masks = {"completion_ids": "own_mask", "KL_completion_ids": "KL_own_mask"}
        self.data_collator = _Masked(self.data_collator, masks)

    def _prepare_dataset(self, dataset, processing_class, args, dataset_name):
        _mark_generation(processing_class)

        def mark(example):
            return {"own_mask": _side(example, processing_class, "completion", "trainable")}

        def rotate(batch):
            return {"KL_own_mask": batch["own_mask"][-1:] + batch["own_mask"][:-1]}

        made = super()._prepare_dataset(dataset, processing_class, args, dataset_name).map(mark)
        return made.map(rotate, batched=True, batch_size=args.per_device_train_batch_size)

    def _set_signature_columns_if_needed(self):
        super()._set_signature_columns_if_needed()
        names = ("own_mask", "KL_own_mask")
        self._signature_columns += [n for n in names if n not in self._signature_columns]
'''
"""Its text."""
