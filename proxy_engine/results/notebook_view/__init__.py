"""Results as HTML, for notebooks.

The HTML has no scripts and no style sheets. Colours are those of the notebook: text inherits its
colour, and shades are translucent, so that they fit light and dark themes. All content is escaped.
"""

from .results import to_html

__all__ = ["to_html"]
