"""``pyredisson top``: what all locks do, once a second. It only reads, and keeps its load on the server small."""
