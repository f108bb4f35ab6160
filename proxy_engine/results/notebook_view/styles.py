"""Inline styles that the views share."""

BOX = "line-height:1.45"
PRE = (
    "margin:0.2em 0;white-space:pre-wrap;overflow-wrap:anywhere;word-break:normal;background:none;"
    "color:inherit"
)
DIM = "opacity:0.65;font-size:85%"
CELL = "text-align:left;vertical-align:top;padding:0.1em 0.8em 0.1em 0;white-space:pre-wrap"
TABLE = "border-collapse:collapse;color:inherit;background:none"

PARTS = {
    "text": "",
    "reasoning": "background:rgba(163,113,247,0.22)",
    "structured": "background:rgba(56,139,253,0.20)",
    "tool call": "background:rgba(46,160,67,0.22)",
    "marker": "opacity:0.55",
}
"""By kind of a part, its shade."""

ORIGINS = {
    "s": "",
    "f": "border-bottom:2px dotted rgba(128,128,128,0.9)",
    "d": "border-bottom:2px solid rgba(46,160,67,0.8)",
    "c": "border-bottom:2px solid rgba(163,113,247,0.8)",
}
"""By letter of ``GenerationResult.token_origins``, the underline."""

ORIGIN_NAMES = {
    "s": "sampled",
    "f": "forced by the grammar",
    "d": "drafted and accepted",
    "c": "drawn from scored options",
}


def shade(probability: float) -> str:
    """Return a background that is stronger the lower a probability is."""
    return f"background:rgba(230,126,0,{0.45 * (1 - probability):.2f})"
