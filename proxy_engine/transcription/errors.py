"""Exceptions within a transcription, which callers do not see."""


class DecodingCancelledError(Exception):
    """The caller cancelled the transcription."""
