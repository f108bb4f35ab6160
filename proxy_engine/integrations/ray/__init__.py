"""Extraction on Ray. Importing this package does not import Ray; the first use of ``extract`` does.

``__init__.pyi`` lists the public names.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
