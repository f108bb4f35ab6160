"""The prefixes of the ids of stored objects, by which the router finds the worker that has them."""

from __future__ import annotations

from collections.abc import Mapping

ITEM_ID_PREFIXES: Mapping[str, str] = {
    "message": "msg_",
    "function_call": "fc_",
    "function_call_output": "fco_",
    "custom_tool_call": "ctc_",
    "custom_tool_call_output": "ctco_",
    "reasoning": "rs_",
}
"""Prefixes of items, by type."""

STORED_ID_PREFIXES = ("resp_", "conv_", *ITEM_ID_PREFIXES.values())
"""Prefixes of responses, conversations and items."""
