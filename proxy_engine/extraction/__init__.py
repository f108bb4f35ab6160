"""Extraction: the same answer format for many records, as Python values, frames and files.

Reading order: :mod:`~proxy_engine.extraction.inputs` (records as items),
:mod:`~proxy_engine.extraction.records` (their text, images and fields) and
:mod:`~proxy_engine.extraction.sources` (readers of objects, lines, tables and files),
:mod:`~proxy_engine.extraction.answer_format` (values, JSON and columns of answers),
:mod:`~proxy_engine.extraction.outcomes` (the batch), :mod:`~proxy_engine.extraction.rows` and
:mod:`~proxy_engine.extraction.outputs` (files that are resumed by their manifests),
:mod:`~proxy_engine.extraction.run`, :mod:`~proxy_engine.extraction.results`.
"""
