"""The root state machine: one answer out of text, reasoning, structured output and tool calls."""
