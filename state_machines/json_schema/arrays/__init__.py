"""Arrays: shapes, items and nodes."""
