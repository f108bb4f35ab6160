"""Evaluates terms, and decides which are empty."""
