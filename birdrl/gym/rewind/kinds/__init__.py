"""The bug kinds, a module per family. Every module in this folder registers its kinds when it is imported.

A new kind is a function with the decorator `mutation` or `construction` in a module here, and its case in the tests:
docs/bug_kinds.md.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

for _module in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
    import_module(f"{__name__}.{_module.name}")
