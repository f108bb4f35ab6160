"""Token masks: which tokens of a vocabulary may come next in a state.

``reference`` is the definition. ``mask_store`` and ``mask_maker`` compute it.
"""
