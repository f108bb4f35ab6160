"""Structured generation on Apple MLX."""
