"""Bytes, connections and servers, once for all runtimes."""
