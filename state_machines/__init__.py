"""Grammars, vocabularies and token masks. Needs NumPy, never mlx."""
