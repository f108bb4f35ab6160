"""Arrays: shapes, and how an array goes on."""
