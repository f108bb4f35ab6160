"""An OpenAI-compatible server, as an ASGI application and as a process.

Requires the extra ``proxy-engine[server]``. No other package of the library imports this one.
"""
