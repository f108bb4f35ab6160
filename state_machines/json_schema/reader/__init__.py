"""From a schema to terms: the keywords, the documents and the dialects."""
