"""Token masks: which tokens of a vocabulary may come next in a state."""
