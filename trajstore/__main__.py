"""``python -m trajstore``: the command line, where its script is not on the path."""

from __future__ import annotations

from importlib import import_module

if __name__ == "__main__":
    import_module("trajstore_cli.main").main()
