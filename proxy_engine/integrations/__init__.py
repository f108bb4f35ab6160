"""Classes of other frameworks that run on an engine in the same process, one module a framework.

Each module imports its framework and raises ``MissingExtraError``, which names the extra, where it
is not installed. Nothing in the package imports these modules.
"""
