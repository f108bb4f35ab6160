"""Checks of values that callers give, and the texts of their errors."""
