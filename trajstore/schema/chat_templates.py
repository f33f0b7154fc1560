"""Chat templates of our own, for models whose template cannot say what a trajectory holds.

Text for ``tokenizer.apply_chat_template(..., chat_template=...)``; rollouts and trainers share it,
so that a policy is trained on the very text that it is asked with.
"""

from __future__ import annotations

_ASSISTANT = (
    "{%- if m['role'] == 'assistant' -%}"
    "{{- '<|im_start|>assistant\n' -}}{%- generation -%}"
    "{%- if m['reasoning_content'] -%}"
    "{{- '<think>\n' + m['reasoning_content'] + '\n</think>\n\n' -}}{%- endif -%}"
    "{%- if m['content'] -%}{{- m['content'] -}}{%- endif -%}"
    "{%- for call in m['tool_calls'] or [] -%}"
    "{%- if m['content'] or not loop.first -%}{{- '\n' -}}{%- endif -%}"
    "{{- '<tool_call>\n{\"name\": ' -}}{{- call['function']['name'] | tojson -}}"
    "{{- ', \"arguments\": ' -}}"
    "{%- if call['function']['arguments'] is string -%}{{- call['function']['arguments'] -}}"
    "{%- else -%}{{- call['function']['arguments'] | tojson -}}{%- endif -%}"
    "{{- '}\n</tool_call>' -}}{%- endfor -%}"
    "{{- '<|im_end|>' -}}{%- endgeneration -%}{{- '\n' -}}"
)
"""A turn of the assistant, in both."""

CHATML_TOOLS = (
    "{%- set lead = messages and messages[0]['role'] == 'system' -%}"
    "{%- if tools -%}"
    "{{- '<|im_start|>system\n' -}}"
    "{%- if lead -%}{{- messages[0]['content'] + '\n\n' -}}{%- endif -%}"
    "{{- '# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>' -}}"
    "{%- for tool in tools -%}{{- '\n' -}}{{- tool | tojson -}}{%- endfor -%}"
    "{{- '\n</tools>\n\nFor each function call, return a json object with function name and "
    "arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n'
    "</tool_call><|im_end|>\n' -}}"
    "{%- elif lead -%}"
    "{{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' -}}"
    "{%- endif -%}"
    "{%- for m in messages -%}" + _ASSISTANT + "{%- elif m['role'] == 'tool' -%}"
    "{%- if loop.first or messages[loop.index0 - 1]['role'] != 'tool' -%}"
    "{{- '<|im_start|>tool' -}}{%- endif -%}"
    "{{- '\n<tool_response>\n' + m['content'] + '\n</tool_response>' -}}"
    "{%- if loop.last or messages[loop.index0 + 1]['role'] != 'tool' -%}"
    "{{- '<|im_end|>\n' -}}{%- endif -%}"
    "{%- elif not (loop.first and lead) -%}"
    "{{- '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
"""ChatML with tools in the form of Hermes, which vLLM's parser ``hermes`` reads: definitions in
``<tools>`` in the system turn, calls as ``<tool_call>``, results as ``<tool_response>`` in a turn
of role ``tool``, reasoning in ``<think>``. Earlier turns are never changed by later ones. Arguments
that are a string stand as the model wrote them. What the assistant produced, with ``<|im_end|>``,
is between ``{% generation %}`` marks. (Hermes function calling, Nous Research 2024; the wording of
the tool prompt is that of Qwen2.5.)"""

BARE_CHATML = (
    "{%- for m in messages -%}" + _ASSISTANT + "{%- elif m['role'] != 'system' -%}"
    "{{- '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' -}}"
    "{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}"
)
"""As :data:`CHATML_TOOLS` without system turns and tool definitions, and with each result in a turn
of its own: for small models that were trained on one environment and need not be told its tools.
Calls are written the same, so the same parser reads them."""
