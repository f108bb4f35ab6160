"""Plain functions on arrays of logits."""
