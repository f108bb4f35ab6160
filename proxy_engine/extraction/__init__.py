"""Extraction: the same answer format for many records, as Python values, frames and files.

Reading order: :mod:`~proxy_engine.extraction.inputs` (records as items),
:mod:`~proxy_engine.extraction.records` and :mod:`~proxy_engine.extraction.frames` (Python objects
and data frames as inputs), :mod:`~proxy_engine.extraction.answer_format` (values, JSON and columns
of answers), :mod:`~proxy_engine.extraction.prompts`, :mod:`~proxy_engine.extraction.outcomes` (the
batch), :mod:`~proxy_engine.extraction.rows` and :mod:`~proxy_engine.extraction.outputs` (files that
are resumed), :mod:`~proxy_engine.extraction.results`.
"""
