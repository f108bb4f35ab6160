"""What a model may answer, and what it has answered.

Reading order: ``response_format`` (a caller's form of it to a machine and a parser),
``tool_formats`` (how the model writes calls and reasoning), ``compiler`` (all of it as one
machine); ``reader`` (what was written to events and to a result), ``partial_json``.
"""
