"""Sets of JSON values: terms, normal forms, and the shapes of arrays and objects."""
