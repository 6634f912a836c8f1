"""Several locks as one: multi-locks, and Redlock over independent nodes."""
