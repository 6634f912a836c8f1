"""Bytes, connections and servers, once for all runtimes."""

__all__: list[str] = []
