"""Logits processors: masks for the generate loops of other libraries.

================  =====================================  ===================================
module            runtime                                arrays
================  =====================================  ===================================
``numpy``         llama-cpp-python, own loops in NumPy   ``numpy.ndarray``
``torch``         transformers                           ``torch.Tensor``
================  =====================================  ===================================

Each module has the function ``logits_processor(output, tokenizer, *, max_tokens, end_token_ids)``.
Those of MLX are in ``proxy_engine.integrations``.

Reading order: ``arguments`` (machines from schemas and types, vocabularies from tokenizers),
``row_masks`` (the rows of a loop, by their histories, and their masks as arrays of a runtime).
Importing this package imports no runtime.
"""
