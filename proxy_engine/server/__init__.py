"""An OpenAI-compatible server: encoders of the engine's event stream, and what a server needs.

Needs the extra ``proxy-engine[server]``. Nothing of the library imports this package.
"""
