"""An OpenAI-compatible server, as an ASGI application and as a process.

Requires the extra ``proxy-engine[server]``. Of the other packages, integrations alone import it.
"""

from typing import TYPE_CHECKING

import lazy_loader  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from .app import create_app as create_app
    from .settings import ServerSettings as ServerSettings

# The first use of a name imports the engine.
_MODULES = {"app": ["create_app"], "settings": ["ServerSettings"]}
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs=_MODULES)
