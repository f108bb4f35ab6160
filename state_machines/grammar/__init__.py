"""The grammar algebra: languages as immutable expressions, matched by derivatives."""
