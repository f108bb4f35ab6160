"""Images and audio recordings of prompts, from bytes to pixels and samples, within limits.

Reading order: ``options`` (the limits), ``addresses`` and ``fetching`` (URLs), ``sources`` (the
bytes of a medium), ``image_formats`` and ``images``,
``audio_formats``, ``audio_decoding``, ``samples`` and ``audio``.
"""
