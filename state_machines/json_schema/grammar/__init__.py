"""From terms to grammar nodes."""
