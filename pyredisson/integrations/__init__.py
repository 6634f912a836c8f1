"""Locks in frameworks. Each module needs the extra of its name, and is loaded only if it is imported."""
