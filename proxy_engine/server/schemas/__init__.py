"""Requests and responses as pydantic models."""
