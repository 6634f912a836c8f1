"""``pyredisson watch``: what happens to locks, as it happens. It only reads, and never changes a setting."""
