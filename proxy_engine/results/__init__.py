"""Results, events, and the confidences of values."""
