"""Requests and responses of each endpoint, as pydantic models."""
