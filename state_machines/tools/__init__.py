"""Tool calls in the native formats of model families."""
