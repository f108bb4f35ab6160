"""The process: optional packages, backends, logging and tracing."""
