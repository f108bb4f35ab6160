"""Transcription of speech by the models of mlx-audio.

Reading order: ``options``, ``results``; ``loading``; ``whisper`` (the model, and which parts are
mlx-audio's), ``whisper_decoder`` (its decoder in the engine's loop), ``timestamp_rules``,
``segments``, ``windows`` (long recordings), ``constrained`` (one window as a prompt); ``parakeet``.
"""
